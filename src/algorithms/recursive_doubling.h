// Recursive doubling all-reduce: in exchange k the ranks that differ in bit k of their number swap what they have and
// fold it. Where n is no power of two, some ranks pair up (paired_ranks.h).
//
// Steps: floor(log2 n) exchanges, 2 more hops where n is no power of two. Bytes on the wire: as many times the vector
// per rank.
// Wins for small vectors over a network.
// Order: lower ranks first, in one binary tree over the ranks that every rank evaluates alike. All ranks get the same
// bits, whatever the size of the vector, and the operation need not be commutative.
//
// Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
#pragma once

#include "algorithms/paired_ranks.h"

namespace hocket {

struct RecursiveDoubling {
  static constexpr Collective collective = Collective::all_reduce;
  static constexpr const char* name = "recursive_doubling";
  static constexpr const char* summary = "log2 n exchanges of the whole vector: small vectors over a network";
  static constexpr uint32_t max_ranks = 1u << 31;
  static constexpr bool folds_in_rank_order = true;
  enum Tag : uint16_t { kFold = 0, kExchange = 1, kUnfold = 2 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : 1; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t rank, uint32_t) const {
    return role(rank) == Role::folded ? 2 : exchanges() + 1;
  }

  // The running value lies in out, except the rank's own operand, which is taken from in whenever it is needed.
  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    const Role me = role(rank);
    if (me == Role::folded) return i == 0 ? Step{}.load(Buf::in, 0).pre().push(0) : Step{}.pop(0).store(Buf::out, 0);
    const uint32_t pair = me == Role::pair ? 1 : 0;  // links of the neighbour come first in both tables
    if (i == 0) {
      if (pair == 0) return Step{}.load(Buf::in, 0).pre().push(0);
      return Step{}.pop(0).load(Buf::in, 0, 1).pre().store(Buf::out, 0).push(1);
    }
    const uint32_t lower_first = (ranks().number(rank) >> (i - 1)) & 1;
    Step s = Step{}.pop(pair + i - 1).load(Buf::out, 0, lower_first).store(Buf::out, 0);
    if (i == 1 && pair == 0) s = s.load(Buf::in, 0, lower_first).pre();
    if (i < exchanges()) return s.push(pair + i);
    return pair == 0 ? s.post() : s.post().push(0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return links(rank); }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return links(rank); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const {
    switch (role(rank)) {
      case Role::folded:
        return {rank + 1, kUnfold, 0};
      case Role::pair:
        return k == 0 ? Peer{rank - 1, kFold, 0} : Peer{partner(rank, k - 1), kExchange, 0};
      case Role::single:
        break;
    }
    return {partner(rank, k), kExchange, 0};
  }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const {
    switch (role(rank)) {
      case Role::folded:
        return {rank + 1, kFold, 0};
      case Role::pair:
        return k == 0 ? Peer{rank - 1, kUnfold, 0} : Peer{partner(rank, k - 1), kExchange, 0};
      case Role::single:
        break;
    }
    return {partner(rank, k), kExchange, 0};
  }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links(rank), links(rank)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }

 private:
  using Role = PairedRanks::Role;

  HKT_HD constexpr PairedRanks ranks() const { return {n}; }
  HKT_HD constexpr uint32_t exchanges() const { return ranks().exchanges(); }
  HKT_HD constexpr Role role(uint32_t rank) const { return ranks().role(rank); }
  HKT_HD constexpr uint32_t partner(uint32_t rank, uint32_t k) const {
    return ranks().rank(ranks().number(rank) ^ (1u << k));
  }
  // As many out as in: one each way with every partner and with the neighbour.
  HKT_HD constexpr uint32_t links(uint32_t rank) const {
    switch (role(rank)) {
      case Role::folded:
        return 1;
      case Role::pair:
        return exchanges() + 1;
      case Role::single:
        break;
    }
    return exchanges();
  }
};

static_assert(RecursiveDoubling{2}.step(0, 0, 0) == Step{}.load(Buf::in, 0).pre().push(0));
static_assert(RecursiveDoubling{2}.step(1, 0, 1) == Step{}.pop(0).load(Buf::in, 0, 1).pre().store(Buf::out, 0).post());
static_assert(RecursiveDoubling{3}.step(1, 0, 1) == Step{}.pop(1).load(Buf::out, 0).store(Buf::out, 0).post().push(0));

}  // namespace hocket
