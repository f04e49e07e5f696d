// Halving and doubling all-reduce: in exchange k two ranks swap the halves of what they still have, each keeps the half
// that the other one gave away, folded; what is complete in the end travels the same exchanges backwards. Where n is no
// power of two, some ranks pair up (paired_ranks.h).
//
// Steps: 2 floor(log2 n) exchanges, 2 more hops where n is no power of two. Bytes on the wire: 2(p-1)/p of the vector
// per rank with p = 2^floor(log2 n); a pair carries the vector of its second rank besides. The first exchange moves
// half of the vector, the last one next to nothing. All chunks are contiguous ranges.
//
// Who swaps with whom in exchange k is up to `Numbers`:
// ByBits (`halving_doubling`): the numbers that differ in bit k, so that neighbours move the most. Order: lower ranks
//   first, in one binary tree over the ranks for all chunks, which is that of recursive doubling: all ranks get the
//   same bits, whatever the size of the vector, and the operation need not be commutative. Wins over a network for
//   medium and large vectors where that counts, or n is a power of two.
// BySwing (`swing`): number v and v + rho_k (v even) or v - rho_k (v odd), rho = 1, -1, 3, -5, 11, ...: distances grow
//   by 2 as well but are a third shorter, which spares the links of a ring, a torus or a thin tree. All ranks get the
//   same bits, chunks differ in their order; the operation must be commutative.
//
// Sources: Rabenseifner, "Optimization of collective reduction operations", 2004; De Sensi, Bonato, Saam and Hoefler,
// "Swing: short-cutting rings for higher bandwidth allreduce", 2024. Partial folds lie in out.
#pragma once

#include "algorithms/paired_ranks.h"

namespace hocket {

// Members of Numbers, for p = 2^k numbers v:
//   partner(v, k, p)  who swaps with v in exchange k
//   label(v, p)       another name of v: v and its partner in exchange k have the same bits below k, and differ in bit
//   k
struct ByBits {
  static constexpr const char* name = "halving_doubling";
  static constexpr const char* summary =
      "2 log2 n exchanges, 2(n-1)/n of the vector per rank (n = 2^k): medium and large vectors in one order";
  static constexpr bool in_rank_order = true;

  HKT_HD static constexpr uint32_t partner(uint32_t v, uint32_t k, uint32_t) { return v ^ (1u << k); }
  HKT_HD static constexpr uint32_t label(uint32_t v, uint32_t) { return v; }
};

// rho_k is the sum of (-2)^j over j <= k: mod 2^32 it approaches 1/3, and all of them agree with that in bits 1 ... k.
// An exchange changes the parity, so what it leaves alone is an even v, or an odd v less 1/3, as far as bit k; bit k +
// 1 flips. The last bit is the parity.
struct BySwing {
  static constexpr const char* name = "swing";
  static constexpr const char* summary =
      "2 log2 n exchanges with near ranks, 2(n-1)/n of the vector per rank (n = 2^k): rings, tori and thin trees";
  static constexpr bool in_rank_order = false;

  HKT_HD static constexpr uint32_t partner(uint32_t v, uint32_t k, uint32_t p) {
    const uint32_t rho = k % 2 == 0 ? ((2u << k) + 1) / 3 : 0 - ((2u << k) - 1) / 3;
    return (v % 2 == 0 ? v + rho : v - rho) & (p - 1);
  }
  HKT_HD static constexpr uint32_t label(uint32_t v, uint32_t p) {
    const uint32_t even = v % 2 == 0 ? v : v - kThird;
    return (even / 2 & (p / 2 - 1)) + v % 2 * (p / 2);
  }

 private:
  static constexpr uint32_t kThird = 0xaaaaaaab;  // 3 * kThird is 1 mod 2^32
};

template <class Numbers>
struct HalvingDoublingBy {
  static constexpr Collective collective = Collective::all_reduce;
  static constexpr const char* name = Numbers::name;
  static constexpr const char* summary = Numbers::summary;
  static constexpr uint32_t max_ranks = 1u << 30;
  static constexpr bool folds_in_rank_order = Numbers::in_rank_order;
  enum Tag : uint16_t { kFold = 0, kReduce = 1, kCopy = 2, kUnfold = 3 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : size(); }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t rank, uint32_t) const {
    if (n == 1) return 1;
    if (role(rank) == Role::folded) return 2 + exchanges() + 1;
    return 4 * exchanges() - 1 + pair(rank);
  }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    const uint32_t v = ranks().number(rank), both = pair(rank);
    if (role(rank) == Role::folded) return folded(v, i);
    if (i == 0) {
      const Step s = Step{}.load(Buf::in, away(v, 0), both).pre().blocks(count(0)).push(0);
      return both == 0 ? s : s.pop(neighbour());
    }
    if (both == 1 && i == 1)
      return Step{}.pop(neighbour()).load(Buf::in, kept(v, 0), 1).pre().store(Buf::out, kept(v, 0)).blocks(count(0));
    i -= both;
    return i < 2 * exchanges() ? reduce(v, both, i) : copy(v, both, i - 2 * exchanges());
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  // Per exchange a link to reduce and, in the order of their numbers again, one to copy; last, that of the neighbour.
  HKT_HD constexpr uint32_t links_in(uint32_t rank) const { return links(rank); }
  HKT_HD constexpr uint32_t links_out(uint32_t rank) const { return links(rank); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return peer(rank, k, kFold, kUnfold); }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return peer(rank, k, kUnfold, kFold); }

  // The vector is sent to the neighbour in 2 messages and comes back in one of each size.
  HKT_HD constexpr Cost cost(uint32_t rank) const {
    if (n == 1) return {};
    if (role(rank) == Role::folded) return {2, size()};
    return {2 * exchanges() + pair(rank) * (exchanges() + 1), 2 * (size() - 1) + pair(rank) * size()};
  }
  HKT_HD constexpr uint32_t message_blocks() const { return size() / 2; }

 private:
  using Role = PairedRanks::Role;

  HKT_HD constexpr PairedRanks ranks() const { return {n}; }
  HKT_HD constexpr uint32_t exchanges() const { return ranks().exchanges(); }
  HKT_HD constexpr uint32_t size() const { return 1u << exchanges(); }
  HKT_HD constexpr Role role(uint32_t rank) const { return ranks().role(rank); }
  HKT_HD constexpr uint32_t pair(uint32_t rank) const { return role(rank) == Role::pair ? 1 : 0; }

  // Chunks that number v gives away and keeps in exchange k, and how many. The first exchange decides between the
  // halves of the vector, the next one between the halves of that, ...
  HKT_HD constexpr uint32_t count(uint32_t k) const { return size() >> (k + 1); }
  HKT_HD constexpr uint32_t kept(uint32_t v, uint32_t k) const {
    const uint32_t label = Numbers::label(v, size());
    uint32_t first = 0;
    for (uint32_t j = 0; j <= k; ++j) first += (label >> j & 1) * count(j);
    return first;
  }
  HKT_HD constexpr uint32_t away(uint32_t v, uint32_t k) const { return kept(v, k) ^ count(k); }

  // Two messages to the neighbour, first what it will give away; then what it has, as it gets it.
  HKT_HD constexpr Step folded(uint32_t v, uint32_t i) const {
    if (i < 2) return Step{}.load(Buf::in, i == 0 ? away(v, 0) : kept(v, 0)).pre().blocks(count(0)).push(0);
    const uint32_t last = exchanges() - 1;
    if (i == 2) return Step{}.pop(0).store(Buf::out, kept(v, last));
    const uint32_t k = last - (i - 3);
    return Step{}.pop(0).store(Buf::out, away(v, k)).blocks(count(k));
  }
  // Two steps per exchange; the first one of all is elsewhere. `both`: this rank has a neighbour.
  HKT_HD constexpr Step reduce(uint32_t v, uint32_t both, uint32_t i) const {
    const uint32_t k = i / 2;
    if (i % 2 == 0) return Step{}.load(Buf::out, away(v, k)).blocks(count(k)).push(k);
    Step s = Step{}.pop(k).load(Buf::out, kept(v, k), v >> k & 1).store(Buf::out, kept(v, k)).blocks(count(k));
    if (k == 0 && both == 0) s = s.load(Buf::in, kept(v, k), v & 1).pre();
    return k + 1 < exchanges() ? s : s.post().push(exchanges() + k, 1 + both);
  }
  // Backwards; the last step of `reduce` has sent already.
  HKT_HD constexpr Step copy(uint32_t v, uint32_t both, uint32_t i) const {
    const uint32_t k = exchanges() - 1 - (i + 1) / 2;
    if (i % 2 == 1) return Step{}.load(Buf::out, kept(v, k)).blocks(count(k)).push(exchanges() + k);
    const Step s = Step{}.pop(exchanges() + k).store(Buf::out, away(v, k)).blocks(count(k));
    return both == 0 ? s : s.push(neighbour());
  }

  HKT_HD constexpr uint32_t neighbour() const { return 2 * exchanges(); }  // its link
  HKT_HD constexpr uint32_t links(uint32_t rank) const {
    return role(rank) == Role::folded ? 1 : 2 * exchanges() + pair(rank);
  }
  HKT_HD constexpr Peer peer(uint32_t rank, uint32_t k, Tag of_pair, Tag of_folded) const {
    if (role(rank) == Role::folded) return {rank + 1, of_folded, 0};
    if (k == neighbour()) return {rank - 1, of_pair, 0};
    const uint32_t exchange = k < exchanges() ? k : k - exchanges();
    return {ranks().rank(Numbers::partner(ranks().number(rank), exchange, size())), k == exchange ? kReduce : kCopy, 0};
  }
};

using HalvingDoubling = HalvingDoublingBy<ByBits>;
using Swing = HalvingDoublingBy<BySwing>;

static_assert(HalvingDoubling{4}.step(1, 0, 0) == Step{}.load(Buf::in, 0).pre().blocks(2).push(0));
static_assert(HalvingDoubling{4}.step(1, 0, 3) == Step{}.pop(1).load(Buf::out, 2).store(Buf::out, 2).post().push(3));
static_assert(HalvingDoubling{3}.step(1, 0, 0) == Step{}.pop(2).load(Buf::in, 1, 1).pre().push(0));
static_assert(Swing{16}.out(0, 2).rank == 3 && Swing{16}.out(1, 2).rank == 14 && Swing{16}.out(0, 3).rank == 11);

}  // namespace hocket
