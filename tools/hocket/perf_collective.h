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
  int rank = 0, nranks = 1;
  // alltoallv: elements for and from each rank, and where they begin.
  std::vector<size_t> sendcounts, sdispls, recvcounts, rdispls;
  // Null: the call blocks. Else it leaves a request there (none if there was nothing to do), for the caller to wait
  // for.
  const hktCallOptions_t* options = nullptr;
};

// What a program of nccl-tests does with the buffers of its collective.
enum class Traffic : uint8_t {
  collective,  // the collective itself
  shift,       // sendrecv: each rank sends to the next
  hypercube,   // an all-gather by exchanges over the dimensions of a hypercube
  uneven       // alltoallv: blocks of different sizes
};

struct PerfCollective {
  const char* name;       // NAME_perf is the program of nccl-tests
  Collective collective;  // has its buffers, root and operation
  hktResult_t (*call)(const PerfCall&);
  Traffic traffic = Traffic::collective;

  // How much of the in-place half there is: alltoallv does not take one buffer, and the result of sendrecv depends on
  // who is first.
  bool runs_in_place() const { return traffic != Traffic::uneven; }
  bool checks_in_place() const { return traffic != Traffic::uneven && traffic != Traffic::shift; }
};

std::span<const PerfCollective> perf_collectives();
// Null if there is none of this name.
const PerfCollective* find_perf_collective(std::string_view name);
// Null if so many ranks can run it, else why not.
const char* unsupported_ranks(const PerfCollective& test, int nranks);

// The count argument for a row of `bytes`: the elements that fit in the larger buffer; where that is one of blocks, a
// block has a multiple of 16 bytes.
uint64_t perf_count(Collective collective, uint64_t bytes, uint64_t element_bytes, int nranks);
// Fills in the tables of alltoallv from rank, nranks and count: each rank sends and receives count elements a rank in
// the mean, 2 / (n + 1) of that to itself and n times as much to the rank before it.
void make_uneven(PerfCall& call);
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

// What the output of call.rank consists of; of a rank that has one.
std::vector<Piece> perf_expected(const PerfCollective& test, const PerfCall& call);

// algbw / (size / time): the part of the size that counts.
double alg_factor(const PerfCollective& test, int nranks);
// busbw / algbw: what the best possible algorithm moves over a link for each byte.
double bus_factor(const PerfCollective& test, int nranks);

}  // namespace hocket::tool
