// What `hocket perf` measures: the programs of nccl-tests, and the barrier. For each: how large the buffers of a row
// are, which call it makes, and what that call must give. Sizes and bandwidths are defined as in nccl-tests
// (doc/PERFORMANCE.md there). Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "hocket/hocket.h"
#include "schedule/step.h"

namespace hocket::tool {

// The arguments of a call on one rank.
struct PerfCall {
  hktComm_t comm = nullptr;
  void* send = nullptr;  // null where only the root has one
  void* recv = nullptr;  // the same
  uint64_t count = 0;    // elements: of the vector, or of a block
  hktDataType_t type = hktFloat32;
  hktRedOp_t op = hktSum;
  int root = 0;
};

struct PerfCollective {
  const char* name;       // NAME_perf is the program of nccl-tests
  Collective collective;  // has its buffers, root and operation
  hktResult_t (*call)(const PerfCall&);
};

std::span<const PerfCollective> perf_collectives();
// Null if there is none of this name.
const PerfCollective* find_perf_collective(std::string_view name);

// The count argument for a row of `bytes`: the elements that fit in the larger buffer; where that is one of blocks, a
// block has a multiple of 16 bytes.
uint64_t perf_count(Collective collective, uint64_t bytes, uint64_t element_bytes, int nranks);
// Elements of the buffers of a rank that has them.
uint64_t perf_in_elements(Collective collective, uint64_t count, int nranks);
uint64_t perf_out_elements(Collective collective, uint64_t count, int nranks);

// A stretch of a rank's result.
struct Piece {
  uint64_t at, count;  // elements of the rank's output
  int source;          // the rank whose input it is, or kReduced: of all of them
  uint64_t first;      // where in that input it begins
};
inline constexpr int kReduced = -1;

// What the output of `rank` consists of; of a rank that has one.
std::vector<Piece> perf_expected(Collective collective, int rank, int nranks, const PerfCall& call);

// busbw / algbw: what the best possible algorithm moves over a link for each byte of the larger buffer.
double bus_factor(Collective collective, int nranks);

}  // namespace hocket::tool
