// Binomial tree gather: a rank collects the blocks of its subtree, a contiguous range of ranks counted from the root,
// in scratch and sends them to its parent as one message.
//
// Steps: at most ceil(log2 n) hops. Bytes on the wire: the blocks of its subtree per rank, n-1 blocks into the root.
// Wins for small blocks over a network.
#pragma once

#include "algorithms/binomial_tree.h"

namespace hocket {

struct GatherBinomial {
  static constexpr Collective collective = Collective::gather;
  static constexpr const char* name = "binomial";
  static constexpr const char* summary = "log2 n hops, a subtree of blocks per rank: small blocks over a network";
  static constexpr uint32_t max_ranks = 1u << 30;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? 1 : b == Buf::out ? n : n > 3 ? n : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t rank, uint32_t) const {
    return 1 + tree().children(rank) + (tree().is_inner(rank) ? 1 : 0);
  }

  // The own block, those of the children, nearest first, and on they go.
  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    const Buf kept = rank == root ? Buf::out : Buf::scratch;
    if (i == 0 && rank != root && !tree().is_inner(rank)) return Step{}.load(Buf::in, 0).push(0);
    if (i == 0) return Step{}.load(Buf::in, 0).store(kept, rank);
    if (i > tree().children(rank)) return Step{}.load(kept, rank).blocks(tree().size(rank)).push(0);
    const uint32_t child = tree().child(rank, i - 1);
    return Step{}.pop(i - 1).store(kept, child).blocks(tree().size(child));
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return tree().children(rank); }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return rank == root ? 0 : 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {tree().child(rank, k), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t) const { return {tree().parent(rank), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links_out(rank), rank == root ? 0 : tree().size(rank)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return tree().largest_branch(); }

 private:
  HKT_HD constexpr BinomialTree tree() const { return {n, root}; }
};

static_assert(GatherBinomial{6, 1}.step(1, 0, 3) == Step{}.pop(2).store(Buf::out, 5).blocks(2));
static_assert(GatherBinomial{6, 1}.step(5, 0, 2) == Step{}.load(Buf::scratch, 5).blocks(2).push(0));

}  // namespace hocket
