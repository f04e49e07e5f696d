// Chain reduce: the vector travels from the rank after the root around to the root, every rank folds its own in, round
// by round, so that all hops work at once.
//
// Steps: n-1 hops, then one per further round. Bytes on the wire: the vector once per rank. Wins for large vectors and
// few ranks: with many rounds the time is that of sending the vector once.
// Order: x[root+1] + x[root+2] + ... + x[root] (ranks mod n). For root n-1 that is the order of ranks; for another one
// the operation must be commutative.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct ReduceChain {
  static constexpr Collective collective = Collective::reduce;
  static constexpr const char* name = "chain";
  static constexpr const char* summary = "n-1 hops, pipelined, the vector once per rank: large vectors, few ranks";
  static constexpr uint32_t max_ranks = 1u << 31;
  enum Tag : uint16_t { kVector = 0 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : 1; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t) const {
    const Step s = links_in(rank) == 0 ? Step{}.load(Buf::in, 0).pre() : Step{}.pop(0).load(Buf::in, 0, 1).pre();
    return rank == root ? s.post().store(Buf::out, 0) : s.push(0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return rank_after(root, 0, n) == rank ? 0 : 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return rank == root ? 0 : 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t) const { return {rank_before(rank, 0, n), kVector, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t) const { return {rank_after(rank, 0, n), kVector, 0}; }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links_out(rank), links_out(rank)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(ReduceChain{3, 1}.step(2, 0, 0) == Step{}.load(Buf::in, 0).pre().push(0));
static_assert(ReduceChain{3, 1}.step(1, 0, 0) == Step{}.pop(0).load(Buf::in, 0, 1).pre().post().store(Buf::out, 0));

}  // namespace hocket
