// Reproducible sums of floats: by integers, whose sums depend neither on the order nor on the number of the operands,
// element by element.
//
// 1. `classify` gives each operand a code: its exponent. The code of a sum is the largest of its operands'.
// 2. `quantise` makes each operand an integer of a unit that follows from the sum's code alone, so fine that 2^-43 of
//    the largest operand (float64: 2^-86) is a unit or more; rounded to nearest, ties to even. It takes one 64-bit limb
//    or two, which are added up each for itself. The sum of kMostAddends of them cannot overflow.
// 3. `round` turns the sum of the integers, divided by `divisor`, into a float, with one rounding to nearest, ties to
//    even.
//
// So n operands give the exact sum but for at most n * 2^-43 * (largest magnitude among them) (float64: 2^-86), rounded
// once. It is exact where the operands span at most 19 binary orders of magnitude (bfloat16: 35, float64: 33), and of
// float16 always. A sum that is too large is infinite, as rounding has it.
//
// Zeros and what is no number have the results of IEEE 754: sums of -0 alone are -0, of other zeros and of what cancels
// +0; infinities of one sign stay, those of both signs and NaN give the NaN of the folds (positive, quiet, payload 0).
//
// All functions are pure: any thread; floats have any alignment, codes and sums their own; nothing overlaps.
// Results do not depend on the instruction set.
//
// After: Demmel and Nguyen, "Parallel reproducible summation", 2015; Kulisch's accumulator, cut to the digits that
// matter.
#pragma once

#include <cstdint>

#include "hocket/hocket.h"

namespace hocket::kernels {

inline constexpr uint32_t kMostAddends = 1u << 20;

struct ReproducibleSum {
  uint32_t parts = 0;                  // floats of an element: 2 of a complex number; what follows counts floats
  uint32_t float_size = 0;             // bytes
  hktDataType_t code_type = hktUint8;  // of the codes: hktUint8 or hktUint16
  uint32_t limbs = 1;                  // int64_t that an integer has; element i's are i * limbs and on

  // codes[i] of src[i].
  void (*classify)(void* codes, const void* src, uint64_t floats) = nullptr;
  // sums[i] of src[i]; codes[i] is the sum's.
  void (*quantise)(int64_t* sums, const void* src, const void* codes, uint64_t floats) = nullptr;
  // dst[i] of sums[i] and codes[i]. 1 <= divisor <= kMostAddends.
  void (*round)(void* dst, const int64_t* sums, const void* codes, uint64_t floats, uint32_t divisor) = nullptr;
};

// For this processor: looked up once and kept. parts == 0: the type has none, as unreproducible() of base/types.h says,
// or needs none.
[[nodiscard]] ReproducibleSum reproducible_sum(hktDataType_t type);

}  // namespace hocket::kernels
