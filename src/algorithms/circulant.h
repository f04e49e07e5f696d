// All-reduce, all-gather and reduce-scatter on a circulant graph. In every round a rank sends away the farther half of
// the blocks it still has, and folds as many into the nearer half; the copy (Bruck's all-gather) doubles in every round
// what a rank has by the blocks of a rank further on.
//
// Steps: ceil(log2 n) hops for any n, twice as many for the all-reduce. Bytes on the wire: n-1 blocks per rank and
// phase, the least there is. Wins over a network for small and medium blocks, and for medium and large vectors where a
// ring's latency shows. The operation must be commutative.
// Order: block c is folded at one place, by one tree with the ranks counted from c. All ranks get the same bits, but
// blocks differ in their order, unless n is a power of two (then all trees are one, as a + b is b + a).
//
// Sources: Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024; Bruck, Ho, Kipnis, Upfal and
// Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997.
#pragma once

#include "algorithms/circulant_steps.h"
#include "algorithms/graph_planners.h"

namespace hocket {

using Circulant = AllReduceOn<CirculantSteps>;
using AllGatherCirculant = AllGatherOn<CirculantSteps>;
using ReduceScatterCirculant = ReduceScatterOn<CirculantSteps>;

static_assert(Circulant{2}.step(1, 0, 1) == Step{}.pop(0).load(Buf::in, 1, 1).pre().post().store(Buf::out, 1).push(1));
static_assert(Circulant{4}.step(1, 0, 4) == Step{}.pop(2).store(Buf::out, 2));
static_assert(AllGatherCirculant{5}.step(3, 0, 0) == Step{}.load(Buf::in, 0).store(Buf::out, 3).push(0));
static_assert(AllGatherCirculant{5}.step(3, 0, 1) == Step{}.pop(0).store(Buf::out, 4));
static_assert(AllGatherCirculant{5}.step(3, 0, 5) == Step{}.pop(2).store(Buf::out, 1).blocks(2));
static_assert(ReduceScatterCirculant{3}.step(1, 0, 1) == Step{}.load(Buf::in, 2).pre().store(Buf::scratch, 2));
static_assert(ReduceScatterCirculant{2}.step(1, 0, 1) ==
              Step{}.pop(0).load(Buf::in, 1, 1).pre().post().store(Buf::out, 0));

}  // namespace hocket
