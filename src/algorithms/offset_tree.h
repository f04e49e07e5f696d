// The two phases on a binomial tree of offsets that NHR and PAT are made of: ceil(log2 n) hops for any n, n-1 blocks
// per rank, each of them over the distance of a power of two, and most of them over small ones.
//
// Seen from a rank, block x is that of rank - x. In the fold, block x goes to rank - b, b the lowest bit of x, whose
// block x - b it is; before, it has collected the same of x + 1, x + 2, x + 4, ... below x + b. Block 0 is the own one.
// The copy runs the same way back. Link k has distance 2^k.
//
// How many blocks share a message is free. With blocks in rows of D = 2^d:
// Near links, k < d: a column in a message, D - 1 of them, at most ceil((n-1) / D) blocks each. The fold goes from the
//   last column to the first, depth first in the tree: all that flows into a column has come by then, and a link has
//   few messages at a time, however many there are in all. Every second column waits for the one before: D / 2 hops.
// Far links: column 0 is a tree over rows, whose blocks for one link go together: a hop per link.
// D = 2 makes ceil(log2 n) hops with messages of up to n/2 blocks, D >= n makes n/2 hops with messages of one. Where
// the last row is short, a column and what flows into it may differ by one in height: the step is split.
//
// Sources: NHR, "nonuniform hierarchical ring", of Huawei's HCCL; PAT: Jeaugey, "PAT: a new algorithm for all-gather
// and reduce-scatter operations at scale", 2025.
#pragma once

#include "algorithms/math.h"

namespace hocket {

// A Graph as graph_planners.h has it. Variant: its Text, and `max_rows`, the most blocks of a message, a
// power of two.
template <class Variant>
struct OffsetTree {
  using Text = Variant;
  static constexpr uint32_t max_ranks = 1u << 30;

  uint32_t n = 1;  // at least 2 where steps are asked for

  HKT_HD constexpr uint32_t links() const { return ceil_log2(n); }
  HKT_HD constexpr uint32_t messages() const { return n == 1 ? 0 : columns() - 1 + far(); }
  HKT_HD constexpr uint32_t message_blocks() const { return n == 1 ? 0 : rows(1); }
  HKT_HD constexpr bool keeps_partials() const { return far() > 0; }

  // The fold: columns from the last one on, then two steps per far link.
  HKT_HD constexpr uint32_t fold_steps() const { return near_folds() + 2 * far(); }
  HKT_HD constexpr Step fold(uint32_t rank, Buf partial, uint32_t i) const {
    if (i >= near_folds()) return far_fold(rank, partial, i - near_folds());
    const Place p = fold_place(i);
    const Column c = column(p.column);
    const uint32_t block = at(rank, p.column);
    if (p.part == 1)
      return spread(Step{}.pop(c.high, c.low).load(partial, block, c.low).store(partial, block), c.rows - 1, near());
    Step s = p.part == 2 ? Step{}.load(partial, block) : Step{}.load(Buf::in, block, c.high).pre();
    if (p.part == 0 && c.high > 0) s = s.pop(0, c.high);
    s = spread(s, c.rows, near());
    const bool whole = c.low == 0 || p.part == 2;
    if (whole && p.column > 0) return s.push(c.link);
    return whole && far() == 0 ? s : s.store(partial, block);
  }
  HKT_HD constexpr uint32_t fold_from(uint32_t rank, uint32_t k) const { return wrap(rank + (1u << k), n); }
  HKT_HD constexpr uint32_t fold_to(uint32_t rank, uint32_t k) const { return at(rank, 1u << k); }

  // The copy: far links, the farthest one first; then columns from the first one on.
  HKT_HD constexpr Step copy_first(Step own, uint32_t out) const {
    return far() > 0 ? own.push(out + links() - 1) : own.push(out, column(0).high);
  }
  HKT_HD constexpr uint32_t copy_steps() const {
    return n == 1 ? 0 : far_copies() + first_copies() + columns() - 1 + splits();
  }
  HKT_HD constexpr Step copy(uint32_t rank, uint32_t in, uint32_t out, uint32_t i) const {
    if (i < far_copies()) return far_copy(rank, in, out, i);
    const Place p = copy_place(i - far_copies());
    const Column c = column(p.column);
    const uint32_t block = at(rank, p.column);
    if (p.part == 1) return spread(Step{}.load(Buf::out, block).push(out + c.high, c.low), c.rows - 1, near());
    const Step s = p.column == 0 ? Step{}.load(Buf::out, block) : Step{}.pop(in + c.link).store(Buf::out, block);
    return spread(c.high > 0 ? s.push(out, c.high) : s, c.rows, near());
  }
  HKT_HD constexpr uint32_t copy_from(uint32_t rank, uint32_t k) const { return fold_to(rank, k); }
  HKT_HD constexpr uint32_t copy_to(uint32_t rank, uint32_t k) const { return fold_from(rank, k); }

 private:
  struct Column {
    uint32_t rows = 0;
    uint32_t link = 0;  // on which the fold sends it; of column 0: none, the first far one
    uint32_t high = 0;  // links on which as many rows flow in: 0 ... high - 1
    uint32_t low = 0;   // links on which one row less does: the next ones
  };
  struct Place {
    uint32_t column = 0;
    uint32_t part = 0;  // of a split step
  };

  HKT_HD constexpr uint32_t near() const {
    const uint32_t most = floor_log2(Variant::max_rows);
    return links() > most + 1 ? links() - most : 1;
  }
  HKT_HD constexpr uint32_t far() const { return links() - near(); }
  HKT_HD constexpr uint32_t columns() const { return 1u << near() < n ? 1u << near() : n; }
  HKT_HD constexpr uint32_t rows(uint32_t y) const { return ((n - 1 - y) >> near()) + 1; }
  HKT_HD constexpr uint32_t at(uint32_t rank, uint32_t x) const { return wrap(rank + (n - x), n); }
  // Blocks that are 2^k ranks apart, downwards.
  HKT_HD constexpr Step spread(Step s, uint32_t count, uint32_t k) const {
    return s.blocks(count, count > 1 ? n - (1u << k) : 1);
  }

  HKT_HD constexpr Column column(uint32_t y) const {
    Column c{rows(y), y == 0 ? near() : floor_log2(low_bit(y)), 0, 0};
    // So many columns on the last row ends.
    const uint32_t room = (n - 1 - y) & ((1u << near()) - 1), reached = room == 0 ? 0 : floor_log2(room) + 1;
    c.high = reached < c.link ? reached : c.link;
    c.low = c.rows > 1 ? c.link - c.high : 0;
    return c;
  }
  // Where the last row ends, `last`, a column is split if something flows into it from beyond: it is `last` without its
  // lowest bits, and the highest of those is 0. Bit w stands for the column whose lowest bit that is.
  HKT_HD constexpr uint32_t last() const { return (n - 1) & ((1u << near()) - 1); }
  HKT_HD constexpr uint32_t split() const { return far() == 0 ? 0 : last() & ~(last() << 1) & ~1u; }
  HKT_HD constexpr uint32_t splits() const {
    uint32_t count = 0;
    for (uint32_t bits = split(); bits != 0; bits &= bits - 1) ++count;
    return count;
  }
  HKT_HD constexpr bool first_is_split() const { return far() > 0 && last() < 1u << (near() - 1); }

  // A split column takes 3 steps, the first one, which sends nothing here, 2.
  HKT_HD constexpr uint32_t near_folds() const { return columns() + 2 * splits() + (first_is_split() ? 1 : 0); }
  HKT_HD constexpr Place fold_place(uint32_t i) const {
    for (uint32_t bits = split(); bits != 0; bits &= bits - 1) {
      const uint32_t y = last() & ~(low_bit(bits) - 1), before = columns() - 1 - y;
      if (i < before) break;
      if (i <= before + 2) return {y, i - before};
      i -= 2;
    }
    return i < columns() ? Place{columns() - 1 - i, 0} : Place{0, 1};
  }
  // A split column takes 2 steps. The first one takes none if `copy_first` has sent it, and else one for each height.
  HKT_HD constexpr uint32_t first_copies() const {
    return far() == 0 ? 0 : first_is_split() && column(0).high > 0 ? 2 : 1;
  }
  HKT_HD constexpr Place copy_place(uint32_t i) const {
    if (i < first_copies()) return {0, column(0).high > 0 ? i : 1};
    i -= first_copies();
    for (uint32_t bits = split(); bits != 0;) {
      const uint32_t top = 1u << floor_log2(bits), y = last() & ~(top - 1), before = y - 1;
      if (i < before) break;
      if (i <= before + 1) return {y, i - before};
      --i;
      bits ^= top;
    }
    return {i + 1, 0};
  }

  // Far link k moves column 0 of the rows whose lowest bit is 2^k to that of the rows below them.
  HKT_HD constexpr uint32_t far_count(uint32_t k) const { return (rows(0) - 1 + (1u << k)) >> (k + 1); }
  HKT_HD constexpr Step far_range(Step s, uint32_t k) const { return spread(s, far_count(k), near() + k + 1); }
  HKT_HD constexpr Step far_fold(uint32_t rank, Buf partial, uint32_t i) const {
    const uint32_t k = i / 2, link = near() + k;
    if (i % 2 == 0) return far_range(Step{}.load(partial, at(rank, 1u << link)).push(link), k);
    const Step s = Step{}.pop(link).load(partial, rank, 1);
    return far_range(k + 1 < far() ? s.store(partial, rank) : s, k);
  }
  // Without what `copy_first` has sent.
  HKT_HD constexpr uint32_t far_copies() const { return far() == 0 ? 0 : 2 * far() - 1; }
  HKT_HD constexpr Step far_copy(uint32_t rank, uint32_t in, uint32_t out, uint32_t i) const {
    const uint32_t k = far() - 1 - (i + 1) / 2, link = near() + k;
    if (i % 2 == 0) return far_range(Step{}.pop(in + link).store(Buf::out, at(rank, 1u << link)), k);
    return far_range(Step{}.load(Buf::out, rank).push(out + link), k);
  }
};

}  // namespace hocket
