// Two-shot all-reduce: rank r owns chunk r. Every rank sends each chunk to its owner, the owner folds all n operands
// and sends the result to everyone.
//
// Steps: 2 hops of n-1 messages. Bytes on the wire: 2(n-1)/n of the vector per rank, the least there is. Wins for
// medium and large vectors where every pair is connected equally well (shared memory, one switch).
// Order: that of the ranks. All ranks get the same bits, whatever the size of the vector, the placement and the
// transport; the operation need be neither commutative nor associative.
//
// Lane 0 sends and folds, lane 1 receives finished chunks: the next round's operands are on their way while this
// round's results still arrive. No dependency joins the lanes: a chunk's result cannot arrive before this rank has sent
// its operand for it.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct TwoShot {
  static constexpr Collective collective = Collective::all_reduce;
  static constexpr const char* name = "two_shot";
  static constexpr const char* summary =
      "2 hops, 2(n-1)/n of the vector per rank: medium and large vectors, all pairs equally near";
  static constexpr uint32_t max_ranks = 1u << 15;  // link indices of a step have 16 bits
  static constexpr bool folds_in_rank_order = true;
  static constexpr bool folds_canonically = true;
  enum Tag : uint16_t { kReduce = 0, kCopy = 1 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : n; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return n == 1 ? 1 : 2; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t lane) const { return lane == 0 ? n : n - 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t lane, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    if (lane == 1) return Step{}.pop(n - 1 + i).store(Buf::out, in(rank, n - 1 + i).rank);
    if (i < n - 1) return Step{}.load(Buf::in, out(rank, i).rank).pre().push(i);
    return Step{}.pop(0, n - 1).load(Buf::in, rank, rank).pre().post().store(Buf::out, rank).push(n - 1, n - 1);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  // The n - 1 links of the reduce phase, then those of the copy phase. Peers start at the next rank, so that no rank is
  // everyone's first target, except where the order is that of the fold.
  HKT_HD constexpr uint32_t links_in(uint32_t) const { return 2 * (n - 1); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return 2 * (n - 1); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const {
    if (k < n - 1) return {other_rank(rank, k), kReduce, 0};
    return {wrap(rank + (n - 1 - (k - (n - 1))), n), kCopy, 0};
  }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const {
    if (k < n - 1) return {wrap(rank + 1 + k, n), kReduce, 0};
    return {wrap(rank + 1 + (k - (n - 1)), n), kCopy, 0};
  }

  HKT_HD constexpr Cost cost(uint32_t) const { return {2 * (n - 1), 2 * (n - 1)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(TwoShot{3}.step(1, 0, 0) == Step{}.load(Buf::in, 2).pre().push(0));
static_assert(TwoShot{3}.step(1, 0, 2) ==
              Step{}.pop(0, 2).load(Buf::in, 1, 1).pre().post().store(Buf::out, 1).push(2, 2));
static_assert(TwoShot{3}.step(1, 1, 0) == Step{}.pop(2).store(Buf::out, 0));

}  // namespace hocket
