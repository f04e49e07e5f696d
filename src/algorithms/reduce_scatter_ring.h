// Ring reduce-scatter: block c travels once around the ring from rank c+1, collects the operands, and is complete at
// rank c.
//
// Steps: n-1 hops. Bytes on the wire: n-1 blocks per rank, the least there is. Wins for large blocks and few ranks:
// latency grows with n.
// Order: block c is folded as x[c+1] + x[c+2] + ... + x[c] (ranks mod n): it differs by block.
//
// Source: the first half of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// 2009.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct ReduceScatterRing {
  static constexpr Collective collective = Collective::reduce_scatter;
  static constexpr const char* name = "ring";
  static constexpr const char* summary = "n-1 hops, n-1 blocks per rank: large blocks, few ranks";
  static constexpr uint32_t max_ranks = 1u << 31;
  enum Tag : uint16_t { kReduce = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? n : b == Buf::out ? 1 : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return n; }

  // Step i: this rank's operand of block rank - 1 - i joins; the last one completes its own block.
  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    const Step s = Step{}.load(Buf::in, wrap(rank + (n - 1 - i), n), i == 0 ? 0 : 1).pre();
    if (i == 0) return s.push(0);
    return i < n - 1 ? s.pop(0).push(0) : s.pop(0).post().store(Buf::out, 0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return n == 1 ? 0 : 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return n == 1 ? 0 : 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t) const { return {rank_before(rank, 0, n), kReduce, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t) const { return {rank_after(rank, 0, n), kReduce, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {n - 1, n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(ReduceScatterRing{4}.step(2, 0, 0) == Step{}.load(Buf::in, 1).pre().push(0));
static_assert(ReduceScatterRing{4}.step(2, 0, 3) == Step{}.pop(0).load(Buf::in, 2, 1).pre().post().store(Buf::out, 0));

}  // namespace hocket
