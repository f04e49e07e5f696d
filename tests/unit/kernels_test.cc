// The reduction kernels against a scalar reference, on every instruction set that this processor has.
#include "base/types.h"
#include "kernels/reduce_cpu.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace hocket::kernels {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr hktDataType_t kTypes[] = {hktInt8,  hktUint8,  hktInt16,   hktUint16,   hktInt32,   hktUint32,
                                    hktInt64, hktUint64, hktFloat16, hktBfloat16, hktFloat32, hktFloat64};
constexpr hktDataType_t kFloats[] = {hktFloat16, hktBfloat16, hktFloat32, hktFloat64};
constexpr hktRedOp_t kOps[] = {hktSum, hktProd, hktMax, hktMin, hktAvg};
constexpr Stores kStores[] = {Stores::temporal, Stores::streaming};

// ---- The reference: one element at a time. 16-bit formats are described by the bits of their mantissa and exponent.

struct Format {
  int mantissa;
  int exponent;
  int bias() const { return (1 << (exponent - 1)) - 1; }
  int infinity() const { return ((1 << exponent) - 1) << mantissa; }
};
constexpr Format kHalf = {10, 5};
constexpr Format kBrain = {7, 8};

float decode(Format f, uint16_t bits) {
  const int magnitude = bits & 0x7fff;
  const int exponent = magnitude >> f.mantissa;
  const int mantissa = magnitude & ((1 << f.mantissa) - 1);
  double value;
  if (magnitude > f.infinity()) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (magnitude == f.infinity()) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - f.bias() - f.mantissa);
  } else {
    value = std::ldexp(mantissa + (1 << f.mantissa), exponent - f.bias() - f.mantissa);
  }
  return static_cast<float>((bits & 0x8000) != 0 ? -value : value);
}

uint16_t encode(Format f, float value) {
  if (std::isnan(value)) return static_cast<uint16_t>(f.infinity() | (1 << (f.mantissa - 1)));
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isinf(magnitude)) return static_cast<uint16_t>(sign | f.infinity());
  if (magnitude == 0) return static_cast<uint16_t>(sign);
  const int exponent = std::max(std::ilogb(magnitude), 1 - f.bias());
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent)));  // ties to even
  // A subnormal has fewer units than the implicit bit, a carry out of the mantissa lands in the exponent: both add up.
  const int bits = ((exponent + f.bias() - 1) << f.mantissa) + units;
  return static_cast<uint16_t>(sign | std::min(bits, f.infinity()));
}

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
  }
  const T result = static_cast<T>(acc);
  if (divisor <= 1) return result;
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(static_cast<int64_t>(result) / static_cast<int64_t>(divisor));
  return static_cast<T>(static_cast<uint64_t>(result) / divisor);
}

struct Case {
  hktDataType_t type;
  hktRedOp_t op;
  uint32_t divisor;
};

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

Bytes reference(const Case& c, const std::vector<Bytes>& src) {
  if (src.size() == 1 && c.divisor <= 1) return src[0];
  const auto integer = [&](const auto& v) { return integer_fold(c.op, v, c.divisor); };
  const auto wide = [&](const auto& v) { return float_fold(c.op, v, c.divisor); };
  const auto narrow = [&](Format f) {
    return fold_each<uint16_t>(src, [&](const std::vector<uint16_t>& v) {
      std::vector<float> operands;
      for (uint16_t bits : v) operands.push_back(decode(f, bits));
      return encode(f, float_fold(c.op, operands, c.divisor));
    });
  };
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
      return narrow(kHalf);
    case hktBfloat16:
      return narrow(kBrain);
    case hktFloat32:
      return fold_each<float>(src, wide);
    case hktFloat64:
      return fold_each<double>(src, wide);
  }
  return {};
}

// ---- Inputs: everyday values, edges of the type and random bits (which hold NaNs, infinities and subnormals).

template <class T>
void put(Bytes& to, T value) {
  const auto* p = reinterpret_cast<const uint8_t*>(&value);
  to.insert(to.end(), p, p + sizeof(T));
}

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

Bytes make_input(hktDataType_t type, size_t elems, std::mt19937_64& rng) {
  Bytes out;
  const size_t size = type_size(type);
  for (size_t i = 0; i < elems; ++i) {
    const uint64_t random = rng();
    const auto kind = rng() % 4;
    const float everyday = static_cast<float>(static_cast<int64_t>(random)) / 0x1p61F;
    uint64_t bits = random;
    if (type == hktFloat16) {
      bits = kind == 0 ? random : kind == 1 ? special_float(10, 5, random) : encode(kHalf, everyday);
    } else if (type == hktBfloat16) {
      bits = kind == 0 ? random : kind == 1 ? special_float(7, 8, random) : encode(kBrain, everyday);
    } else if (type == hktFloat32) {
      uint32_t plain;
      std::memcpy(&plain, &everyday, sizeof(plain));
      bits = kind == 0 ? random : kind == 1 ? special_float(23, 8, random) : plain;
    } else if (type == hktFloat64) {
      const double wide = static_cast<double>(static_cast<int64_t>(random)) / 0x1p61;
      uint64_t plain;
      std::memcpy(&plain, &wide, sizeof(plain));
      bits = kind == 0 ? random : kind == 1 ? special_float(52, 11, random) : plain;
    } else if (kind == 1) {
      const uint64_t top = uint64_t{1} << (8 * size - 1);
      const uint64_t edges[] = {0, 1, ~uint64_t{0}, top, top - 1, top + 1};
      bits = edges[random % std::size(edges)];
    } else if (kind == 2) {
      bits = random % 16;
    }
    const auto* p = reinterpret_cast<const uint8_t*>(&bits);  // little-endian, as the types are
    out.insert(out.end(), p, p + size);
  }
  return out;
}

std::vector<Bytes> make_inputs(hktDataType_t type, size_t nsrc, size_t elems, std::mt19937_64& rng) {
  std::vector<Bytes> src;
  for (size_t k = 0; k < nsrc; ++k) src.push_back(make_input(type, elems, rng));
  return src;
}

// ---- A run in memory with guard bytes before and behind.

constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xa5;

// A copy of `data` at `misalignment` bytes behind a cache line, surrounded by guard bytes.
class Guarded {
 public:
  Guarded(const uint8_t* data, size_t bytes, size_t misalignment)
      : bytes_(bytes), memory_(bytes + misalignment + 3 * kGuard, kGuardByte) {
    const size_t to_line = (kGuard - reinterpret_cast<uintptr_t>(memory_.data()) % kGuard) % kGuard;
    begin_ = to_line + kGuard + misalignment;
    if (bytes != 0) std::memcpy(start(), data, bytes);
  }
  void* get() { return start(); }
  bool holds(const uint8_t* expected) const {
    return bytes_ == 0 || std::memcmp(memory_.data() + begin_, expected, bytes_) == 0;
  }
  bool guards_intact() const {
    const auto is_guard = [](uint8_t b) { return b == kGuardByte; };
    const auto begin = memory_.begin() + static_cast<ptrdiff_t>(begin_);
    return std::all_of(memory_.begin(), begin, is_guard) &&
           std::all_of(begin + static_cast<ptrdiff_t>(bytes_), memory_.end(), is_guard);
  }

 private:
  uint8_t* start() { return memory_.data() + begin_; }
  size_t bytes_;
  size_t begin_ = 0;
  Bytes memory_;
};

constexpr int kOutOfPlace = -1;

struct Layout {
  size_t elems;
  size_t misalignment;
  Stores stores;
  int in_place = kOutOfPlace;  // or the operand that is the destination
};

std::string describe(const Case& c, size_t nsrc, const Layout& l) {
  return std::string(type_name(c.type)) + " " + op_name(c.op) + " divisor " + std::to_string(c.divisor) + ", " +
         std::to_string(nsrc) + " operands of " + std::to_string(l.elems) + ", misaligned by " +
         std::to_string(l.misalignment) + (l.stores == Stores::streaming ? ", streaming" : ", temporal") +
         ", in place with " + std::to_string(l.in_place) + ", on " + simd_target();
}

// Runs the kernel on the first elems elements of the sources and compares with the same part of `expected`.
void check(const Case& c, const std::vector<Bytes>& src, const Bytes& expected, const Layout& l) {
  const size_t bytes = l.elems * type_size(c.type);
  std::vector<Guarded> operands;
  std::vector<const void*> pointers;
  for (size_t k = 0; k < src.size(); ++k)
    operands.emplace_back(src[k].data(), bytes, l.misalignment * (2 * k + 1) % 64);
  for (Guarded& o : operands) pointers.push_back(o.get());
  const Bytes junk(bytes, 0x5a);
  Guarded separate(junk.data(), bytes, l.misalignment);
  Guarded& dst = l.in_place == kOutOfPlace ? separate : operands[static_cast<size_t>(l.in_place)];

  const Kernel kernel = fold_kernel(c.type, c.op);
  const FoldFn fold = l.stores == Stores::streaming ? kernel.streaming : kernel.temporal;
  fold(dst.get(), pointers.data(), static_cast<uint32_t>(src.size()), l.elems, c.divisor);

  EXPECT_TRUE(dst.holds(expected.data())) << describe(c, src.size(), l);
  EXPECT_TRUE(dst.guards_intact()) << describe(c, src.size(), l);
  for (size_t k = 0; k < src.size(); ++k) {
    if (static_cast<int>(k) == l.in_place) continue;
    EXPECT_TRUE(operands[k].holds(src[k].data()) && operands[k].guards_intact())
        << "operand " << k << " was written: " << describe(c, src.size(), l);
  }
}

// Folds typed values, out of place.
template <class T>
std::vector<T> fold(const Case& c, const std::vector<std::vector<T>>& src) {
  std::vector<const void*> pointers;
  for (const auto& s : src) pointers.push_back(s.data());
  std::vector<T> out(src[0].size());
  fold_kernel(c.type, c.op)
      .temporal(out.data(), pointers.data(), static_cast<uint32_t>(src.size()), out.size(), c.divisor);
  return out;
}

// ---- Every test runs on each instruction set.

void use_target(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// One bit for each set for which kernels were compiled and which this processor has. A set without kernels of its own
// is served by another, whose name is seen twice.
std::vector<int64_t> targets() {
  std::vector<int64_t> found;
  std::vector<std::string> names;
  const int64_t all = hwy::SupportedTargets() | HWY_EMU128 | HWY_SCALAR;
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if ((all & target) == 0) continue;
    use_target(target);
    if (std::find(names.begin(), names.end(), simd_target()) != names.end()) continue;
    names.emplace_back(simd_target());
    found.push_back(target);
  }
  use_target(0);
  return found;
}

class Kernels : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { use_target(GetParam()); }
  void TearDown() override { use_target(0); }
  std::mt19937_64 rng_{20240607};
};

INSTANTIATE_TEST_SUITE_P(Targets, Kernels, testing::ValuesIn(targets()), [](const auto& target) {
  use_target(target.param);
  std::string name = simd_target();
  use_target(0);
  return name;
});

constexpr size_t kSizes[] = {0,  1,  2,  3,  5,  7,  8,  9,   13,  15,  16,  17,  24,  31,  32, 33,
                             48, 63, 64, 65, 95, 96, 97, 127, 128, 129, 255, 256, 257, 319, 640};
constexpr size_t kMaxElems = 640;

// Two operands: the full product. More: the misalignment goes round with the size and the operand in place.
TEST_P(Kernels, MatchReference) {
  const size_t misalignments[] = {0, 16, 1, 8, 62};
  for (hktDataType_t type : kTypes) {
    for (hktRedOp_t op : kOps) {
      for (size_t nsrc : {1, 2, 3, 5, 8}) {
        const Case c{type, op, op == hktAvg ? static_cast<uint32_t>(nsrc) : 1};
        const std::vector<Bytes> src = make_inputs(type, nsrc, kMaxElems, rng_);
        const Bytes expected = reference(c, src);
        size_t turn = 0;
        for (size_t elems : kSizes) {
          for (int in_place = kOutOfPlace; in_place < static_cast<int>(nsrc); ++in_place, ++turn) {
            for (size_t m = 0; m < std::size(misalignments); ++m) {
              if (nsrc != 2 && m != turn % std::size(misalignments)) continue;
              for (Stores stores : kStores) check(c, src, expected, {elems, misalignments[m], stores, in_place});
            }
          }
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(Kernels, MatchReferenceOnMuchData) {
  for (hktDataType_t type : kTypes) {
    const size_t elems = 100000 / type_size(type) + 3;
    const Case c{type, hktAvg, 3};
    const std::vector<Bytes> src = make_inputs(type, 2, elems, rng_);
    const Bytes expected = reference(c, src);
    for (size_t misalignment : {0, 24, 3}) {
      for (Stores stores : kStores) check(c, src, expected, {elems, misalignment, stores});
    }
  }
}

TEST_P(Kernels, DivideByAnyDivisor) {
  for (hktDataType_t type : kTypes) {
    for (uint32_t divisor : {2u, 3u, 7u, 255u, 512u, 70001u, 0x80000001u, 0xffffffffu}) {
      for (size_t nsrc : {1, 2, 4}) {
        const Case c{type, hktAvg, divisor};
        const std::vector<Bytes> src = make_inputs(type, nsrc, kMaxElems, rng_);
        check(c, src, reference(c, src), {kMaxElems, 0, Stores::streaming});
      }
    }
  }
}

// The same bits whatever the order of two operands, also for NaNs of different payloads.
TEST_P(Kernels, AreCommutative) {
  for (hktDataType_t type : kTypes) {
    for (hktRedOp_t op : {hktSum, hktProd, hktMin, hktMax}) {
      const std::vector<Bytes> src = make_inputs(type, 2, 4000, rng_);
      const std::vector<Bytes> swapped = {src[1], src[0]};
      const Bytes expected = reference({type, op, 1}, src);
      check({type, op, 1}, swapped, expected, {4000, 0, Stores::temporal});
    }
  }
}

TEST_P(Kernels, MinAndMaxIgnoreTheOrderOfOperands) {
  for (hktDataType_t type : kFloats) {
    for (hktRedOp_t op : {hktMin, hktMax}) {
      std::vector<Bytes> src = make_inputs(type, 4, kMaxElems, rng_);
      const Bytes expected = reference({type, op, 1}, src);
      std::sort(src.begin(), src.end());
      do {
        check({type, op, 1}, src, expected, {kMaxElems, 0, Stores::temporal});
      } while (std::next_permutation(src.begin(), src.end()));
    }
  }
}

TEST_P(Kernels, OrderZerosAndKeepNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> src = {{-0.0F, 0.0F, nan, 1, inf, nan}, {0.0F, -0.0F, 1, nan, -inf, -inf}};
  const std::vector<float> min = fold<float>({hktFloat32, hktMin, 1}, src);
  const std::vector<float> max = fold<float>({hktFloat32, hktMax, 1}, src);
  for (size_t i : {0, 1}) {
    EXPECT_TRUE(min[i] == 0 && std::signbit(min[i])) << i;
    EXPECT_TRUE(max[i] == 0 && !std::signbit(max[i])) << i;
  }
  for (size_t i : {2, 3, 5}) EXPECT_TRUE(std::isnan(min[i]) && std::isnan(max[i])) << i;
  EXPECT_EQ(min[4], -inf);
  EXPECT_EQ(max[4], inf);
  EXPECT_TRUE(std::isnan(fold<float>({hktFloat32, hktSum, 1}, src)[4]));
}

TEST_P(Kernels, WrapIntegersAndDivideTowardsZero) {
  EXPECT_EQ(fold<int8_t>({hktInt8, hktProd, 1}, {{16, -128, 100}, {17, -1, 3}}), (std::vector<int8_t>{16, -128, 44}));
  EXPECT_EQ(fold<int8_t>({hktInt8, hktSum, 1}, {{127, -128}, {1, -1}}), (std::vector<int8_t>{-128, 127}));
  EXPECT_EQ(fold<int8_t>({hktInt8, hktAvg, 2}, {{-3, 3, 127}, {-4, 4, 1}}), (std::vector<int8_t>{-3, 3, -64}));
  EXPECT_EQ(fold<uint8_t>({hktUint8, hktAvg, 2}, {{255, 7}, {3, 8}}), (std::vector<uint8_t>{1, 7}));
  const int64_t min64 = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(fold<int64_t>({hktInt64, hktProd, 1}, {{min64, 1LL << 33}, {3, 1LL << 31}}),
            (std::vector<int64_t>{min64, 0}));
  EXPECT_EQ(fold<int64_t>({hktInt64, hktSum, 1}, {{min64}, {-1}}), (std::vector<int64_t>{-(min64 + 1)}));
}

TEST_P(Kernels, RoundHalvesOnceToEven) {
  // 2048 + 1 and 2048 + 3 are ties; 65504 + 16 is the first that rounds to infinity; the smallest subnormal survives.
  EXPECT_EQ(fold<uint16_t>({hktFloat16, hktSum, 1}, {{0x6800, 0x6800, 0x7bff, 0x7bff, 0x0001},  //
                                                     {0x3c00, 0x4200, 0x4c00, 0x4bff, 0x0000}}),
            (std::vector<uint16_t>{0x6800, 0x6802, 0x7c00, 0x7bff, 0x0001}));
  // 1 + 2^-11 rounds to 1 each time, 1 + 2^-11 + 2^-11 is a value.
  EXPECT_EQ(fold<uint16_t>({hktFloat16, hktSum, 1}, {{0x3c00}, {0x1000}, {0x1000}}), (std::vector<uint16_t>{0x3c01}));
  EXPECT_EQ(fold<uint16_t>({hktBfloat16, hktSum, 1}, {{0x3f80}, {0x3b80}, {0x3b80}}), (std::vector<uint16_t>{0x3f81}));
  // A NaN whose mantissa is all ones, or only its last bit, does not round to infinity or zero.
  EXPECT_EQ(fold<uint16_t>({hktBfloat16, hktSum, 1}, {{0x7fff, 0xffff, 0x7f81}, {0, 0, 0}}),
            (std::vector<uint16_t>{0x7fc0, 0x7fc0, 0x7fc0}));
  EXPECT_EQ(fold<uint16_t>({hktFloat16, hktMax, 1}, {{0x7fff, 0xffff, 0x7c01}, {0, 0x7c00, 0}}),
            (std::vector<uint16_t>{0x7e00, 0x7e00, 0x7e00}));
}

// All values of both 16-bit formats, with partners that move the result through all ranges.
TEST_P(Kernels, ConvertEvery16BitFloat) {
  Bytes all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) put(all, static_cast<uint16_t>(bits));
  for (hktDataType_t type : {hktFloat16, hktBfloat16}) {
    const Format f = type == hktFloat16 ? kHalf : kBrain;
    for (float partner : {1.0F, 0.0F, -3.0F, 0.3F, 0x1p-9F, 0x1.8p-13F, 6e4F, 3e38F, 1e-39F}) {
      Bytes constant;
      for (uint32_t i = 0; i < 0x10000; ++i) put(constant, encode(f, partner));
      for (hktRedOp_t op : {hktSum, hktProd, hktMin}) {
        const std::vector<Bytes> src = {all, constant};
        check({type, op, 1}, src, reference({type, op, 1}, src), {0x10000, 0, Stores::temporal});
      }
    }
  }
}

TEST_P(Kernels, CopyBytes) {
  const Bytes data = make_input(hktUint8, 5000, rng_);
  for (size_t bytes : {0, 1, 2, 15, 16, 63, 64, 65, 127, 255, 256, 257, 300, 511, 1024, 4999, 5000}) {
    for (size_t to : {0, 1, 16, 63}) {
      for (size_t from : {0, 3, 32}) {
        for (Stores stores : kStores) {
          Guarded src(data.data(), bytes, from);
          const Bytes junk(bytes, 0x5a);
          Guarded dst(junk.data(), bytes, to);
          copy(dst.get(), src.get(), bytes, stores);
          EXPECT_TRUE(dst.holds(data.data()) && dst.guards_intact()) << bytes << " bytes from " << from << " to " << to;
        }
      }
    }
  }
  copy(nullptr, nullptr, 0, Stores::streaming);
}

TEST(KernelFacts, TypesAndOperations) {
  const size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  const char* names[] = {"int8",  "uint8",  "int16", "uint16",   "int32", "uint32",
                         "int64", "uint64", "half",  "bfloat16", "float", "double"};
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    EXPECT_TRUE(valid(kTypes[i]));
    EXPECT_EQ(type_size(kTypes[i]), sizes[i]);
    EXPECT_STREQ(type_name(kTypes[i]), names[i]);
  }
  const char* ops[] = {"sum", "prod", "max", "min", "avg"};
  for (size_t i = 0; i < std::size(kOps); ++i) {
    EXPECT_TRUE(valid(kOps[i]));
    EXPECT_STREQ(op_name(kOps[i]), ops[i]);
  }
  const auto no_type = static_cast<hktDataType_t>(10);
  const auto no_op = static_cast<hktRedOp_t>(5);
  EXPECT_FALSE(valid(no_type));
  EXPECT_FALSE(valid(no_op));
  EXPECT_EQ(type_size(no_type), 0u);
  EXPECT_STREQ(type_name(no_type), "invalid");
  EXPECT_STREQ(op_name(no_op), "invalid");
}

TEST(KernelFacts, KernelsExistForAllAndOnlyForValidPairs) {
  for (hktDataType_t type : kTypes) {
    for (hktRedOp_t op : kOps) {
      EXPECT_NE(fold_kernel(type, op).temporal, nullptr) << type_name(type) << " " << op_name(op);
      EXPECT_NE(fold_kernel(type, op).streaming, nullptr) << type_name(type) << " " << op_name(op);
    }
    EXPECT_EQ(fold_kernel(type, hktAvg).temporal, fold_kernel(type, hktSum).temporal);
  }
  EXPECT_EQ(fold_kernel(static_cast<hktDataType_t>(10), hktSum).temporal, nullptr);
  EXPECT_EQ(fold_kernel(hktFloat32, static_cast<hktRedOp_t>(5)).temporal, nullptr);
  EXPECT_STRNE(simd_target(), "");
}

}  // namespace
}  // namespace hocket::kernels
