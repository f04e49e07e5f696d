// The binomial tree that the planners with a root share. Ranks are counted from the root; r is a child of r without its
// lowest bit, and its subtree are the ranks r, r + 1, ... below r + that bit: a contiguous range.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct BinomialTree {
  uint32_t n = 1;
  uint32_t root = 0;

  // Ranks in the subtree of a rank, with itself.
  HKT_HD constexpr uint32_t size(uint32_t rank) const {
    const uint32_t r = relative(rank);
    const uint32_t room = n - r;
    return r == 0 || low_bit(r) > room ? room : low_bit(r);
  }
  HKT_HD constexpr uint32_t children(uint32_t rank) const { return ceil_log2(size(rank)); }
  // The j-th child is 2^j further.
  HKT_HD constexpr uint32_t child(uint32_t rank, uint32_t j) const { return absolute(relative(rank) + (1u << j)); }
  // The one with the largest subtree first, but for a last one that n has clipped.
  HKT_HD constexpr uint32_t far_child(uint32_t rank, uint32_t k) const { return child(rank, children(rank) - 1 - k); }
  // Of another rank than the root.
  HKT_HD constexpr uint32_t parent(uint32_t rank) const {
    const uint32_t r = relative(rank);
    return absolute(r - low_bit(r));
  }
  HKT_HD constexpr bool is_inner(uint32_t rank) const { return rank != root && size(rank) > 1; }
  // The most ranks in a subtree of another rank than the root.
  HKT_HD constexpr uint32_t largest_branch() const {
    if (n <= 2) return n - 1;
    const uint32_t last = 1u << (ceil_log2(n) - 1);
    return n - last > last / 2 ? n - last : last / 2;
  }

 private:
  HKT_HD constexpr uint32_t relative(uint32_t rank) const { return rank >= root ? rank - root : rank + (n - root); }
  HKT_HD constexpr uint32_t absolute(uint32_t r) const { return wrap(r + root, n); }
};

static_assert(BinomialTree{6, 0}.children(0) == 3 && BinomialTree{6, 0}.size(4) == 2 &&
              BinomialTree{6, 0}.size(2) == 2);
static_assert(BinomialTree{7, 0}.largest_branch() == 3 && BinomialTree{5, 0}.largest_branch() == 2);

}  // namespace hocket
