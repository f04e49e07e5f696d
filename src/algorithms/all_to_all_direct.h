// Direct all-to-all: every rank sends all its blocks at once, each straight to its destination.
//
// Steps: 1 hop of n-1 messages. Bytes on the wire: n-1 blocks per rank, the least there is. Wins for medium and large
// blocks where every pair is connected equally well (shared memory, one switch), and wherever links hold back who sends
// too much.
//
// All blocks have left before the first one arrives in out, so that in may be out.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct AllToAllDirect {
  static constexpr Collective collective = Collective::all_to_all;
  static constexpr const char* name = "direct";
  static constexpr const char* summary = "1 hop, n-1 blocks per rank, all at once: all pairs equally near";
  static constexpr uint32_t max_ranks = 1u << 16;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : n; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return 2 * n - 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (i < n - 1) return Step{}.load(Buf::in, out(rank, i).rank).push(i);
    if (i == n - 1) return Step{}.load(Buf::in, rank).store(Buf::out, rank);
    return Step{}.pop(i - n).store(Buf::out, in(rank, i - n).rank);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return n - 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return n - 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {rank_before(rank, k, n), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {rank_after(rank, k, n), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {n - 1, n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(AllToAllDirect{3}.step(1, 0, 0) == Step{}.load(Buf::in, 2).push(0));
static_assert(AllToAllDirect{3}.step(1, 0, 3) == Step{}.pop(0).store(Buf::out, 0));

}  // namespace hocket
