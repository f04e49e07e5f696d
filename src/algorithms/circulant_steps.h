// The two phases on a circulant graph that several planners are made of: ceil(log2 n) rounds for any n, in which every
// rank sends n-1 blocks in all, the least there is.
//
// With the blocks counted from the own rank (block j is that of rank + j) and spans s_0 = n, s_k+1 = ceil(s_k / 2),
// ..., 1: round k of the fold sends blocks s_k+1 ... s_k - 1 to rank + s_k+1, whose blocks 0, 1, ... they are, and
// folds as many from rank - s_k+1 into the own blocks 0, 1, ...; after the last round block 0 is complete. The copy
// runs the same rounds backwards. Blocks are addressed by (rank + j) mod n, so nothing has to be rotated.
//
// Source: Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024; the copy is that of Bruck et
// al., 1997.
#pragma once

#include "algorithms/math.h"

namespace hocket {

// A Graph as graph_planners.h has it.
struct CirculantSteps {
  struct Text {
    static constexpr const char* name = "circulant";
    static constexpr const char* all_reduce_summary =
        "2 log2 n hops, 2(n-1)/n of the vector per rank: medium and large vectors over a network, any n";
    static constexpr const char* block_summary = "log2 n hops, n-1 blocks per rank: small and medium blocks, any n";
  };
  static constexpr uint32_t max_ranks = 1u << 30;

  uint32_t n = 1;

  HKT_HD constexpr uint32_t links() const { return rounds(); }
  HKT_HD constexpr uint32_t messages() const { return rounds(); }
  HKT_HD constexpr uint32_t message_blocks() const { return n / 2; }
  HKT_HD constexpr bool keeps_partials() const { return n > 2; }

  HKT_HD constexpr uint32_t rounds() const { return ceil_log2(n); }
  // s_k = ceil(n / 2^k), and the blocks of a message of round k.
  HKT_HD constexpr uint32_t span(uint32_t k) const { return k < 32 ? ((n - 1) >> k) + 1 : 1; }
  HKT_HD constexpr uint32_t count(uint32_t k) const { return span(k) / 2; }

  // The fold: 2 steps per round, one more where n is odd. Round k uses link k of both tables. Partial folds lie in
  // `partial`, block by block; the last step of all, whose value is block 0, is left for the planner to store.
  HKT_HD constexpr uint32_t fold_steps() const { return 2 * rounds() + odd(); }
  HKT_HD constexpr Step fold(uint32_t rank, Buf partial, uint32_t i) const {
    // Where n is odd, one block waits for the second round without having been folded with anything.
    if (odd() == 1 && i == 1) return Step{}.load(Buf::in, at(rank, n / 2)).pre().store(partial, at(rank, n / 2));
    if (i > 1) i -= odd();
    const uint32_t k = i / 2, sent = at(rank, span(k + 1));
    if (i % 2 == 0)
      return (k == 0 ? Step{}.load(Buf::in, sent).pre() : Step{}.load(partial, sent)).blocks(count(k)).push(k);
    const Step s = k == 0 ? Step{}.pop(k).load(Buf::in, rank, 1).pre() : Step{}.pop(k).load(partial, rank, 1);
    return (k + 1 < rounds() ? s.store(partial, rank) : s).blocks(count(k));
  }
  HKT_HD constexpr uint32_t fold_from(uint32_t rank, uint32_t k) const { return wrap(rank + (n - span(k + 1)), n); }
  HKT_HD constexpr uint32_t fold_to(uint32_t rank, uint32_t k) const { return at(rank, span(k + 1)); }

  // The copy. Round t, counted as they run, uses link first + t.
  HKT_HD constexpr Step copy_first(Step own, uint32_t first_out) const { return own.push(first_out); }
  HKT_HD constexpr uint32_t copy_steps() const { return n == 1 ? 0 : 2 * rounds() - 1; }
  HKT_HD constexpr Step copy(uint32_t rank, uint32_t first_in, uint32_t first_out, uint32_t i) const {
    const uint32_t t = (i + 1) / 2, k = rounds() - 1 - t;
    if (i % 2 == 0) return Step{}.pop(first_in + t).store(Buf::out, at(rank, span(k + 1))).blocks(count(k));
    return Step{}.load(Buf::out, rank).blocks(count(k)).push(first_out + t);
  }
  HKT_HD constexpr uint32_t copy_from(uint32_t rank, uint32_t t) const { return at(rank, span(rounds() - t)); }
  HKT_HD constexpr uint32_t copy_to(uint32_t rank, uint32_t t) const {
    return wrap(rank + (n - span(rounds() - t)), n);
  }

 private:
  HKT_HD constexpr uint32_t odd() const { return n > 1 ? n & 1 : 0; }
  HKT_HD constexpr uint32_t at(uint32_t rank, uint32_t j) const { return wrap(rank + j, n); }
};

static_assert(CirculantSteps{5}.rounds() == 3 && CirculantSteps{5}.span(1) == 3 && CirculantSteps{5}.span(3) == 1);
static_assert(CirculantSteps{4}.fold(1, Buf::scratch, 0) == Step{}.load(Buf::in, 3).pre().blocks(2).push(0));
static_assert(CirculantSteps{4}.copy(1, 0, 0, 2) == Step{}.pop(1).store(Buf::out, 3).blocks(2));

}  // namespace hocket
