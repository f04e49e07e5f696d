// Flat scatter: the root sends every rank its block.
//
// Steps: 1 hop. Bytes on the wire: n-1 blocks from the root. Wins for large blocks (the root's port is busy anyhow),
// and between few ranks with shared memory.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct ScatterFlat {
  static constexpr Collective collective = Collective::scatter;
  static constexpr const char* name = "flat";
  static constexpr const char* summary = "1 hop, n-1 blocks from the root: large blocks, shared memory";
  static constexpr uint32_t max_ranks = 1u << 16;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? n : b == Buf::out ? 1 : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t rank, uint32_t) const { return rank == root ? n : 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (rank != root) return Step{}.pop(0).store(Buf::out, 0);
    if (i < n - 1) return Step{}.load(Buf::in, out(rank, i).rank).push(i);
    return Step{}.load(Buf::in, rank).store(Buf::out, 0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return rank == root ? 0 : 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return rank == root ? n - 1 : 0; }
  HKT_HD constexpr Peer in(uint32_t, uint32_t) const { return {root, kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {rank_after(rank, k, n), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links_out(rank), links_out(rank)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }
};

static_assert(ScatterFlat{3, 1}.step(1, 0, 0) == Step{}.load(Buf::in, 2).push(0));
static_assert(ScatterFlat{3, 1}.step(1, 0, 2) == Step{}.load(Buf::in, 1).store(Buf::out, 0));

}  // namespace hocket
