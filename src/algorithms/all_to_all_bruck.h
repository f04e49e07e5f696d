// Bruck all-to-all, radix 2: a block that has d ranks to go travels by the powers of two that d is made of. In phase k
// all blocks with bit k in d move 2^k ranks on.
//
// Steps: ceil(log2 n) hops for any n. Bytes on the wire: about n/2 log2 n blocks per rank. Wins for small blocks over a
// network.
//
// The blocks of a phase are no single range: low phases send them as 2^k ranges with stride 2^(k+1), high phases as
// runs of 2^k, one message each: about 3 sqrt(n) messages in all. Blocks wait in scratch, chunk d - 1, so that in may
// be out. Those that a run brings home go straight into out; from a range with a stride it is the first one, which is
// copied.
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
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const {
    uint32_t total = n == 1 ? 1 : 2;
    for (uint32_t k = 0; k < phases(); ++k) total += steps_per_range(k) * ranges(k);
    return total;
  }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (i == 0) return Step{}.load(Buf::in, rank).store(Buf::out, rank);
    if (i == 1) return Step{}.load(Buf::in, rank_after(rank, 0, n)).store(Buf::scratch, 0).blocks(n - 1);
    i -= 2;
    uint32_t k = 0;
    for (; i >= steps_per_range(k) * ranges(k); ++k) i -= steps_per_range(k) * ranges(k);
    const uint32_t m = i / steps_per_range(k), part = i % steps_per_range(k);
    const uint32_t d = first(k, m), count = length(k, m), stride = count > 1 && strided(k) ? 2u << k : 1;
    if (part == 0) return Step{}.load(Buf::scratch, d - 1).blocks(count, stride).push(k);
    if (part == 2) return Step{}.load(Buf::scratch, d - 1).store(Buf::out, rank_before(rank, d - 1, n));
    if (strided(k) || m > 0) return Step{}.pop(k).store(Buf::scratch, d - 1).blocks(count, stride);
    return Step{}.pop(k).store(Buf::out, rank_before(rank, d - 1, n)).blocks(count, count > 1 ? n - 1 : 1);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return phases(); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return phases(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {wrap(rank + (n - (1u << k)), n), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {wrap(rank + (1u << k), n), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const {
    Cost c;
    for (uint32_t k = 0; k < phases(); ++k) {
      // Of the d below n those with bit k: half of each whole period, and what reaches beyond half of the last one.
      const uint32_t half = 1u << k, rest = n % (2 * half);
      c.messages += ranges(k);
      c.blocks += n / (2 * half) * half + (rest > half ? rest - half : 0);
    }
    return c;
  }
  HKT_HD constexpr uint32_t message_blocks() const {
    uint32_t most = 0;
    for (uint32_t k = 0; k < phases(); ++k) most = length(k, 0) > most ? length(k, 0) : most;
    return most;
  }

 private:
  HKT_HD constexpr uint32_t phases() const { return ceil_log2(n); }
  // Runs of phase k, from 2^k on with period 2^(k+1), the last one clipped.
  HKT_HD constexpr uint32_t runs(uint32_t k) const { return (n - 1 - (1u << k)) / (2u << k) + 1; }
  HKT_HD constexpr bool strided(uint32_t k) const { return (1u << k) < runs(k); }
  HKT_HD constexpr uint32_t ranges(uint32_t k) const { return strided(k) ? 1u << k : runs(k); }
  HKT_HD constexpr uint32_t steps_per_range(uint32_t k) const { return strided(k) ? 3 : 2; }
  // First d of range m of phase k, and how many it has.
  HKT_HD constexpr uint32_t first(uint32_t k, uint32_t m) const { return (1u << k) + (strided(k) ? m : m * (2u << k)); }
  HKT_HD constexpr uint32_t length(uint32_t k, uint32_t m) const {
    const uint32_t room = n - first(k, m);
    if (strided(k)) return (room - 1) / (2u << k) + 1;
    return room < (1u << k) ? room : 1u << k;
  }
};

static_assert(AllToAllBruck{8}.step(1, 0, 2) == Step{}.load(Buf::scratch, 0).blocks(4, 2).push(0));
static_assert(AllToAllBruck{8}.step(1, 0, 4) == Step{}.load(Buf::scratch, 0).store(Buf::out, 0));
static_assert(AllToAllBruck{8}.steps(1, 0) == 11 && AllToAllBruck{8}.cost(0).blocks == 12);

}  // namespace hocket
