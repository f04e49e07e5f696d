// Binomial tree reduce: the binomial broadcast run backwards. A rank folds what its children send, and its own vector,
// in one step, and sends the result to its parent: nothing is stored on the way.
//
// Steps: at most ceil(log2 n) hops. Bytes on the wire: the vector once per rank, ceil(log2 n) times into the root. Wins
// for small and medium vectors over a network.
// Order: subtrees are contiguous ranges, folded in the order of ranks counted from the root. For root 0 that is the
// order of ranks; for another one the operation must be commutative.
#pragma once

#include "algorithms/binomial_tree.h"

namespace hocket {

struct ReduceBinomial {
  static constexpr Collective collective = Collective::reduce;
  static constexpr const char* name = "binomial";
  static constexpr const char* summary =
      "log2 n hops, the vector once per rank: small and medium vectors over a network";
  static constexpr uint32_t max_ranks = 1u << 30;
  enum Tag : uint16_t { kVector = 0 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : 1; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t) const {
    Step s = Step{}.load(Buf::in, 0).pre();
    if (links_in(rank) > 0) s = s.pop(0, links_in(rank));
    return rank == root ? s.post().store(Buf::out, 0) : s.push(0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return tree().children(rank); }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return rank == root ? 0 : 1; }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {tree().child(rank, k), kVector, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t) const { return {tree().parent(rank), kVector, 0}; }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links_out(rank), links_out(rank)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }

 private:
  HKT_HD constexpr BinomialTree tree() const { return {n, root}; }
};

static_assert(ReduceBinomial{6, 0}.step(4, 0, 0) == Step{}.pop(0).load(Buf::in, 0).pre().push(0));
static_assert(ReduceBinomial{6, 0}.step(0, 0, 0) == Step{}.pop(0, 3).load(Buf::in, 0).pre().post().store(Buf::out, 0));

}  // namespace hocket
