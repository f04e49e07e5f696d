// Binomial tree broadcast: with ranks counted from the root, r gets the data from r without its lowest bit and passes
// it on to r + 2^k for all 2^k below that bit, far children first: they have the larger subtrees.
//
// Steps: at most ceil(log2 n) hops. Bytes on the wire: the root sends ceil(log2 n) times the data, half of the ranks
// nothing. Wins for small data over a network.
#pragma once

#include "algorithms/binomial_tree.h"

namespace hocket {

struct Binomial {
  static constexpr Collective collective = Collective::broadcast;
  static constexpr const char* name = "binomial";
  static constexpr const char* summary = "log2 n hops, the root sends the data log2 n times: small data";
  static constexpr uint32_t max_ranks = 1u << 30;
  enum Tag : uint16_t { kData = 0 };

  uint32_t n = 1;
  uint32_t root = 0;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : 1; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return 1; }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t) const {
    const Step s = rank == root ? Step{}.load(Buf::in, 0).store(Buf::out, 0) : Step{}.pop(0).store(Buf::out, 0);
    return links_out(rank) > 0 ? s.push(0, links_out(rank)) : s;
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return rank == root ? 0 : 1; }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return tree().children(rank); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t) const { return {tree().parent(rank), kData, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {tree().far_child(rank, k), kData, 0}; }

  HKT_HD constexpr Cost cost(uint32_t rank) const { return {links_out(rank), links_out(rank)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : 1; }

 private:
  HKT_HD constexpr BinomialTree tree() const { return {n, root}; }
};

static_assert(Binomial{6, 0}.step(0, 0, 0) == Step{}.load(Buf::in, 0).store(Buf::out, 0).push(0, 3));
static_assert(Binomial{6, 2}.out(2, 0).rank == 0 && Binomial{6, 2}.out(2, 2).rank == 3 &&
              Binomial{6, 2}.in(1, 0).rank == 0);

}  // namespace hocket
