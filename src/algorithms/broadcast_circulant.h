// Circulant broadcast: with q = ceil(log2 n), the root sends a new block in every hop, to the ranks 1, ..., ceil(n/4),
// ceil(n/2) further on in turn, and everyone passes the blocks on over the same distances. From hop q on every rank
// receives a block that it lacks and sends one that the receiver lacks, in every hop.
//
// Steps: C - 1 + q hops for C blocks, the least there is. C is 4q + 1: five quarters of the data's time in all. Bytes
// on the wire: about the data once per rank. Wins over a network for medium and large data: a chain needs many rounds
// to fill, scatter and all-gather move the data twice.
//
// Which block, in hop k of a phase of q hops? With ranks counted from the root, and skips s_q = n and downwards each
// half of the one above, rounded up, to s_0 = 1: a rank is a sum of decreasing skips, the largest first. The index b of
// the smallest of them is the first block that the rank gets, in the hop of the largest one. In every phase after that
// it gets block b of the phase, and of the q blocks of the phase before all but b: those that other ranks have got
// first. Hop k takes block e of the greatest sum that ends in skip e, leaves at least s_k to the rank (counted one lap
// on), is smaller than the sum of the hop before and has no skips whose blocks are taken.
//
// Source: Traeff, "Round-optimal n-block broadcast schedules in logarithmic time", 2023. Here a schedule takes
// O(log^2 n) without a table.
#pragma once

#include "algorithms/circulant_steps.h"

namespace hocket {

struct BroadcastCirculant {
  static constexpr Collective collective = Collective::broadcast;
  static constexpr const char* name = "circulant";
  static constexpr const char* summary =
      "5 log2 n hops, every rank sends about the data once: medium and large data over a network";
  static constexpr uint32_t max_ranks = 1u << 30;
  enum Tag : uint16_t { kData = 0 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : last() + 1; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t rank, uint32_t) const {
    if (n == 1) return 1;
    return rank == root ? last() + hops() : 1 + kPhases * (hops() + sends(place(rank)));
  }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    const uint32_t r = place(rank);
    if (r == 0) {  // the last block goes to everyone whose turn it is
      const Step s = Step{}.load(Buf::in, i < last() ? i : last());
      return n == 1 ? s.store(Buf::out, 0) : (i <= last() ? s.store(Buf::out, i) : s).push(i % hops());
    }
    if (i == 0) {  // the first phase, in which the first block goes down a tree
      const Step s = Step{}.pop(largest_skip(r)).store(Buf::out, first_block(r));
      const uint32_t fan = first_sends(r);
      return fan == 0 ? s : s.push(links_out(rank) - fan, fan);
    }
    const uint32_t in_phase = hops() + sends(r), phase = 1 + (i - 1) / in_phase, skipped = to_root(r);
    uint32_t j = (i - 1) % in_phase;
    if (j >= 2 * skipped) ++j;  // nothing is sent to the root
    const uint32_t k = j / 2;
    if (j % 2 == 1) return Step{}.pop(k).store(Buf::out, received(r, k, phase));
    return Step{}.load(Buf::out, received(wrap(r + skip(k), n), k, phase)).push(k < skipped ? k : k - 1);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  // Link k in, and out but for the root, has distance skip(k).
  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return rank == root ? 0 : hops(); }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return sends(place(rank)); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {wrap(rank + (n - skip(k)), n), kData, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const {
    return {wrap(rank + skip(k < to_root(place(rank)) ? k : k + 1), n), kData, 0};
  }

  HKT_HD constexpr Cost cost(uint32_t rank) const {
    const uint32_t r = place(rank);
    const uint32_t messages = n == 1 ? 0 : r == 0 ? last() + hops() : first_sends(r) + kPhases * sends(r);
    return {messages, messages};
  }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }

 private:
  static constexpr uint32_t kPhases = 4;  // of q blocks each, after the first one

  HKT_HD constexpr uint32_t hops() const { return ceil_log2(n); }  // of a phase
  HKT_HD constexpr uint32_t last() const { return kPhases * hops(); }
  HKT_HD constexpr uint32_t skip(uint32_t k) const { return CirculantSteps{n}.span(hops() - k); }
  HKT_HD constexpr uint32_t place(uint32_t rank) const { return wrap(rank + (n - root), n); }
  HKT_HD constexpr uint32_t largest_skip(uint32_t r) const {
    uint32_t k = hops() - 1;
    while (skip(k) > r) --k;
    return k;
  }
  HKT_HD constexpr uint32_t first_block(uint32_t r) const {
    uint32_t k = 0;
    while (r > 0) r -= skip(k = largest_skip(r));
    return k;
  }
  // The hop in which its turn would be the root's; hops() if there is none.
  HKT_HD constexpr uint32_t to_root(uint32_t r) const {
    uint32_t k = 0;
    while (k < hops() && r + skip(k) != n) ++k;
    return k;
  }
  // Per phase after the first one.
  HKT_HD constexpr uint32_t sends(uint32_t r) const { return to_root(r) < hops() ? hops() - 1 : hops(); }
  // In the first phase, in its last hops: to those whose largest skip leads from here to there.
  HKT_HD constexpr uint32_t first_sends(uint32_t r) const {
    const uint32_t k = largest_skip(r) + 1;
    return hops() - k - (k < hops() && r + skip(k) >= skip(k + 1) ? 1 : 0);
  }

  // The block that r receives in hop k of a phase after the first one.
  HKT_HD constexpr uint32_t received(uint32_t r, uint32_t k, uint32_t phase) const {
    const uint32_t first = first_block(r), e = turn(r, first, k);
    const uint32_t block = e == hops() ? phase * hops() + first : (phase - 1) * hops() + e;
    return block < last() ? block : last();
  }
  // The index of its skip; that of s_q = n stands for the new block. Goes through the sums depth first, large skips
  // first: a sum is the one for the hop at hand when those that continue it have been gone through. Bits of `sum_of`:
  // its skips; of `free`: those that no hop has taken.
  HKT_HD constexpr uint32_t turn(uint32_t r, uint32_t first, uint32_t hop) const {
    const uint32_t end = r + n;
    uint32_t free = ((2u << hops()) - 1) & ~(1u << first), sum_of = 0, sum = 0, bound = end;
    uint32_t k = 0, e = hops() + 1;  // e - 1 is the skip to be tried next
    for (;;) {
      if (e > 0) {
        --e;
        if ((free >> e & 1) != 0 && sum + skip(e) + skip(k) <= end && sum + skip(e) < bound) {
          sum_of |= 1u << e;
          sum += skip(e);
        }
        continue;
      }
      const uint32_t done = sum;
      e = floor_log2(low_bit(sum_of));
      sum_of ^= 1u << e;
      sum -= skip(e);
      if (sum + skip(k + 1) > end) {  // too near for the hops to come: so is all that continues it
        e = 0;
        continue;
      }
      if (k == hop) return e;
      free ^= 1u << e;
      bound = done;
      ++k;
    }
  }
};

static_assert(BroadcastCirculant{5}.step(0, 0, 4) == Step{}.load(Buf::in, 4).store(Buf::out, 4).push(1));
static_assert(BroadcastCirculant{5}.step(1, 0, 0) == Step{}.pop(0).store(Buf::out, 0).push(2));
static_assert(BroadcastCirculant{1}.step(0, 0, 0) == Step{}.load(Buf::in, 0).store(Buf::out, 0));

}  // namespace hocket
