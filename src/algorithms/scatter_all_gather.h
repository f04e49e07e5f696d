// Scatter and all-gather broadcast: the root scatters n parts of the data along a binomial tree, then an all-gather on
// a circulant graph gives all of them to everybody.
//
// Steps: 2 ceil(log2 n) hops. Bytes on the wire: about twice the data, whatever n. Wins over a network for medium data:
// a binomial tree's root sends log2 n times the data, a chain needs many rounds to fill.
//
// Source: Barnett, Shuler, van de Geijn, Gupta, Payne and Watts, "Interprocessor collective communication library
// (InterCom)", 1994. An inner rank of the tree is sent parts in the second phase that it has already: the graph is the
// same for all.
#pragma once

#include "algorithms/binomial_tree.h"
#include "algorithms/circulant_steps.h"

namespace hocket {

struct ScatterAllGather {
  static constexpr Collective collective = Collective::broadcast;
  static constexpr const char* name = "scatter_all_gather";
  static constexpr const char* summary = "2 log2 n hops, about twice the data per rank: medium data over a network";
  static constexpr uint32_t max_ranks = 1u << 30;
  enum Tag : uint16_t { kScatter = 0, kCopy = 1 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : n; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t rank, uint32_t) const {
    return links_scatter_in(rank) + tree().children(rank) + 1 + graph().copy_steps();
  }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    const uint32_t children = tree().children(rank), received = links_scatter_in(rank);
    if (i < received) return Step{}.pop(0).store(Buf::out, rank).blocks(tree().size(rank));
    const uint32_t k = i - received;
    if (k > children) return graph().copy(rank, received, children, k - children - 1);
    const uint32_t c = k < children ? tree().far_child(rank, k) : rank;  // in the end the own part
    Step s = Step{}.load(rank == root ? Buf::in : Buf::out, c);
    if (rank == root) s = s.store(Buf::out, c);
    if (k < children) return s.blocks(tree().size(c)).push(k);
    return n == 1 ? s : s.push(children);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  // The links of the tree, then those of the graph.
  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return links_scatter_in(rank) + graph().rounds(); }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return tree().children(rank) + graph().rounds(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const {
    if (k < links_scatter_in(rank)) return {tree().parent(rank), kScatter, 0};
    return {graph().copy_from(rank, k - links_scatter_in(rank)), kCopy, 0};
  }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const {
    if (k < tree().children(rank)) return {tree().far_child(rank, k), kScatter, 0};
    return {graph().copy_to(rank, k - tree().children(rank)), kCopy, 0};
  }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links_out(rank), tree().size(rank) - 1 + n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n / 2; }

 private:
  HKT_HD constexpr BinomialTree tree() const { return {n, root}; }
  HKT_HD constexpr CirculantSteps graph() const { return {n}; }
  HKT_HD constexpr uint32_t links_scatter_in(uint32_t rank) const { return rank == root ? 0 : 1; }
};

static_assert(ScatterAllGather{4, 0}.step(0, 0, 0) == Step{}.load(Buf::in, 2).store(Buf::out, 2).blocks(2).push(0));
static_assert(ScatterAllGather{4, 0}.step(3, 0, 1) == Step{}.load(Buf::out, 3).push(0));
static_assert(ScatterAllGather{1, 0}.step(0, 0, 0) == Step{}.load(Buf::in, 0).store(Buf::out, 0));

}  // namespace hocket
