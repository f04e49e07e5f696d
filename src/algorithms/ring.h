// Ring all-reduce: chunk c travels once around the ring from rank c+1 and collects the operands, and is complete at
// rank c; then it travels around once more as a copy.
//
// `ring` goes one way. `bidirectional_ring` does the same with one half of the vector, and mirrored with the other
// half: chunks are half as large, and both directions of every connection between neighbours are busy. It wins where
// these are two connections, as on a ring or a torus, not where a rank has one port.
//
// Steps: 2(n-1) hops. Bytes on the wire: 2(n-1)/n of the vector per rank, the least there is. Wins for large vectors
// and few ranks: latency grows with n.
// Order: chunk c is folded as x[c+1] + x[c+2] + ... + x[c] (ranks mod n; mirrored: n-1-c and downwards) on one path, so
// that all ranks get the same bits, but chunks differ in their order.
//
// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
#pragma once

#include "algorithms/math.h"

namespace hocket {

// Lane w goes way w: the first one to the next rank, the second one to the one before.
template <uint32_t kWays>
struct RingOf {
  static_assert(kWays == 1 || kWays == 2);
  static constexpr Collective collective = Collective::all_reduce;
  static constexpr const char* name = kWays == 1 ? "ring" : "bidirectional_ring";
  static constexpr const char* summary =
      kWays == 1 ? "2(n-1) hops, 2(n-1)/n of the vector per rank: large vectors, few ranks"
                 : "2(n-1) hops, 2(n-1)/n of the vector per rank, half of it each way: large vectors, rings and tori";
  static constexpr uint32_t max_ranks = (1u << 31) / kWays;
  enum Tag : uint16_t { kReduce = 0, kCopy = 1 };  // of the second way: 2 more

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : kWays * n; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return n == 1 ? 1 : kWays; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return 2 * n - 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t way, uint32_t i) const {
    if (n == 1) return reduce_alone(kWays);
    const uint32_t place = way == 0 ? rank : n - 1 - rank, reduce = 2 * way + kReduce, copy = 2 * way + kCopy;
    if (i < n) {  // reduce: this rank's operand of chunk place - 1 - i joins; the last one completes its own chunk
      const uint32_t c = way * n + wrap(place + (n - 1 - i), n);
      const Step s = Step{}.load(Buf::in, c, i == 0 ? 0 : 1).pre();
      if (i == 0) return s.push(reduce);
      if (i < n - 1) return s.pop(reduce).push(reduce);
      return s.pop(reduce).post().store(Buf::out, c).push(copy);
    }
    const uint32_t hop = i - (n - 1);  // copy: 1 .. n-1 hops behind the owner of the chunk
    const Step s = Step{}.pop(copy).store(Buf::out, way * n + wrap(place + (n - hop), n));
    return hop < n - 1 ? s.push(copy) : s;
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  // Link k of either table is the one with tag k.
  HKT_HD constexpr uint32_t links_in(uint32_t) const { return n == 1 ? 0 : 2 * kWays; }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return n == 1 ? 0 : 2 * kWays; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const {
    return {wrap(rank + (k < 2 ? n - 1 : 1), n), static_cast<uint16_t>(k), 0};
  }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const {
    return {wrap(rank + (k < 2 ? 1 : n - 1), n), static_cast<uint16_t>(k), 0};
  }

  HKT_HD constexpr Cost cost(uint32_t) const { return {kWays * 2 * (n - 1), kWays * 2 * (n - 1)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

using Ring = RingOf<1>;
using BidirectionalRing = RingOf<2>;

static_assert(Ring{4}.step(2, 0, 0) == Step{}.load(Buf::in, 1).pre().push(0));
static_assert(Ring{4}.step(2, 0, 3) == Step{}.pop(0).load(Buf::in, 2, 1).pre().post().store(Buf::out, 2).push(1));
static_assert(Ring{4}.step(2, 0, 6) == Step{}.pop(1).store(Buf::out, 3));
static_assert(BidirectionalRing{4}.step(2, 1, 6) == Step{}.pop(3).store(Buf::out, 6));

}  // namespace hocket
