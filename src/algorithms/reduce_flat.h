// Flat reduce: every rank sends its vector to the root, which folds all n of them in one step.
//
// Steps: 1 hop. Bytes on the wire: the vector once per rank, n-1 times into the root. Wins for small vectors, and
// between few ranks with shared memory. Order: that of the ranks, whatever the root; the operation need be neither
// commutative nor associative.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct ReduceFlat {
  static constexpr Collective collective = Collective::reduce;
  static constexpr const char* name = "flat";
  static constexpr const char* summary = "1 hop, n-1 vectors into the root, folds in the order of ranks: small vectors";
  static constexpr uint32_t max_ranks = 1u << 16;
  static constexpr bool folds_in_rank_order = true;
  static constexpr bool folds_canonically = true;
  enum Tag : uint16_t { kVector = 0 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : 1; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t) const {
    if (n == 1) return reduce_alone(1);
    if (rank != root) return Step{}.load(Buf::in, 0).pre().push(0);
    return Step{}.pop(0, n - 1).load(Buf::in, 0, rank).pre().post().store(Buf::out, 0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return rank == root ? n - 1 : 0; }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return rank == root ? 0 : 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {other_rank(rank, k), kVector, 0}; }
  HKT_HD constexpr Peer out(uint32_t, uint32_t) const { return {root, kVector, 0}; }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links_out(rank), links_out(rank)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(ReduceFlat{3, 1}.step(1, 0, 0) == Step{}.pop(0, 2).load(Buf::in, 0, 1).pre().post().store(Buf::out, 0));

}  // namespace hocket
