// Flat gather: every rank sends its block to the root.
//
// Steps: 1 hop. Bytes on the wire: one block per rank, n-1 into the root. Wins for large blocks (the root's port is
// busy anyhow), and between few ranks with shared memory.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct GatherFlat {
  static constexpr Collective collective = Collective::gather;
  static constexpr const char* name = "flat";
  static constexpr const char* summary = "1 hop, one block per rank: large blocks, shared memory";
  static constexpr uint32_t max_ranks = 1u << 16;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? 1 : b == Buf::out ? n : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t rank, uint32_t) const { return rank == root ? n : 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (i > 0) return Step{}.pop(i - 1).store(Buf::out, in(rank, i - 1).rank);
    return rank == root ? Step{}.load(Buf::in, 0).store(Buf::out, rank) : Step{}.load(Buf::in, 0).push(0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return rank == root ? n - 1 : 0; }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return rank == root ? 0 : 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {rank_after(rank, k, n), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t, uint32_t) const { return {root, kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links_out(rank), links_out(rank)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(GatherFlat{3, 1}.step(1, 0, 0) == Step{}.load(Buf::in, 0).store(Buf::out, 1));
static_assert(GatherFlat{3, 1}.step(1, 0, 2) == Step{}.pop(1).store(Buf::out, 0));

}  // namespace hocket
