// Pairwise all-to-all: n exchanges one after another; in exchange k the ranks pair up whose sum is k mod n and swap
// their blocks. Every pair meets once, and each rank meets itself once.
//
// Steps: n-1 exchanges. Bytes on the wire: n-1 blocks per rank, the least there is, one message in flight per rank.
// Wins for large blocks over a network where many senders at once get in each other's way.
//
// A block is sent before the one from the same rank takes its place, so that in may be out.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct AllToAllPairwise {
  static constexpr Collective collective = Collective::all_to_all;
  static constexpr const char* name = "pairwise";
  static constexpr const char* summary =
      "n-1 exchanges, n-1 blocks per rank, one at a time: large blocks over a network";
  static constexpr uint32_t max_ranks = 1u << 16;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : n; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return 2 * n - 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (i == 0) return Step{}.load(Buf::in, rank).store(Buf::out, rank);
    const uint32_t k = (i - 1) / 2, p = partner(rank, k);
    return i % 2 == 1 ? Step{}.load(Buf::in, p).push(k) : Step{}.pop(k).store(Buf::out, p);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return n - 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return n - 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {partner(rank, k), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {partner(rank, k), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {n - 1, n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }

 private:
  // Of the k-th exchange that is not with the rank itself.
  HKT_HD constexpr uint32_t partner(uint32_t rank, uint32_t k) const {
    const uint32_t sum = k < wrap(2 * rank, n) ? k : k + 1;
    return wrap(sum + (n - rank), n);
  }
};

static_assert(AllToAllPairwise{4}.step(1, 0, 1) == Step{}.load(Buf::in, 3).push(0));
static_assert(AllToAllPairwise{4}.out(1, 0).rank == 3 && AllToAllPairwise{4}.out(3, 0).rank == 1);

}  // namespace hocket
