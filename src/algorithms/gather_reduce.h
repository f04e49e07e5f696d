// Gather-reduce all-reduce: the vectors of all ranks are gathered by dissemination, then every rank folds all n of them
// itself. In phase k every rank sends the 2^k vectors that it has, or as many as are still missing there, to the rank
// 2^k before it.
//
// Steps: ceil(log2 n) hops for any n. Bytes on the wire: n-1 times the vector per rank, in log2 n messages. Wins for
// the smallest vectors over a network, where n is no power of two or the order of the fold matters.
// Order: that of the ranks. All ranks get the same bits, whatever the size of the vector, the placement and the
// transport; the operation need be neither commutative nor associative.
//
// Chunk c of scratch is the vector of rank c. One lane: a phase sends what the one before has received.
// Source: Hensgen, Finkel and Manber, 1988 (dissemination); Bruck, Ho, Kipnis, Upfal and Weathersby, 1997 (all-gather).
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct GatherReduce {
  static constexpr Collective collective = Collective::all_reduce;
  static constexpr const char* name = "gather_reduce";
  static constexpr const char* summary = "log2 n hops, n-1 times the vector per rank: tiny vectors over a network";
  static constexpr uint32_t max_ranks = (1u << 16) - 1;  // the local operands of a step have 16 bits
  static constexpr bool folds_in_rank_order = true;
  static constexpr bool folds_canonically = true;
  enum Tag : uint16_t { kVectors = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b != Buf::scratch ? 1 : n == 1 ? 0 : n; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return 2 * phases() + 1; }

  // Push, pop, push, ... pop, fold.
  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    const uint32_t k = i / 2;
    if (k == phases()) return Step{}.load(Buf::scratch, 0).loads(n).post().store(Buf::out, 0);
    if (i == 0) return Step{}.load(Buf::in, 0).pre().store(Buf::scratch, rank).push(0);
    if (i % 2 == 0) return Step{}.load(Buf::scratch, rank).blocks(count(k)).push(k);
    return Step{}.pop(k).store(Buf::scratch, wrap(rank + (1u << k), n)).blocks(count(k));
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return phases(); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return phases(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {wrap(rank + (1u << k), n), kVectors, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {wrap(rank + (n - (1u << k)), n), kVectors, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {phases(), n - 1}; }
  // That of the last phase, which brings what is missing, or of the one before.
  HKT_HD constexpr uint32_t message_blocks() const {
    if (n <= 2) return n - 1;
    const uint32_t last = count(phases() - 1), before = count(phases() - 2);
    return last > before ? last : before;
  }

 private:
  HKT_HD constexpr uint32_t phases() const { return ceil_log2(n); }
  // Vectors in a message of phase k.
  HKT_HD constexpr uint32_t count(uint32_t k) const { return n - (1u << k) < 1u << k ? n - (1u << k) : 1u << k; }
};

static_assert(GatherReduce{5}.step(3, 0, 4) == Step{}.load(Buf::scratch, 3).push(2));
static_assert(GatherReduce{5}.step(3, 0, 3) == Step{}.pop(1).store(Buf::scratch, 0).blocks(2));
static_assert(GatherReduce{5}.step(3, 0, 6) == Step{}.load(Buf::scratch, 0).loads(5).post().store(Buf::out, 0));
static_assert(GatherReduce{5}.message_blocks() == 2 && GatherReduce{7}.message_blocks() == 3);

}  // namespace hocket
