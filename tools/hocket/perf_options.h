// What `hocket perf` was asked for. Flags mean what they mean in nccl-tests; those without a meaning on a CPU accept
// their default and refuse anything else.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hocket/hocket.h"
#include "launch.h"
#include "perf_collective.h"

namespace hocket::tool {

enum class Average : uint8_t { rank0 = 0, mean = 1, min = 2, max = 3 };

struct PerfOptions {
  const PerfCollective* test = nullptr;  // never null once perf_options() has made it
  int np = 0;                            // ranks to start here; 0: the rank comes from the environment
  int threads = 1, gpus = 1;             // as given; their product is np where there is no --np
  uint64_t min_bytes = 0, max_bytes = 0;
  uint64_t step_bytes = 0;  // used when step_factor is 0
  uint64_t step_factor = 0;
  int iters = 20, warmup = 1, check = 1;
  int cycles = 1;     // 0: until the program is stopped
  int timeout_s = 0;  // of a call; 0: as the environment says
  Average average = Average::mean;
  std::vector<hktDataType_t> types;  // of these and ops, the pairs that unsupported() has nothing against
  std::vector<hktRedOp_t> ops;
  std::vector<int> roots;  // empty: every rank
  std::string transport;   // empty: as the environment says
  std::string json;        // path, empty: none
  bool percentiles = false, timestamps = false;
  int registered = 0;                     // 1: buffers of hktMemAlloc, registered with the communicator
  bool explain = false;                   // say why each size is done as it is
  bool nonblocking = false;               // calls with a request, which is waited for
  Bind bind = Bind::core;                 // of ranks started here
  std::optional<double> least_bandwidth;  // NCCL_TESTS_MIN_BW, GB/s

  Collective collective() const { return test->collective; }

  std::vector<uint64_t> sizes() const;  // ascending, bytes
};

// How the program was called: `hocket perf COLLECTIVE`, or by the name of a program of nccl-tests, whose ranks are
// started here where no launcher has done it.
enum class PerfForm : uint8_t { subcommand, program };

// The texts of the flags before they mean anything.
struct PerfFlags {
  PerfForm form = PerfForm::subcommand;
  std::string collective = "all_reduce", min = "32M", max = "32M", step = "1M", factor, type = "float", op = "sum",
              root = "0";
  std::string np, threads = "1", gpus = "1", bind = "core", timeout = "0";
  PerfOptions options;
  int average = 1;
  std::vector<std::pair<std::string, std::string>> fixed;  // flag, value: no meaning here
};

void add_perf_flags(CLI::App& app, PerfFlags& flags);
// Checks everything that can be checked without a communicator, in the flags and in the environment. An error is one
// line.
Result<PerfOptions> perf_options(const PerfFlags& flags);

// "8", "64K", "1M", "2G" (base 1024).
Result<uint64_t> parse_size(const std::string& text, const std::string& flag);

}  // namespace hocket::tool
