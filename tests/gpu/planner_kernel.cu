// Planners and the step driver as device code. Compiled only (tests/gpu/compile.sh): a planner that calls a host
// function, or needs what device code lacks, fails here instead of in the kernels that will be made from it.
#include "algorithms/all_gather_direct.h"
#include "algorithms/all_gather_ring.h"
#include "algorithms/all_to_all_bruck.h"
#include "algorithms/all_to_all_direct.h"
#include "algorithms/all_to_all_pairwise.h"
#include "algorithms/binomial.h"
#include "algorithms/broadcast_circulant.h"
#include "algorithms/chain.h"
#include "algorithms/circulant.h"
#include "algorithms/dissemination.h"
#include "algorithms/double_tree.h"
#include "algorithms/gather_binomial.h"
#include "algorithms/gather_flat.h"
#include "algorithms/gather_reduce.h"
#include "algorithms/halving_doubling.h"
#include "algorithms/nhr.h"
#include "algorithms/one_shot.h"
#include "algorithms/recursive_doubling.h"
#include "algorithms/reduce_binomial.h"
#include "algorithms/reduce_chain.h"
#include "algorithms/reduce_flat.h"
#include "algorithms/reduce_scatter_direct.h"
#include "algorithms/reduce_scatter_ring.h"
#include "algorithms/ring.h"
#include "algorithms/scatter_all_gather.h"
#include "algorithms/scatter_binomial.h"
#include "algorithms/scatter_flat.h"
#include "algorithms/two_shot.h"
#include "schedule/drive.h"

namespace hocket {

// The program of one rank as a source of the step driver.
template <class Planner>
struct RankSource {
  const Planner& planner;
  uint32_t rank;

  __device__ Step step(uint32_t lane, uint32_t i) const { return planner.step(rank, lane, i); }
  __device__ uint32_t steps(uint32_t lane) const { return planner.steps(rank, lane); }
  __device__ Dep dep(uint32_t lane, uint32_t i, uint32_t d) const { return planner.dep(rank, lane, i, d); }
};

// Nothing ever blocks; what is executed is written down.
struct Recorder {
  Step* steps;
  uint32_t count;
  uint32_t capacity;

  __device__ bool dep_done(const Dep&, uint32_t) const { return true; }
  __device__ bool pop_ready(uint32_t) const { return true; }
  __device__ bool push_ready(uint32_t, const Step&) const { return true; }
  __device__ void execute(const Step& s, const Cursor&) {
    if (count < capacity) steps[count] = s;
    ++count;
  }
};

// One thread per rank: its steps, lane after lane for two rounds, and its links. Each rank has room for `capacity` of
// each.
template <class Planner>
__device__ void record(const Planner& planner, Step* steps, Peer* links, uint32_t* counts, uint32_t capacity) {
  const uint32_t rank = blockIdx.x * blockDim.x + threadIdx.x;
  if (rank >= planner.n) return;
  const RankSource<Planner> source{planner, rank};
  Recorder recorder{steps + uint64_t{rank} * capacity, 0, capacity};
  for (uint32_t lane = 0; lane < planner.lanes(rank); ++lane) {
    Cursor cursor;
    cursor.lane = lane;
    run_lane(source, cursor, 2, recorder);
  }
  counts[rank] = recorder.count;

  Peer* const first = links + uint64_t{rank} * capacity;
  const uint32_t in = planner.links_in(rank), out = planner.links_out(rank);
  for (uint32_t k = 0; k < in + out && k < capacity; ++k) {
    first[k] = k < in ? planner.in(rank, k) : planner.out(rank, k - in);
  }
}

#define PLANNER(Type)                                                                              \
  extern "C" __global__ void plan_##Type(Type planner, Step* steps, Peer* links, uint32_t* counts, \
                                         uint32_t capacity) {                                      \
    record(planner, steps, links, counts, capacity);                                               \
  }
PLANNER(Ring)
PLANNER(RecursiveDoubling)
PLANNER(OneShot)
PLANNER(GatherReduce)
PLANNER(TwoShot)
PLANNER(DoubleTree)
PLANNER(Circulant)
PLANNER(HalvingDoubling)
PLANNER(Swing)
PLANNER(Nhr)
PLANNER(BidirectionalRing)
PLANNER(Binomial)
PLANNER(Chain)
PLANNER(ScatterAllGather)
PLANNER(BroadcastCirculant)
PLANNER(Dissemination)
PLANNER(ReduceFlat)
PLANNER(ReduceBinomial)
PLANNER(ReduceChain)
PLANNER(AllGatherRing)
PLANNER(AllGatherDirect)
PLANNER(AllGatherCirculant)
PLANNER(AllGatherNhr)
PLANNER(AllGatherPat4)
PLANNER(AllGatherPat1)
PLANNER(ReduceScatterRing)
PLANNER(ReduceScatterDirect)
PLANNER(ReduceScatterCirculant)
PLANNER(ReduceScatterNhr)
PLANNER(ReduceScatterPat4)
PLANNER(ReduceScatterPat1)
PLANNER(AllToAllDirect)
PLANNER(AllToAllPairwise)
PLANNER(AllToAllBruck)
PLANNER(GatherFlat)
PLANNER(GatherBinomial)
PLANNER(ScatterFlat)
PLANNER(ScatterBinomial)

}  // namespace hocket
