// One-shot all-reduce: every rank sends its vector to every other and folds all n of them itself.
//
// Steps: 1 hop. Bytes on the wire: n-1 times the vector per rank. Wins for the smallest vectors, and up to tens of KiB
// between few ranks with shared memory.
// Order: that of the ranks. All ranks get the same bits, whatever the size of the vector, the placement and the
// transport; the operation need be neither commutative nor associative.
//
// Pops are in the order of ranks. Pushes start at the next rank, so that no rank is everyone's first target.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct OneShot {
  static constexpr Collective collective = Collective::all_reduce;
  static constexpr const char* name = "one_shot";
  static constexpr const char* summary = "1 hop, n-1 times the vector per rank: the smallest vectors";
  static constexpr uint32_t max_ranks = 1u << 16;  // the fan-out of a step has 16 bits
  static constexpr bool folds_in_rank_order = true;
  static constexpr bool folds_canonically = true;
  enum Tag : uint16_t { kVector = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : 1; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return n == 1 ? 1 : 2; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    if (i == 0) return Step{}.load(Buf::in, 0).pre().push(0, n - 1);
    return Step{}.pop(0, n - 1).load(Buf::in, 0, rank).pre().post().store(Buf::out, 0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return n - 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return n - 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {other_rank(rank, k), kVector, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {wrap(rank + 1 + k, n), kVector, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {n - 1, n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(OneShot{3}.step(1, 0, 0) == Step{}.load(Buf::in, 0).pre().push(0, 2));
static_assert(OneShot{3}.step(1, 0, 1) == Step{}.pop(0, 2).load(Buf::in, 0, 1).pre().post().store(Buf::out, 0));

}  // namespace hocket
