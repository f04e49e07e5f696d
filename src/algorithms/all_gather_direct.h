// Direct all-gather: every rank sends its block to every other, all at once.
//
// Steps: 1 hop of n-1 messages. Bytes on the wire: n-1 blocks per rank, the least there is. Wins where every pair is
// connected equally well (shared memory, one switch), and for small blocks between few ranks.
//
// Every rank receives from the ranks before it, nearest first, and sends to the ranks after it, nearest first: at any
// time, everybody is the next target of one rank.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct AllGatherDirect {
  static constexpr Collective collective = Collective::all_gather;
  static constexpr const char* name = "direct";
  static constexpr const char* summary = "1 hop, n-1 blocks per rank: all pairs equally near";
  static constexpr uint32_t max_ranks = 1u << 16;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? 1 : b == Buf::out ? n : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return n; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (i > 0) return Step{}.pop(i - 1).store(Buf::out, in(rank, i - 1).rank);
    const Step s = Step{}.load(Buf::in, 0).store(Buf::out, rank);
    return n == 1 ? s : s.push(0, n - 1);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return n - 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return n - 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {rank_before(rank, k, n), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {rank_after(rank, k, n), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {n - 1, n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(AllGatherDirect{3}.step(1, 0, 0) == Step{}.load(Buf::in, 0).store(Buf::out, 1).push(0, 2));
static_assert(AllGatherDirect{3}.step(1, 0, 1) == Step{}.pop(0).store(Buf::out, 0));

}  // namespace hocket
