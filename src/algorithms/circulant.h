// Circulant all-reduce: a reduce-scatter and an all-gather on the same circulant graph, one the mirror image of the
// other.
//
// Steps: 2 ceil(log2 n) hops for any n. Bytes on the wire: 2(n-1)/n of the vector per rank, the least there is. Wins
// over a network for medium and large vectors where a ring's latency shows. The operation must be commutative. Order:
// chunk c is folded at one place, by one tree with the ranks counted from c. All ranks get the same bits, but chunks
// differ in their order.
//
// Source: Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024. Partial folds lie in out.
#pragma once

#include "algorithms/circulant_steps.h"

namespace hocket {

struct Circulant {
  static constexpr Collective collective = Collective::all_reduce;
  static constexpr const char* name = "circulant";
  static constexpr const char* summary =
      "2 log2 n hops, 2(n-1)/n of the vector per rank: medium and large vectors over a network, any n";
  static constexpr uint32_t max_ranks = 1u << 30;
  enum Tag : uint16_t { kReduce = 0, kCopy = 1 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : n; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const {
    return n == 1 ? 1 : graph().fold_steps() + graph().copy_steps();
  }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    const uint32_t folds = graph().fold_steps(), first = graph().rounds();
    if (i >= folds) return graph().copy(rank, first, first, i - folds);
    const Step s = graph().fold(rank, Buf::out, i);
    return i + 1 < folds ? s : s.post().store(Buf::out, rank).push(first);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  // The links of the fold, then those of the copy.
  HKT_HD constexpr uint32_t links_in(uint32_t) const { return 2 * graph().rounds(); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return 2 * graph().rounds(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const {
    if (k < graph().rounds()) return {graph().fold_from(rank, k), kReduce, 0};
    return {graph().copy_from(rank, k - graph().rounds()), kCopy, 0};
  }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const {
    if (k < graph().rounds()) return {graph().fold_to(rank, k), kReduce, 0};
    return {graph().copy_to(rank, k - graph().rounds()), kCopy, 0};
  }

  HKT_HD constexpr Cost cost(uint32_t) const { return {2 * graph().rounds(), 2 * (n - 1)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n / 2; }

 private:
  HKT_HD constexpr CirculantSteps graph() const { return {n}; }
};

static_assert(Circulant{2}.step(1, 0, 1) == Step{}.pop(0).load(Buf::in, 1, 1).pre().post().store(Buf::out, 1).push(1));
static_assert(Circulant{4}.step(1, 0, 4) == Step{}.pop(2).store(Buf::out, 2));

}  // namespace hocket
