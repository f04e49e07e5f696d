// The kernels' results, computed one element at a time from the definitions of the types, and inputs for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "hocket/hocket.h"

namespace hocket::kernels {

using Bytes = std::vector<uint8_t>;

struct Case {
  hktDataType_t type;
  hktRedOp_t op;
  uint32_t divisor;
};

// A binary float of at most 16 bits, described by the bits of its mantissa and exponent. `special`: the first code
// (without the sign) that is no finite number, infinity if there is one.
struct Format {
  int mantissa, exponent, special;
  bool infinite;   // has infinity, and further codes are NaN; else the one special code is NaN
  bool saturates;  // what is too large becomes the largest finite number
  int nan;         // the code of the NaN that is a result
  int bias() const { return (1 << (exponent - 1)) - 1; }
  int sign() const { return 1 << (mantissa + exponent); }
};
constexpr Format kHalf = {10, 5, 0x7c00, true, false, 0x7e00};
constexpr Format kBrain = {7, 8, 0x7f80, true, false, 0x7fc0};
constexpr Format kE4m3 = {3, 4, 0x7f, false, true, 0x7f};
constexpr Format kE5m2 = {2, 5, 0x7c, true, true, 0x7e};

float decode(Format f, uint32_t code);
uint32_t encode(Format f, float value);

// The fold of the operands, element for element.
Bytes reference(const Case& c, const std::vector<Bytes>& src);
// Every element multiplied by `scalar`, which is one.
Bytes reference_scaled(hktDataType_t type, const Bytes& src, const uint8_t* scalar);

// Everyday values, edges of the type and random bits (which hold NaNs, infinities and subnormals).
Bytes make_input(hktDataType_t type, size_t elems, std::mt19937_64& rng);
std::vector<Bytes> make_inputs(hktDataType_t type, size_t nsrc, size_t elems, std::mt19937_64& rng);

}  // namespace hocket::kernels
