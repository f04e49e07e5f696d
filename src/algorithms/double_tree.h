// Double binary tree all-reduce: each of two binary trees reduces one half of the vector to its root and sends it back
// down. Inner nodes of one tree are leaves of the other (n odd: all but rank 0), so that both directions of every rank
// are busy.
//
// Steps: at most 2 ceil(log2 n) hops. Bytes on the wire: up to twice the vector per rank, pipelined by rounds. Wins
// over a network for medium vectors and many ranks.
// Order: each half is folded by one tree at one place per node. All ranks get the same bits, but the halves differ in
// their order.
//
// Source: Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009; the
// numbering by lowest bits is the one that NCCL made common.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct DoubleTree {
  static constexpr Collective collective = Collective::all_reduce;
  static constexpr const char* name = "double_tree";
  static constexpr const char* summary =
      "2 log2 n hops, pipelined, up to twice the vector per rank: medium vectors, many ranks";
  static constexpr uint32_t max_ranks = 1u << 30;

  uint32_t n = 1;

  // A rank's place in one tree. Operands fold in the order of positions: first child, itself, second child.
  struct Node {
    uint32_t parent = 0;
    uint32_t children = 0;
    uint32_t child[2] = {0, 0};
    uint32_t self = 0;  // children folded before the own operand
    bool root = false;

    HKT_HD constexpr uint32_t parents() const { return root ? 0 : 1; }
    HKT_HD constexpr uint32_t links() const { return children + parents(); }
  };
  // Position 0 is the root and has one child, the largest power of two below n. Another position p with lowest bit b
  // has the children p - b/2 and p + b/2 (or + b/4, ... whatever stays below n).
  HKT_HD constexpr Node node(uint32_t rank, uint32_t tree) const {
    Node v;
    const uint32_t p = position(rank, tree);
    if (p == 0) {
      v.root = true;
      v.children = 1;
      v.child[0] = rank_at(1u << (ceil_log2(n) - 1), tree);
      return v;
    }
    const uint32_t b = low_bit(p);
    const uint32_t up = (p ^ b) | (2 * b);
    v.parent = rank_at(up < n ? up : p ^ b, tree);
    if (b == 1) return v;
    v.self = 1;
    v.child[v.children++] = rank_at(p - b / 2, tree);
    uint32_t right = b / 2;
    while (right > 0 && p + right >= n) right /= 2;
    if (right > 0) v.child[v.children++] = rank_at(p + right, tree);
    return v;
  }

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : 2; }

  // Lane 2t goes up tree t, lane 2t + 1 down: no direction waits for another, so rounds follow one another like a
  // pipeline. The root turns around in its up lane. No dependency joins the lanes: a result cannot come down before
  // this rank's operand went up.
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return n == 1 ? 1 : 4; }
  HKT_HD constexpr uint32_t steps(uint32_t rank, uint32_t lane) const {
    return n > 1 && down(lane) && node(rank, lane / 2).root ? 0 : 1;
  }
  HKT_HD constexpr Step step(uint32_t rank, uint32_t lane, uint32_t) const {
    if (n == 1) return reduce_alone(2);
    const uint32_t tree = lane / 2;
    const Node v = node(rank, tree);
    const uint32_t first = tree == 0 ? 0 : node(rank, 0).links();  // of this tree's links in both tables
    if (down(lane)) {
      const Step s = Step{}.pop(first + v.children).store(Buf::out, tree);
      return v.children > 0 ? s.push(first + 1, v.children) : s;
    }
    Step s = Step{}.load(Buf::in, tree, v.self).pre();
    if (v.children > 0) s = s.pop(first, v.children);
    return v.root ? s.post().store(Buf::out, tree).push(first, v.children) : s.push(first);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  // Per tree, in: children (going up), parent (down). Out: parent (up), children (down).
  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return links(rank); }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return links(rank); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const {
    const uint32_t tree = tree_of(rank, k);
    const Node v = node(rank, tree);
    if (tree == 1) k -= node(rank, 0).links();
    return k < v.children ? Peer{v.child[k], up_tag(tree), 0} : Peer{v.parent, down_tag(tree), 0};
  }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const {
    const uint32_t tree = tree_of(rank, k);
    const Node v = node(rank, tree);
    if (tree == 1) k -= node(rank, 0).links();
    return k < v.parents() ? Peer{v.parent, up_tag(tree), 0} : Peer{v.child[k - v.parents()], down_tag(tree), 0};
  }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links(rank), links(rank)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }

  HKT_HD static constexpr uint16_t up_tag(uint32_t tree) { return static_cast<uint16_t>(2 * tree); }
  HKT_HD static constexpr uint16_t down_tag(uint32_t tree) { return static_cast<uint16_t>(2 * tree + 1); }

 private:
  HKT_HD static constexpr bool down(uint32_t lane) { return (lane & 1) != 0; }
  // The second tree is the first one mirrored (n even) or shifted by one rank (n odd).
  HKT_HD constexpr uint32_t position(uint32_t rank, uint32_t tree) const {
    if (tree == 0) return rank;
    return (n & 1) == 0 ? n - 1 - rank : wrap(rank + (n - 1), n);
  }
  HKT_HD constexpr uint32_t rank_at(uint32_t position, uint32_t tree) const {
    if (tree == 0) return position;
    return (n & 1) == 0 ? n - 1 - position : wrap(position + 1, n);
  }
  HKT_HD constexpr uint32_t tree_of(uint32_t rank, uint32_t k) const { return k < node(rank, 0).links() ? 0 : 1; }
  HKT_HD constexpr uint32_t links(uint32_t rank) const {
    return n == 1 ? 0 : node(rank, 0).links() + node(rank, 1).links();
  }
};

static_assert(DoubleTree{8}.node(0, 0).root && DoubleTree{8}.node(7, 1).root && DoubleTree{7}.node(1, 1).root);
static_assert(DoubleTree{8}.node(6, 0).parent == 4 && DoubleTree{7}.node(6, 0).child[0] == 5);
static_assert(DoubleTree{2}.step(0, 0, 0) == Step{}.pop(0).load(Buf::in, 0).pre().post().store(Buf::out, 0).push(0));

}  // namespace hocket
