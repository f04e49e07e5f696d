// Ring all-gather: every block travels once around the ring.
//
// Steps: n-1 hops. Bytes on the wire: n-1 blocks per rank, the least there is. Wins for large blocks and few ranks:
// latency grows with n.
//
// Source: the second half of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct AllGatherRing {
  static constexpr Collective collective = Collective::all_gather;
  static constexpr const char* name = "ring";
  static constexpr const char* summary = "n-1 hops, n-1 blocks per rank: large blocks, few ranks";
  static constexpr uint32_t max_ranks = 1u << 31;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? 1 : b == Buf::out ? n : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return n; }

  // Step i has the block of the rank i places before.
  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    const uint32_t c = wrap(rank + (n - i), n);
    const Step s = i == 0 ? Step{}.load(Buf::in, 0).store(Buf::out, c) : Step{}.pop(0).store(Buf::out, c);
    return i < n - 1 ? s.push(0) : s;
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return n == 1 ? 0 : 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return n == 1 ? 0 : 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t) const { return {rank_before(rank, 0, n), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t) const { return {rank_after(rank, 0, n), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {n - 1, n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(AllGatherRing{3}.step(1, 0, 0) == Step{}.load(Buf::in, 0).store(Buf::out, 1).push(0));
static_assert(AllGatherRing{3}.step(1, 0, 2) == Step{}.pop(0).store(Buf::out, 2));

}  // namespace hocket
