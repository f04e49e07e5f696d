// Bruck all-to-all, radix 2: a block that has d ranks to go travels by the powers of two that d is made of. In phase k
// all blocks with bit k in d move 2^k ranks on.
//
// Steps: ceil(log2 n) hops for any n. Bytes on the wire: about n/2 log2 n blocks per rank. Wins for small blocks over a
// network.
//
// The blocks of a phase are no single range: low phases send them as 2^k ranges with stride 2^(k+1), high phases as
// runs of 2^k, one message each, right after one another: about 2 sqrt(n) messages in all. Blocks wait in scratch,
// chunk d - 1, so that in may be out. What a run brings home goes straight into out; what came home by a range with a
// stride, the blocks with the smallest d, is copied in the end.
//
// Lane 0 sends and lane 1 receives, so that the messages of a phase need not wait for each other however shallow the
// links are. Dependencies: a phase sends what the one before has received; a block is received where one has been sent
// from; the next round fills scratch when this one has emptied it.
//
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", 1997.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct AllToAllBruck {
  static constexpr Collective collective = Collective::all_to_all;
  static constexpr const char* name = "bruck";
  static constexpr const char* summary = "log2 n hops, n/2 log2 n blocks per rank: small blocks over a network";
  static constexpr uint32_t max_ranks = 1u << 30;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? n - 1 : n; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return n == 1 ? 1 : 2; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t lane) const {
    return n == 1 ? 1 : messages(phases()) + (lane == 0 ? kFirstPush : copies());
  }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t lane, uint32_t i) const {
    if (lane == 0 && i == 0) return Step{}.load(Buf::in, rank).store(Buf::out, rank);
    if (lane == 0 && i == 1) {
      const Step s = Step{}.load(Buf::in, rank_after(rank, 0, n)).store(Buf::scratch, 0).blocks(n - 1);
      return copies() > 0 ? s.after(1) : s;
    }
    const uint32_t copy = i - messages(phases());
    if (lane == 1 && i >= messages(phases()))
      return Step{}.load(Buf::scratch, copy).store(Buf::out, rank_before(rank, copy, n));
    const Place p = place(lane == 0 ? i - kFirstPush : i);
    const uint32_t d = first(p), count = length(p), stride = count > 1 && strided(p.k) ? 2u << p.k : 1;
    if (lane == 0) {
      const Step s = Step{}.load(Buf::scratch, d - 1).blocks(count, stride).push(p.k);
      return p.k > 0 && p.range == 0 ? s.after(1) : s;
    }
    if (!comes_home(p)) return Step{}.pop(p.k).store(Buf::scratch, d - 1).blocks(count, stride).after(1);
    const Step s = Step{}.pop(p.k).store(Buf::out, rank_before(rank, d - 1, n)).blocks(count, count > 1 ? n - 1 : 1);
    return p.k == 0 ? s.after(1) : s;  // in place: not before all of in is in scratch
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t lane, uint32_t i, uint32_t) const {
    if (lane == 0 && i == 1) return {1, 1, messages(phases()) + copies() - 1};
    if (lane == 0) return {1, 0, i - kFirstPush - 1};
    return {0, 0, comes_home(place(i)) ? 1 : kFirstPush + i};
  }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return phases(); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return phases(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {wrap(rank + (n - (1u << k)), n), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {wrap(rank + (1u << k), n), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const {
    Cost c{messages(phases()), 0};
    for (uint32_t k = 0; k < phases(); ++k) {
      // Of the d below n those with bit k: half of each whole period, and what reaches beyond half of the last one.
      const uint32_t half = 1u << k, rest = n % (2 * half);
      c.blocks += n / (2 * half) * half + (rest > half ? rest - half : 0);
    }
    return c;
  }
  HKT_HD constexpr uint32_t message_blocks() const {
    uint32_t most = 0;
    for (uint32_t k = 0; k < phases(); ++k) most = length({k, 0}) > most ? length({k, 0}) : most;
    return most;
  }

 private:
  static constexpr uint32_t kFirstPush = 2;  // step of lane 0
  struct Place {
    uint32_t k = 0, range = 0;  // phase, and range in it
  };

  HKT_HD constexpr uint32_t phases() const { return ceil_log2(n); }
  // Runs of phase k, from 2^k on with period 2^(k+1), the last one clipped.
  HKT_HD constexpr uint32_t runs(uint32_t k) const { return (n - 1 - (1u << k)) / (2u << k) + 1; }
  HKT_HD constexpr bool strided(uint32_t k) const { return (1u << k) < runs(k); }
  HKT_HD constexpr uint32_t ranges(uint32_t k) const { return strided(k) ? 1u << k : runs(k); }
  // First d of a range, and how many it has.
  HKT_HD constexpr uint32_t first(Place p) const { return (1u << p.k) + p.range * (strided(p.k) ? 1 : 2u << p.k); }
  HKT_HD constexpr uint32_t length(Place p) const {
    const uint32_t room = n - first(p);
    if (strided(p.k)) return (room - 1) / (2u << p.k) + 1;
    return room < (1u << p.k) ? room : 1u << p.k;
  }
  HKT_HD constexpr bool comes_home(Place p) const { return !strided(p.k) && p.range == 0; }
  // Those d that came home by phases with strides: 1, 2, ... up to this. Strided phases come first.
  HKT_HD constexpr uint32_t copies() const {
    uint32_t k = 0;
    while (k < phases() && strided(k)) ++k;
    return (1u << k) - 1;
  }
  // Of the phases before k, from this rank; as many to it.
  HKT_HD constexpr uint32_t messages(uint32_t k) const {
    uint32_t total = 0;
    while (k-- > 0) total += ranges(k);
    return total;
  }
  HKT_HD constexpr Place place(uint32_t message) const {
    Place p;
    for (; message >= ranges(p.k); ++p.k) message -= ranges(p.k);
    p.range = message;
    return p;
  }
};

static_assert(AllToAllBruck{8}.step(1, 0, 2) == Step{}.load(Buf::scratch, 0).blocks(4, 2).push(0));
static_assert(AllToAllBruck{8}.step(1, 1, 1) == Step{}.pop(1).store(Buf::out, 7).blocks(2, 7));
static_assert(AllToAllBruck{8}.step(1, 1, 4) == Step{}.load(Buf::scratch, 0).store(Buf::out, 0));
static_assert(AllToAllBruck{8}.steps(1, 0) == 6 && AllToAllBruck{8}.cost(0).blocks == 12);

}  // namespace hocket
