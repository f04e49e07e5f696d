// Chain broadcast: every rank passes the data on to the next one, round by round, so that all hops work at once.
//
// Steps: n-1 hops, then one per further round. Bytes on the wire: the data once per rank. Wins for large data and few
// ranks: with many rounds the time is that of sending the data once.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct Chain {
  static constexpr Collective collective = Collective::broadcast;
  static constexpr const char* name = "chain";
  static constexpr const char* summary = "n-1 hops, pipelined, every rank sends the data once: large data, few ranks";
  static constexpr uint32_t max_ranks = 1u << 31;
  enum Tag : uint16_t { kData = 0 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : 1; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t) const {
    const Step s = rank == root ? Step{}.load(Buf::in, 0).store(Buf::out, 0) : Step{}.pop(0).store(Buf::out, 0);
    return links_out(rank) > 0 ? s.push(0) : s;
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return rank == root ? 0 : 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return wrap(rank + 1, n) == root ? 0 : 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t) const { return {wrap(rank + (n - 1), n), kData, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t) const { return {wrap(rank + 1, n), kData, 0}; }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links_out(rank), links_out(rank)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(Chain{3, 1}.step(1, 0, 0) == Step{}.load(Buf::in, 0).store(Buf::out, 0).push(0));
static_assert(Chain{3, 1}.step(0, 0, 0) == Step{}.pop(0).store(Buf::out, 0));

}  // namespace hocket
