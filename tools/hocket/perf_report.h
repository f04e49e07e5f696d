// What a benchmark prints: nccl-tests' table, and its JSON (version 3) without the dump of the environment.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perf_options.h"

namespace hocket::tool {

struct Device {
  int rank, pid;
  std::string host;
};

// One half of a row: out of place or in place.
struct Measured {
  double time_us = 0, alg_bw = 0, bus_bw = 0;  // bandwidths in GB/s (1e9)
  int64_t wrong = -1;                          // elements; -1: not checked
  double p50_us = 0, p99_us = 0;               // of the slowest rank, when asked for
};

struct Row {
  uint64_t size = 0, count = 0;  // bytes, elements
  std::string type, op;          // "none" when there is no operation
  int root = -1;
  Measured out_of_place, in_place;
};

class Report {
 public:
  Report(const PerfOptions& options, std::vector<Device> devices, std::vector<std::string> args);
  void begin(std::FILE* to) const;
  void row(std::FILE* to, const Row& row);
  void end(std::FILE* to) const;
  nlohmann::ordered_json json() const;
  // No wrong element, and no less bandwidth than asked for.
  bool good() const { return wrong_ == 0 && fast_enough(); }

 private:
  double average_bus_bw() const { return halves_ == 0 ? 0 : bus_bw_sum_ / halves_; }
  bool fast_enough() const {  // nccl-tests forgives a tenth
    return !options_.least_bandwidth || average_bus_bw() >= 0.9 * *options_.least_bandwidth;
  }

  const PerfOptions& options_;
  std::vector<Device> devices_;
  std::vector<std::string> args_;
  std::string start_;
  std::vector<Row> rows_;
  double bus_bw_sum_ = 0;
  int halves_ = 0;
  int64_t wrong_ = 0;
};

// A number in at most `width` characters, as nccl-tests prints times and bandwidths.
std::string fit(double value, int width);

}  // namespace hocket::tool
