// Binomial tree scatter: a rank gets the blocks of its subtree, a contiguous range of ranks counted from the root, as
// one message and hands each child its part.
//
// Steps: at most ceil(log2 n) hops. Bytes on the wire: n-1 blocks from the root, the blocks of its subtree but its own
// from another rank. Wins for small blocks over a network.
#pragma once

#include "algorithms/binomial_tree.h"

namespace hocket {

struct ScatterBinomial {
  static constexpr Collective collective = Collective::scatter;
  static constexpr const char* name = "binomial";
  static constexpr const char* summary = "log2 n hops, a subtree of blocks per message: small blocks over a network";
  static constexpr uint32_t max_ranks = 1u << 30;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? n : b == Buf::out ? 1 : n > 3 ? n : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t rank, uint32_t) const {
    return 1 + tree().children(rank) + (tree().is_inner(rank) ? 1 : 0);
  }

  // What comes from the parent, the parts of the children, farthest first, and the own block.
  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    const bool inner = tree().is_inner(rank);
    const Buf from = rank == root ? Buf::in : Buf::scratch;
    if (rank != root && !inner) return Step{}.pop(0).store(Buf::out, 0);
    if (inner && i == 0) return Step{}.pop(0).store(Buf::scratch, rank).blocks(tree().size(rank));
    const uint32_t k = inner ? i - 1 : i;
    if (k == tree().children(rank)) return Step{}.load(from, rank).store(Buf::out, 0);
    const uint32_t child = tree().far_child(rank, k);
    return Step{}.load(from, child).blocks(tree().size(child)).push(k);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return rank == root ? 0 : 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return tree().children(rank); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t) const { return {tree().parent(rank), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {tree().far_child(rank, k), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links_out(rank), tree().size(rank) - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return tree().largest_branch(); }

 private:
  HKT_HD constexpr BinomialTree tree() const { return {n, root}; }
};

static_assert(ScatterBinomial{6, 1}.step(1, 0, 0) == Step{}.load(Buf::in, 5).blocks(2).push(0));
static_assert(ScatterBinomial{6, 1}.step(5, 0, 0) == Step{}.pop(0).store(Buf::scratch, 5).blocks(2));
static_assert(ScatterBinomial{6, 1}.step(5, 0, 1) == Step{}.load(Buf::scratch, 0).push(0));

}  // namespace hocket
