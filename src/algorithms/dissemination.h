// Dissemination barrier: in phase k every rank tells rank + 2^k that it has heard of 2^k ranks up to itself; after
// ceil(log2 n) phases it has heard of all.
//
// Steps: ceil(log2 n) hops. Bytes on the wire: none, ceil(log2 n) empty messages per rank. Any n without a fold.
// Source: Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct Dissemination {
  static constexpr Collective collective = Collective::barrier;
  static constexpr const char* name = "dissemination";
  static constexpr const char* summary = "log2 n hops of empty messages";
  static constexpr uint32_t max_ranks = 1u << 31;
  enum Tag : uint16_t { kHere = 0 };

  uint32_t n = 1;

  // One chunk of no bytes, which no step names.
  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : 1; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return n == 1 ? 0 : phases() + 1; }

  HKT_HD constexpr Step step(uint32_t, uint32_t, uint32_t i) const {
    Step s;
    if (i > 0) s = s.pop(i - 1);
    return i < phases() ? s.push(i) : s;
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return phases(); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return phases(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {wrap(rank + (n - (1u << k)), n), kHere, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {wrap(rank + (1u << k), n), kHere, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {phases(), 0}; }
  HKT_HD constexpr uint32_t message_blocks() const { return 0; }

 private:
  HKT_HD constexpr uint32_t phases() const { return ceil_log2(n); }
};

static_assert(Dissemination{5}.steps(0, 0) == 4 && Dissemination{5}.step(3, 0, 1) == Step{}.pop(0).push(1));

}  // namespace hocket
