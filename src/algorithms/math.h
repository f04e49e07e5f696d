// Integer arithmetic that the planners share. Constexpr, host and device, no std functions.
#pragma once

#include "schedule/step.h"

namespace hocket {

// Of x >= 1.
HKT_HD constexpr uint32_t floor_log2(uint32_t x) {
  uint32_t k = 0;
  while (x >>= 1) ++k;
  return k;
}
HKT_HD constexpr uint32_t ceil_log2(uint32_t x) { return x <= 1 ? 0 : floor_log2(x - 1) + 1; }

HKT_HD constexpr uint32_t low_bit(uint32_t x) { return x & (~x + 1); }

// x mod n for 0 <= x < 2n: cheaper than a division on a GPU.
HKT_HD constexpr uint32_t wrap(uint32_t x, uint32_t n) { return x >= n ? x - n : x; }

// The k-th rank of 0, 1, ..., n-1 without `self`, ascending.
HKT_HD constexpr uint32_t other_rank(uint32_t self, uint32_t k) { return k < self ? k : k + 1; }

// The k-th of the ranks after (before) `self` around the ring.
HKT_HD constexpr uint32_t rank_after(uint32_t self, uint32_t k, uint32_t n) { return wrap(self + 1 + k, n); }
HKT_HD constexpr uint32_t rank_before(uint32_t self, uint32_t k, uint32_t n) { return wrap(self + (n - 1 - k), n); }

// The whole program of a single rank that reduces with nobody.
HKT_HD constexpr Step reduce_alone(uint32_t chunks) {
  return Step{}.load(Buf::in, 0).pre().post().store(Buf::out, 0).blocks(chunks);
}

}  // namespace hocket
