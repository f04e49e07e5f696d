#include "kernels_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

#include "base/types.h"

namespace hocket::kernels {

float decode(Format f, uint32_t code) {
  const int magnitude = static_cast<int>(code) & (f.sign() - 1);
  const int exponent = magnitude >> f.mantissa;
  const int mantissa = magnitude & ((1 << f.mantissa) - 1);
  double value;
  if (magnitude == f.special && f.infinite) {
    value = std::numeric_limits<double>::infinity();
  } else if (magnitude >= f.special) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - f.bias() - f.mantissa);
  } else {
    value = std::ldexp(mantissa + (1 << f.mantissa), exponent - f.bias() - f.mantissa);
  }
  return static_cast<float>((static_cast<int>(code) & f.sign()) != 0 ? -value : value);
}

uint32_t encode(Format f, float value) {
  if (std::isnan(value)) return static_cast<uint32_t>(f.nan);
  const int sign = std::signbit(value) ? f.sign() : 0;
  const int too_large = f.saturates ? f.special - 1 : f.special;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isinf(magnitude)) return static_cast<uint32_t>(sign | too_large);
  if (magnitude == 0) return static_cast<uint32_t>(sign);
  const int exponent = std::max(std::ilogb(magnitude), 1 - f.bias());
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent)));  // ties to even
  // A subnormal has fewer units than the implicit bit, a carry out of the mantissa lands in the exponent: both add up.
  const int64_t bits = ((int64_t{exponent} + f.bias() - 1) << f.mantissa) + units;
  return static_cast<uint32_t>(sign | std::min<int64_t>(bits, too_large));
}

namespace {

template <class T>
T float_combine(hktRedOp_t op, T a, T b) {
  if (op == hktSum || op == hktAvg) return a + b;
  if (op == hktProd) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  const bool a_is_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return a_is_less == (op == hktMin) ? a : b;
}

template <class T>
T float_fold(hktRedOp_t op, const std::vector<T>& v, uint32_t divisor) {
  T acc = v[0];
  for (size_t k = 1; k < v.size(); ++k) acc = float_combine(op, acc, v[k]);
  if (divisor > 1) acc = acc / static_cast<T>(divisor);
  return std::isnan(acc) ? std::numeric_limits<T>::quiet_NaN() : acc;
}

template <class T>
T integer_fold(hktRedOp_t op, const std::vector<T>& v, uint32_t divisor) {
  auto acc = static_cast<uint64_t>(static_cast<int64_t>(v[0]));  // extends the sign of signed types only
  for (size_t k = 1; k < v.size(); ++k) {
    const auto x = static_cast<uint64_t>(static_cast<int64_t>(v[k]));
    if (op == hktSum || op == hktAvg) acc += x;
    if (op == hktProd) acc *= x;
    if (op == hktMin) acc = v[k] < static_cast<T>(acc) ? x : acc;
    if (op == hktMax) acc = v[k] > static_cast<T>(acc) ? x : acc;
    if (op == hktBitAnd) acc &= x;
    if (op == hktBitOr) acc |= x;
    if (op == hktBitXor) acc ^= x;
    if (op == hktLogicalAnd) acc = acc != 0 && x != 0 ? 1 : 0;
    if (op == hktLogicalOr) acc = acc != 0 || x != 0 ? 1 : 0;
    if (op == hktLogicalXor) acc = (acc != 0) != (x != 0) ? 1 : 0;
  }
  const T result = static_cast<T>(acc);
  if (divisor <= 1) return result;
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(static_cast<int64_t>(result) / static_cast<int64_t>(divisor));
  return static_cast<T>(static_cast<uint64_t>(result) / divisor);
}

// Elements are bool of C++: the words mean what they say there.
uint8_t bool_fold(hktRedOp_t op, const std::vector<uint8_t>& v) {
  bool acc = v[0] != 0;
  for (size_t k = 1; k < v.size(); ++k) {
    const bool x = v[k] != 0;
    if (op == hktSum || op == hktMax || op == hktBitOr || op == hktLogicalOr) acc = acc || x;
    if (op == hktProd || op == hktMin || op == hktBitAnd || op == hktLogicalAnd) acc = acc && x;
    if (op == hktBitXor || op == hktLogicalXor) acc = acc != x;
  }
  return acc ? 1 : 0;
}

template <class T>
T the_nan(T x) {
  return std::isnan(x) ? std::numeric_limits<T>::quiet_NaN() : x;
}

template <class T>
using Parts = std::array<T, 2>;

template <class T>
Parts<T> complex_fold(hktRedOp_t op, const std::vector<Parts<T>>& v, uint32_t divisor) {
  Parts<T> acc = v[0];
  for (size_t k = 1; k < v.size(); ++k) {
    const auto [a, b] = acc;
    const auto [c, d] = v[k];
    acc = op == hktProd ? Parts<T>{a * c - b * d, a * d + b * c} : Parts<T>{a + c, b + d};
  }
  if (divisor > 1) acc = {acc[0] / static_cast<T>(divisor), acc[1] / static_cast<T>(divisor)};
  return {the_nan(acc[0]), the_nan(acc[1])};
}

template <class T, class Fold>
Bytes fold_each(const std::vector<Bytes>& src, Fold fold) {
  Bytes out(src[0].size());
  std::vector<T> operands(src.size());
  for (size_t i = 0; i < out.size(); i += sizeof(T)) {
    for (size_t k = 0; k < src.size(); ++k) std::memcpy(&operands[k], &src[k][i], sizeof(T));
    const T result = fold(operands);
    std::memcpy(&out[i], &result, sizeof(T));
  }
  return out;
}

template <class Code>
Bytes fold_narrow(Format f, const Case& c, const std::vector<Bytes>& src) {
  return fold_each<Code>(src, [&](const std::vector<Code>& v) {
    std::vector<float> operands;
    for (Code code : v) operands.push_back(decode(f, code));
    return static_cast<Code>(encode(f, float_fold(c.op, operands, c.divisor)));
  });
}

}  // namespace

Bytes reference(const Case& c, const std::vector<Bytes>& src) {
  if (src.size() == 1 && c.divisor <= 1) return src[0];
  const auto integer = [&](const auto& v) { return integer_fold(c.op, v, c.divisor); };
  const auto wide = [&](const auto& v) { return float_fold(c.op, v, c.divisor); };
  const auto complex = [&](const auto& v) { return complex_fold(c.op, v, c.divisor); };
  switch (c.type) {
    case hktInt8:
      return fold_each<int8_t>(src, integer);
    case hktUint8:
      return fold_each<uint8_t>(src, integer);
    case hktInt16:
      return fold_each<int16_t>(src, integer);
    case hktUint16:
      return fold_each<uint16_t>(src, integer);
    case hktInt32:
      return fold_each<int32_t>(src, integer);
    case hktUint32:
      return fold_each<uint32_t>(src, integer);
    case hktInt64:
      return fold_each<int64_t>(src, integer);
    case hktUint64:
      return fold_each<uint64_t>(src, integer);
    case hktFloat16:
      return fold_narrow<uint16_t>(kHalf, c, src);
    case hktBfloat16:
      return fold_narrow<uint16_t>(kBrain, c, src);
    case hktFloat8e4m3:
      return fold_narrow<uint8_t>(kE4m3, c, src);
    case hktFloat8e5m2:
      return fold_narrow<uint8_t>(kE5m2, c, src);
    case hktFloat32:
      return fold_each<float>(src, wide);
    case hktFloat64:
      return fold_each<double>(src, wide);
    case hktBool:
      return fold_each<uint8_t>(src, [&](const auto& v) { return bool_fold(c.op, v); });
    case hktComplex64:
      return fold_each<Parts<float>>(src, complex);
    case hktComplex128:
      return fold_each<Parts<double>>(src, complex);
  }
  return {};
}

// A product is what a fold of the scalar and an element would be.
Bytes reference_scaled(hktDataType_t type, const Bytes& src, const uint8_t* scalar) {
  Bytes copies;
  while (copies.size() < src.size()) copies.insert(copies.end(), scalar, scalar + type_size(type));
  return reference({type, hktProd, 1}, {copies, src});
}

namespace {

// One float given as the bits of its class in any format: sign, then exponent and mantissa all 0, all 1 or smallest.
uint64_t special_float(int mantissa, int exponent, uint64_t random) {
  const uint64_t inf = ((uint64_t{1} << exponent) - 1) << mantissa;
  const uint64_t one = (((uint64_t{1} << (exponent - 1)) - 1) << mantissa);
  const uint64_t nan_bit = uint64_t{1} << (mantissa - 1);
  const uint64_t values[] = {0,
                             1,
                             (uint64_t{1} << mantissa) - 1,
                             uint64_t{1} << mantissa,
                             inf - 1,
                             inf,
                             inf | nan_bit,
                             inf | 1,
                             inf | nan_bit | 5,
                             one,
                             one + 1,
                             inf | ((uint64_t{1} << mantissa) - 1)};
  return values[random % std::size(values)] | ((random >> 32 & 1) << (mantissa + exponent));
}

// The bits of one number.
uint64_t make_element(hktDataType_t type, std::mt19937_64& rng) {
  const uint64_t random = rng();
  const auto kind = rng() % 4;
  const float everyday = static_cast<float>(static_cast<int64_t>(random)) / 0x1p61F;
  const auto narrow = [&](Format f) {
    return kind == 0 ? random : kind == 1 ? special_float(f.mantissa, f.exponent, random) : encode(f, everyday);
  };
  switch (type) {
    case hktFloat16:
      return narrow(kHalf);
    case hktBfloat16:
      return narrow(kBrain);
    case hktFloat8e4m3:
      return narrow(kE4m3);
    case hktFloat8e5m2:
      return narrow(kE5m2);
    case hktFloat32: {
      uint32_t plain;
      std::memcpy(&plain, &everyday, sizeof(plain));
      return kind == 0 ? random : kind == 1 ? special_float(23, 8, random) : plain;
    }
    case hktFloat64: {
      const double wide = static_cast<double>(static_cast<int64_t>(random)) / 0x1p61;
      uint64_t plain;
      std::memcpy(&plain, &wide, sizeof(plain));
      return kind == 0 ? random : kind == 1 ? special_float(52, 11, random) : plain;
    }
    default:
      break;
  }
  const uint64_t top = uint64_t{1} << (8 * type_size(type) - 1);
  const uint64_t edges[] = {0, 1, ~uint64_t{0}, top, top - 1, top + 1, 0, 0};
  return kind == 0 ? random : kind == 1 ? edges[random % std::size(edges)] : kind == 2 ? random % 16 : random % 2;
}

}  // namespace

Bytes make_input(hktDataType_t type, size_t elems, std::mt19937_64& rng) {
  if (type == hktComplex64) return make_input(hktFloat32, 2 * elems, rng);
  if (type == hktComplex128) return make_input(hktFloat64, 2 * elems, rng);
  Bytes out;
  for (size_t i = 0; i < elems; ++i) {
    const uint64_t bits = make_element(type, rng);
    const auto* p = reinterpret_cast<const uint8_t*>(&bits);  // little-endian, as the types are
    out.insert(out.end(), p, p + type_size(type));
  }
  return out;
}

std::vector<Bytes> make_inputs(hktDataType_t type, size_t nsrc, size_t elems, std::mt19937_64& rng) {
  std::vector<Bytes> src;
  for (size_t k = 0; k < nsrc; ++k) src.push_back(make_input(type, elems, rng));
  return src;
}

}  // namespace hocket::kernels
