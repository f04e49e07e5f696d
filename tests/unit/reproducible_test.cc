// Reproducible sums against a reference in 128-bit arithmetic, made of the definition in kernels/reproducible.h.
#include "kernels/reproducible.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels_run.h"

namespace hocket::kernels {
namespace {

__extension__ typedef __int128 Int128;

class Reproducible : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Reproducible, testing::ValuesIn(targets()), target_label);

constexpr hktDataType_t kSummed[] = {hktFloat16, hktBfloat16, hktFloat32, hktFloat64};

struct Facts {
  int mantissa;     // bits
  int least, most;  // binary exponents of normal numbers
  int limbs;
};
Facts facts(hktDataType_t type) {
  return type == hktFloat16    ? Facts{10, -14, 15, 1}
         : type == hktBfloat16 ? Facts{7, -126, 127, 1}
         : type == hktFloat32  ? Facts{23, -126, 127, 1}
                               : Facts{52, -1022, 1023, 2};
}

double get(hktDataType_t type, const Bytes& from, size_t i) {
  const uint8_t* const at = &from[i * type_size(type)];
  const auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  if (type == hktFloat64) return read(double{});
  if (type == hktFloat32) return static_cast<double>(read(float{}));
  return static_cast<double>(decode(type == hktFloat16 ? kHalf : kBrain, read(uint16_t{})));
}
// `value` is one of the type.
void put(hktDataType_t type, Bytes& to, size_t i, double value) {
  uint8_t* const at = &to[i * type_size(type)];
  const auto write = [at](auto v) { std::memcpy(at, &v, sizeof v); };
  if (type == hktFloat64) return write(value);
  const auto single = static_cast<float>(value);
  if (type == hktFloat32) return write(single);
  write(static_cast<uint16_t>(encode(type == hktFloat16 ? kHalf : kBrain, single)));
}
Bytes bytes(hktDataType_t type, const std::vector<double>& values) {
  Bytes b(values.size() * type_size(type));
  for (size_t i = 0; i < values.size(); ++i) put(type, b, i, values[i]);
  return b;
}

int bit_length(Int128 x) {
  int bits = 0;
  for (; x > 0; x >>= 1) ++bits;
  return bits;
}

// magnitude / divisor * 2^unit, rounded to the type, by division.
double rounded(const Facts& f, Int128 magnitude, int unit, Int128 divisor) {
  if (divisor <= 0) throw std::invalid_argument("the divisor must be positive");
  int e = bit_length(magnitude) - bit_length(divisor);
  const bool reaches = e >= 0 ? magnitude >= divisor << e : magnitude << -e >= divisor;
  if (!reaches) --e;
  const int lsb = std::max(e + unit, f.least) - f.mantissa, below = lsb - unit;
  if (below > 104) return 0;  // by far less than half of it
  const Int128 numerator = below < 0 ? magnitude << -below : magnitude;
  const Int128 denominator = below > 0 ? divisor << below : divisor;
  Int128 quotient = numerator / denominator;
  const Int128 twice = 2 * (numerator % denominator);
  if (twice > denominator || (twice == denominator && quotient % 2 != 0)) ++quotient;
  const double value = std::ldexp(static_cast<double>(quotient), lsb);
  return value >= std::ldexp(1.0, f.most) * 2 ? std::numeric_limits<double>::infinity() : value;
}

// The sum of the values divided by `divisor`.
double reference_sum(const Facts& f, const std::vector<double>& values, uint32_t divisor) {
  bool plus = false, minus = false, nan = false, negative_zeros = true;
  int largest = f.least;
  for (const double v : values) {
    nan |= std::isnan(v);
    plus |= std::isinf(v) && v > 0;
    minus |= std::isinf(v) && v < 0;
    negative_zeros &= v == 0 && std::signbit(v);
    if (std::isfinite(v) && v != 0) largest = std::max(largest, std::ilogb(v));
  }
  if (nan || (plus && minus)) return std::numeric_limits<double>::quiet_NaN();
  if (plus) return std::numeric_limits<double>::infinity();
  if (minus) return -std::numeric_limits<double>::infinity();
  if (negative_zeros) return -0.0;
  const int unit = largest + 1 - 43 * f.limbs;
  Int128 sum = 0;
  for (const double v : values)
    sum += static_cast<Int128>(std::nearbyint(std::ldexp(static_cast<long double>(v), -unit)));
  if (sum == 0) return 0;
  return sum < 0 ? -rounded(f, -sum, unit, divisor) : rounded(f, sum, unit, divisor);
}

// The sum of the operands by the kernels, element for element. Floats lie one byte off.
Bytes summed(hktDataType_t type, const std::vector<Bytes>& src, uint32_t divisor, int64_t times = 1) {
  const ReproducibleSum sum = reproducible_sum(type);
  const size_t floats = src[0].size() / sum.float_size;
  const size_t code_size = type_size(sum.code_type);
  Bytes codes(floats * code_size), one(codes.size());
  std::vector<Bytes> off;
  for (const Bytes& s : src) {
    off.emplace_back(s.size() + 1);
    std::copy(s.begin(), s.end(), off.back().begin() + 1);
    sum.classify(one.data(), off.back().data() + 1, floats);
    const void* both[] = {codes.data(), one.data()};
    fold_kernel(sum.code_type, hktMax).temporal(codes.data(), both, 2, floats, 1);
  }
  std::vector<int64_t> total(floats * sum.limbs, 0), part(total.size());
  for (const Bytes& s : off) {
    sum.quantise(part.data(), s.data() + 1, codes.data(), floats);
    for (size_t i = 0; i < part.size(); ++i) total[i] += part[i] * times;
  }
  Bytes result(src[0].size() + 1);
  sum.round(result.data() + 1, total.data(), codes.data(), floats, divisor);
  return {result.begin() + 1, result.end()};
}

// Of all elements, by their bits.
void expect_reference(hktDataType_t type, const std::vector<Bytes>& src, uint32_t divisor) {
  const Facts f = facts(type);
  const Bytes got = summed(type, src, divisor);
  const size_t size = type_size(type), floats = got.size() / size;
  Bytes expected(got.size());
  std::vector<double> values(src.size());
  for (size_t i = 0; i < floats; ++i) {
    for (size_t k = 0; k < src.size(); ++k) values[k] = get(type, src[k], i);
    put(type, expected, i, reference_sum(f, values, divisor));
    if (std::memcmp(&got[i * size], &expected[i * size], size) == 0) continue;
    std::string text;
    for (const double v : values) text += " " + std::to_string(v);
    FAIL() << type_name(type) << " / " << divisor << " on " << simd_target() << ": " << get(type, got, i) << " for "
           << get(type, expected, i) << ", the sum of" << text;
  }
}

// Every value of a type with some others, edges among them.
TEST_P(Reproducible, SixteenBitsOfEveryValue) {
  for (const hktDataType_t type : {hktFloat16, hktBfloat16}) {
    Bytes all(65'536 * 2);
    for (size_t code = 0; code < 65'536; ++code) {
      all[2 * code] = static_cast<uint8_t>(code);
      all[2 * code + 1] = static_cast<uint8_t>(code >> 8);
    }
    for (const uint32_t divisor : {1u, 2u, 3u}) expect_reference(type, {all}, divisor);
    const int special = type == hktFloat16 ? kHalf.special : kBrain.special;
    for (const int partner : {0, 0x8000, 1, 0x8001, special - 1, special, special | 0x8000, special + 1, 0x3c01, 0xbf83,
                              static_cast<int>(rng_() & 0x7fff), static_cast<int>(rng_() | 0x8000) & 0xffff}) {
      Bytes other(all.size());
      for (size_t i = 0; i < 65'536; ++i) {
        other[2 * i] = static_cast<uint8_t>(partner);
        other[2 * i + 1] = static_cast<uint8_t>(partner >> 8);
      }
      expect_reference(type, {all, other}, 1);
      expect_reference(type, {other, all}, 2);
    }
  }
}

TEST_P(Reproducible, RandomBits) {
  for (const hktDataType_t type : kSummed)
    for (const size_t n : {1, 2, 3, 7, 20})
      for (const uint32_t divisor : {1u, static_cast<uint32_t>(n)})
        expect_reference(type, make_inputs(type, n, 3000, rng_), divisor);
}

// Values within some orders of magnitude, anywhere in the range: sums that cancel, round and overflow.
TEST_P(Reproducible, ValuesNearEachOther) {
  for (const hktDataType_t type : kSummed) {
    const Facts f = facts(type);
    for (const int spread : {1, 10, 25, 50, 100}) {
      for (const size_t n : {2, 3, 9, 64}) {
        constexpr size_t kFloats = 500;
        std::vector<std::vector<double>> values(n, std::vector<double>(kFloats));
        for (size_t i = 0; i < kFloats; ++i) {
          const int range = f.most - f.least + f.mantissa + 1;
          const int around = f.least - f.mantissa + static_cast<int>(rng_() % static_cast<uint64_t>(range));
          for (size_t k = 0; k < n; ++k) {
            const int e =
                std::max(around - static_cast<int>(rng_() % static_cast<uint64_t>(spread)), f.least - f.mantissa);
            // As many bits as the type has, fewer if it is subnormal.
            const int bits = std::min(f.mantissa, e - (f.least - f.mantissa));
            const double m = static_cast<double>(rng_() >> (63 - bits)) + std::ldexp(1.0, bits);
            values[k][i] = std::ldexp(bits == 0 ? 1.0 : std::min(m, std::ldexp(2.0, bits) - 1), e - bits);
            if (rng_() % 2 != 0) values[k][i] = -values[k][i];
          }
        }
        std::vector<Bytes> src;
        for (const auto& v : values) src.push_back(bytes(type, v));
        for (const uint32_t divisor : {1u, static_cast<uint32_t>(n), 7u, kMostAddends})
          expect_reference(type, src, divisor);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Reproducible, KnownSums) {
  const auto sum = [](hktDataType_t type, const std::vector<double>& values, uint32_t divisor = 1) {
    std::vector<Bytes> src;
    for (const double v : values) src.push_back(bytes(type, {v}));
    return get(type, summed(type, src, divisor), 0);
  };
  for (const hktDataType_t type : kSummed) {
    const Facts f = facts(type);
    const double most = std::ldexp(2.0 - std::ldexp(1.0, -f.mantissa), f.most);
    const double least = std::ldexp(1.0, f.least - f.mantissa), inf = std::numeric_limits<double>::infinity();
    EXPECT_TRUE(std::signbit(sum(type, {-0.0, -0.0, -0.0})));
    EXPECT_FALSE(std::signbit(sum(type, {-0.0, 0.0})));
    EXPECT_FALSE(std::signbit(sum(type, {-1.5, 1.5})));
    EXPECT_TRUE(std::signbit(sum(type, {-least}, 3)));  // as IEEE 754 divides
    EXPECT_EQ(sum(type, {least, least, least}), 3 * least);
    EXPECT_EQ(sum(type, {least}, 2), 0);  // ties to even
    EXPECT_EQ(sum(type, {3 * least}, 2), 2 * least);
    EXPECT_EQ(sum(type, {most, most}), inf);
    EXPECT_EQ(sum(type, {-most, -most}), -inf);
    EXPECT_EQ(sum(type, {most, most, -most}), most);  // nothing overflows on the way
    EXPECT_EQ(sum(type, {most, most}, 2), most);
    EXPECT_EQ(sum(type, {inf, -most, 1}), inf);
    EXPECT_TRUE(std::isnan(sum(type, {-inf, inf})));
    // Any NaN becomes the one that folds return.
    Bytes nan = bytes(type, {inf});
    nan.front() |= 1;
    nan.back() |= 0x80;
    EXPECT_EQ(summed(type, {nan, nan}, 1), bytes(type, {std::numeric_limits<double>::quiet_NaN()}));
  }
  // Ones that each rounding to 16 bits would lose.
  EXPECT_EQ(sum(hktBfloat16, std::vector<double>(1000, 1.0)), 1000);
  EXPECT_EQ(sum(hktFloat32, {16'777'216, 1, 1, 1}), 16'777'220);  // 16777219, ties to even
  EXPECT_EQ(sum(hktFloat32, {1e8, 1, -1e8}), 1);
}

// As many operands as there may be, each the largest there is.
TEST_P(Reproducible, TheMostAddendsDoNotOverflow) {
  for (const hktDataType_t type : kSummed) {
    const Facts f = facts(type);
    for (const double sign : {1.0, -1.0}) {
      for (const int e : {f.least, 0, f.most}) {
        const double value = sign * std::ldexp(2.0 - std::ldexp(1.0, -f.mantissa), e);
        const Bytes one = bytes(type, {value});
        EXPECT_EQ(get(type, summed(type, {one}, kMostAddends, kMostAddends), 0), value) << type_name(type) << " " << e;
      }
      const double inf = sign * std::numeric_limits<double>::infinity();
      EXPECT_EQ(get(type, summed(type, {bytes(type, {inf})}, 1, kMostAddends), 0), inf);
    }
  }
}

// What the header promises: within n * 2^-43 (2^-86) of the largest operand, and half a unit of the result.
TEST_P(Reproducible, ErrorsAreWithinTheBound) {
  for (const hktDataType_t type : {hktFloat32, hktFloat64}) {
    const Facts f = facts(type);
    for (int round = 0; round < 200; ++round) {
      std::vector<Bytes> src;
      long double exact = 0, largest = 0;
      for (int k = 0; k < 50; ++k) {
        const double m = 1 + static_cast<double>(rng_() >> 11) * 0x1p-53;
        double v = std::ldexp(m, -static_cast<int>(rng_() % 50)) * (rng_() % 2 != 0 ? 1 : -1);
        if (type == hktFloat32) v = static_cast<double>(static_cast<float>(v));
        src.push_back(bytes(type, {v}));
        if (type == hktFloat32) exact += static_cast<long double>(v);
        largest = std::max(largest, std::fabs(static_cast<long double>(v)));
      }
      // Of float64 the exact sum is one of more bits: that of the values as whole multiples of 2^-102.
      if (type == hktFloat64) {
        Int128 whole = 0;
        for (const Bytes& s : src)
          whole += static_cast<Int128>(std::ldexp(static_cast<long double>(get(type, s, 0)), 102));
        exact = std::ldexp(static_cast<long double>(whole), -102);
      }
      const double got = get(type, summed(type, src, 1), 0);
      const long double half_unit = std::ldexp(1.0L, std::ilogb(got) - f.mantissa - 1);
      const long double bound = 50 * std::ldexp(largest, -43 * f.limbs) + half_unit * (1 + std::ldexp(1.0L, -9));
      EXPECT_LE(std::fabs(static_cast<long double>(got) - exact), bound) << type_name(type);
    }
  }
}

TEST_P(Reproducible, TypesThatHaveThem) {
  for (const hktDataType_t type : kAllTypes) {
    const bool floats = type_class(type) == TypeClass::floating || type_class(type) == TypeClass::complex;
    EXPECT_EQ(reproducible_sum(type).parts != 0, floats && unreproducible(type, hktSum) == nullptr) << type_name(type);
    EXPECT_EQ(unreproducible(type, hktProd) != nullptr, floats) << type_name(type);
    for (const hktRedOp_t op : kAllOps) {
      const bool exact = !floats || op == hktMin || op == hktMax;
      EXPECT_TRUE(!exact || unreproducible(type, op) == nullptr) << type_name(type) << " " << op_name(op);
    }
  }
  EXPECT_EQ(reproducible_sum(hktComplex64).parts, 2u);
}

}  // namespace
}  // namespace hocket::kernels
