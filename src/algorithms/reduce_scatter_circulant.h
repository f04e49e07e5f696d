// Circulant reduce-scatter: in every round a rank sends away the farther half of the blocks it still has, and folds as
// many into the nearer half.
//
// Steps: ceil(log2 n) hops for any n. Bytes on the wire: n-1 blocks per rank, the least there is. Wins for small and
// medium blocks over a network. The operation must be commutative.
// Order: block c is folded by one tree with the ranks counted from c: it differs by block, unless n is a power of two
// (then all trees are one, as a + b is b + a).
//
// Source: Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024. Partial folds lie in scratch.
#pragma once

#include "algorithms/circulant_steps.h"

namespace hocket {

struct ReduceScatterCirculant {
  static constexpr Collective collective = Collective::reduce_scatter;
  static constexpr const char* name = "circulant";
  static constexpr const char* summary = "log2 n hops, n-1 blocks per rank: small and medium blocks, any n";
  static constexpr uint32_t max_ranks = 1u << 30;
  enum Tag : uint16_t { kReduce = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? n : b == Buf::out ? 1 : n > 2 ? n : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return n == 1 ? 1 : graph().fold_steps(); }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    const Step s = graph().fold(rank, Buf::scratch, i);
    return i + 1 < graph().fold_steps() ? s : s.post().store(Buf::out, 0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return graph().rounds(); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return graph().rounds(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {graph().fold_from(rank, k), kReduce, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {graph().fold_to(rank, k), kReduce, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {graph().rounds(), n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n / 2; }

 private:
  HKT_HD constexpr CirculantSteps graph() const { return {n}; }
};

static_assert(ReduceScatterCirculant{3}.step(1, 0, 1) == Step{}.load(Buf::in, 2).pre().store(Buf::scratch, 2));
static_assert(ReduceScatterCirculant{2}.step(1, 0, 1) ==
              Step{}.pop(0).load(Buf::in, 1, 1).pre().post().store(Buf::out, 0));

}  // namespace hocket
