// What planners for powers of two do with other numbers of ranks. With p = 2^floor(log2 n) and n - p ranks left over,
// the first 2(n - p) ranks pair up: the even one folds into its odd neighbour before, and gets the result afterwards.
//
// Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
#pragma once

#include "algorithms/math.h"

namespace hocket {

struct PairedRanks {
  enum class Role : uint8_t {
    folded,  // gives its operand to the next rank and waits
    pair,    // stands for itself and the rank before it
    single
  };

  uint32_t n = 1;

  // Ranks that are not folded are numbered 0 ... 2^exchanges - 1, in their order.
  HKT_HD constexpr uint32_t exchanges() const { return floor_log2(n); }
  HKT_HD constexpr uint32_t left_over() const { return n - (1u << exchanges()); }
  HKT_HD constexpr Role role(uint32_t rank) const {
    if (rank >= 2 * left_over()) return Role::single;
    return (rank & 1) == 0 ? Role::folded : Role::pair;
  }
  // Of a folded rank: that of its neighbour.
  HKT_HD constexpr uint32_t number(uint32_t rank) const {
    return role(rank) == Role::single ? rank - left_over() : rank / 2;
  }
  HKT_HD constexpr uint32_t rank(uint32_t number) const {
    return number < left_over() ? 2 * number + 1 : number + left_over();
  }
};

static_assert(PairedRanks{5}.number(0) == 0 && PairedRanks{5}.rank(0) == 1 && PairedRanks{5}.number(4) == 3);

}  // namespace hocket
