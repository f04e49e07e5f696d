// Direct reduce-scatter: every rank sends each block to its owner, and the owner folds all n operands in one step.
//
// Steps: 1 hop of n-1 messages. Bytes on the wire: n-1 blocks per rank, the least there is. Wins where every pair is
// connected equally well (shared memory, one switch), and for small blocks between few ranks.
// Order: that of the ranks, for every block, whatever its size, the placement and the transport; the operation need be
// neither commutative nor associative.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct ReduceScatterDirect {
  static constexpr Collective collective = Collective::reduce_scatter;
  static constexpr const char* name = "direct";
  static constexpr const char* summary =
      "1 hop, n-1 blocks per rank, folds in the order of ranks: all pairs equally near";
  static constexpr uint32_t max_ranks = 1u << 16;
  static constexpr bool folds_in_rank_order = true;
  static constexpr bool folds_canonically = true;
  enum Tag : uint16_t { kReduce = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? n : b == Buf::out ? 1 : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return n; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    if (i < n - 1) return Step{}.load(Buf::in, out(rank, i).rank).pre().push(i);
    return Step{}.pop(0, n - 1).load(Buf::in, rank, rank).pre().post().store(Buf::out, 0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  // The in table is in the order of the fold, the out table starts at the next rank: no rank is everyone's first
  // target.
  HKT_HD constexpr uint32_t links_in(uint32_t) const { return n - 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return n - 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {other_rank(rank, k), kReduce, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {rank_after(rank, k, n), kReduce, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {n - 1, n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(ReduceScatterDirect{3}.step(1, 0, 0) == Step{}.load(Buf::in, 2).pre().push(0));
static_assert(ReduceScatterDirect{3}.step(1, 0, 2) ==
              Step{}.pop(0, 2).load(Buf::in, 1, 1).pre().post().store(Buf::out, 0));

}  // namespace hocket
