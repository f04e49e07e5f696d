// The inputs of `hocket perf`, and what it expects of them, against a fold in plain arithmetic.
#include "perf_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace hocket::tool {
namespace {

using Bytes = std::vector<unsigned char>;
using Kind = std::tuple<hktDataType_t, hktRedOp_t>;

// A float of 8 or 16 bits by its definition.
struct Narrow {
  int mantissa, bias;
  int largest;  // the code of the largest finite number

  double decode(int code) const {
    const int exponent = code >> mantissa;
    const double fraction = std::ldexp(code & ((1 << mantissa) - 1), -mantissa);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  }
  // The code nearest to a non-negative number, ties to even: codes ascend as their values do.
  int nearest(double v) const {
    int low = 0, high = largest;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (decode(middle) <= v ? low : high) = middle;
    }
    const double below = v - decode(low), above = decode(high) - v;
    if (below == above) return low % 2 == 0 ? low : high;
    return below < above ? low : high;
  }
};
constexpr Narrow kHalf = {10, 15, 0x7bff}, kBrain = {7, 127, 0x7f7f}, kE4m3 = {3, 7, 0x7e}, kE5m2 = {2, 15, 0x7b};

using Number = std::complex<double>;

template <class T>
T load(const Bytes& bytes, uint64_t i) {
  T v;
  std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
  return v;
}

template <class T>
void store(Bytes& bytes, uint64_t i, T v) {
  std::memcpy(bytes.data() + i * sizeof(T), &v, sizeof(T));
}

Number decode(hktDataType_t type, const Bytes& bytes, uint64_t i) {
  switch (type) {
    case hktInt8:
      return load<int8_t>(bytes, i);
    case hktUint8:
    case hktBool:
      return load<uint8_t>(bytes, i);
    case hktInt16:
      return load<int16_t>(bytes, i);
    case hktUint16:
      return load<uint16_t>(bytes, i);
    case hktInt32:
      return load<int32_t>(bytes, i);
    case hktUint32:
      return load<uint32_t>(bytes, i);
    case hktInt64:
      return static_cast<double>(load<int64_t>(bytes, i));
    case hktUint64:
      return static_cast<double>(load<uint64_t>(bytes, i));
    case hktFloat16:
      return kHalf.decode(load<uint16_t>(bytes, i));
    case hktBfloat16:
      return kBrain.decode(load<uint16_t>(bytes, i));
    case hktFloat8e4m3:
      return kE4m3.decode(load<uint8_t>(bytes, i));
    case hktFloat8e5m2:
      return kE5m2.decode(load<uint8_t>(bytes, i));
    case hktFloat32:
      return load<float>(bytes, i);
    case hktFloat64:
      return load<double>(bytes, i);
    case hktComplex64:
      return load<std::complex<float>>(bytes, i);
    case hktComplex128:
      return load<Number>(bytes, i);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void encode(hktDataType_t type, Number number, Bytes& bytes, uint64_t i) {
  const double v = number.real();
  switch (type) {
    case hktComplex64:
      return store(bytes, i, std::complex<float>(number));
    case hktComplex128:
      return store(bytes, i, number);
    case hktFloat64:
      return store(bytes, i, v);
    case hktFloat32:
      return store(bytes, i, static_cast<float>(v));
    case hktFloat16:
      return store(bytes, i, static_cast<uint16_t>(kHalf.nearest(v)));
    case hktBfloat16:
      return store(bytes, i, static_cast<uint16_t>(kBrain.nearest(v)));
    case hktFloat8e4m3:
      return store(bytes, i, static_cast<uint8_t>(kE4m3.nearest(v)));
    case hktFloat8e5m2:
      return store(bytes, i, static_cast<uint8_t>(kE5m2.nearest(v)));
    default:
      break;
  }
  // Two's complement cut to the type's size, on a little-endian machine.
  const auto whole = static_cast<int64_t>(v);
  std::memcpy(bytes.data() + i * type_size(type), &whole, type_size(type));
}

Number combine(const Kind& kind, Number a, Number b) {
  const bool is_bool = std::get<0>(kind) == hktBool;
  const auto bits = [](Number n) { return static_cast<uint64_t>(n.real()); };  // whole and not negative where asked for
  const bool p = a.real() != 0, q = b.real() != 0;
  switch (std::get<1>(kind)) {
    case hktSum:
      return is_bool ? Number(p || q) : a + b;
    case hktProd:
      return is_bool ? Number(p && q)
                     : Number(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
    case hktMax:
      return is_bool ? Number(p || q) : Number(std::max(a.real(), b.real()));
    case hktMin:
      return is_bool ? Number(p && q) : Number(std::min(a.real(), b.real()));
    case hktAvg:
      return a + b;
    case hktBitAnd:
      return is_bool ? Number(p && q) : Number(static_cast<double>(bits(a) & bits(b)));
    case hktBitOr:
      return is_bool ? Number(p || q) : Number(static_cast<double>(bits(a) | bits(b)));
    case hktBitXor:
      return is_bool ? Number(p != q) : Number(static_cast<double>(bits(a) ^ bits(b)));
    case hktLogicalAnd:
      return Number(p && q);
    case hktLogicalOr:
      return Number(p || q);
    case hktLogicalXor:
      return Number(p != q);
    case hktRedOpLast:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// What `data` feeds the ranks, folded over all of them but `without`.
Bytes reduce(const PerfData& data, const Kind& kind, int n, uint64_t count, int without = -1) {
  const hktDataType_t type = std::get<0>(kind);
  const hktRedOp_t op = std::get<1>(kind);
  std::vector<Number> all(count);
  bool first = true;
  for (int rank = 0; rank < n; ++rank) {
    if (rank == without) continue;
    Bytes in(count * type_size(type));
    data.fill(in.data(), count, rank);
    for (uint64_t i = 0; i < count; ++i) {
      const Number v = decode(type, in, i);
      all[i] = first ? v : combine(kind, all[i], v);
    }
    first = false;
  }
  Bytes out(count * type_size(type));
  const double divisor = op == hktAvg ? n : 1;
  for (uint64_t i = 0; i < count; ++i) encode(type, all[i] / divisor, out, i);
  return out;
}

class PerfDataTest : public testing::TestWithParam<Kind> {
 protected:
  hktDataType_t type() const { return std::get<0>(GetParam()); }
  hktRedOp_t op() const { return std::get<1>(GetParam()); }
};

TEST_P(PerfDataTest, PredictsTheReduction) {
  for (const int n : {1, 2, 3, 4, 7, 16, 64, 100, 257}) {
    for (const uint32_t seed : {0u, 1u, 1000u}) {
      const PerfData data(type(), op(), n, seed);
      const Bytes result = reduce(data, GetParam(), n, 333);
      EXPECT_EQ(data.wrong_reduced(result.data(), 333), 0u) << n << " ranks, seed " << seed;
    }
  }
}

// The order of the fold and of the roundings on the way is free: no partial result may round, in any order, and no zero
// may be negative. Integers of any value wrap alike in any order.
TEST_P(PerfDataTest, EveryPartialResultIsExact) {
  if (op() == hktMax || op() == hktMin || type_class(type()) == TypeClass::boolean) return;  // picks an operand
  const bool is_float8 = type() == hktFloat8e4m3 || type() == hktFloat8e5m2;
  const double limit = op() == hktAvg ? 64 : is_float8 && op() == hktSum ? 8 : 256;  // bits of f8e5m2, of bfloat16
  const auto is_exact = [&](double v) {
    return v == std::trunc(v) && std::abs(v) <= limit && (v != 0 || !std::signbit(v));
  };
  const int n = 64;
  const PerfData data(type(), op(), n, 3);
  for (const int step : {1, 5, 63}) {
    std::vector<Number> all(300);
    for (int turn = 0; turn < n; ++turn) {
      Bytes in(all.size() * type_size(type()));
      data.fill(in.data(), all.size(), turn * step % n);
      for (uint64_t i = 0; i < all.size(); ++i) {
        const Number v = decode(type(), in, i);
        all[i] = turn == 0 ? v : combine(GetParam(), all[i], v);
        ASSERT_TRUE(is_exact(all[i].real()) && is_exact(all[i].imag())) << all[i];
        ASSERT_TRUE(is_exact(v.real()) && is_exact(v.imag()) && v.real() >= 0 && v.imag() >= 0) << v;
      }
    }
  }
}

TEST_P(PerfDataTest, CountsEveryWrongElement) {
  constexpr uint64_t kCount = 1003;
  const uint64_t size = type_size(type());
  const PerfData data(type(), op(), 3, 7);
  const Bytes good = reduce(data, GetParam(), 3, kCount);
  ASSERT_EQ(data.wrong_reduced(good.data(), kCount), 0u);
  const std::vector<uint64_t> places = {0, 1, 63, 64, 500, kCount - 1};
  Bytes bad = good;
  for (size_t k = 0; k < places.size(); ++k) {
    bad[places[k] * size + k % size] ^= static_cast<unsigned char>(1 << k);  // one bit anywhere in the element
    EXPECT_EQ(data.wrong_reduced(bad.data(), kCount), k + 1);
  }
  EXPECT_EQ(data.wrong_reduced(bad.data(), kCount - 1), places.size() - 1) << "an element behind the count";
  const Bytes rubbish(kCount * size, 0xa5);
  EXPECT_EQ(data.wrong_reduced(rubbish.data(), kCount), kCount);
  EXPECT_EQ(data.wrong_reduced(nullptr, 0), 0u);
}

TEST_P(PerfDataTest, CountsEveryWrongCopy) {
  constexpr uint64_t kCount = 777;
  const uint64_t size = type_size(type());
  const PerfData data(type(), op(), 5, 11);
  Bytes copy(kCount * size);
  data.fill(copy.data(), kCount, 2);
  EXPECT_EQ(data.wrong_copied(copy.data(), kCount, 2), 0u);
  EXPECT_GT(data.wrong_copied(copy.data(), kCount, 3), 0u) << "another root has other data";
  copy[kCount * size - 1] ^= 0x80;
  copy[5 * size] ^= 1;
  EXPECT_EQ(data.wrong_copied(copy.data(), kCount, 2), 2u);
}

TEST_P(PerfDataTest, ARankThatIsLeftOutShows) {
  for (const int n : {2, 4, 5}) {
    const PerfData data(type(), op(), n, 2);
    for (int without = 0; without < n; ++without) {
      const Bytes result = reduce(data, GetParam(), n, 100, without);
      EXPECT_GT(data.wrong_reduced(result.data(), 100), 0u) << "rank " << without << " of " << n;
    }
  }
}

// A block in another's place shows in the result, too: no shift of it passes for it. One rank is a copy.
TEST_P(PerfDataTest, EveryPlaceIsAnother) {
  constexpr uint64_t kCount = 4096;
  const uint64_t size = type_size(type());
  for (const int n : {1, 2, 4, 5}) {
    const PerfData data(type(), op(), n, 3);
    const Bytes result = reduce(data, GetParam(), n, kCount);
    for (const uint64_t shift : {1u, 2u, 16u, 64u, 1000u, 2048u}) {
      const uint64_t rest = kCount - shift;
      EXPECT_EQ(data.wrong_reduced(result.data() + shift * size, rest, shift), 0u) << n << " ranks, " << shift;
      EXPECT_GT(data.wrong_reduced(result.data() + shift * size, rest), rest / 16) << n << " ranks, " << shift;
    }
  }
}

std::string label(const testing::TestParamInfo<Kind>& info) {
  return std::string(type_name(std::get<0>(info.param))) + "_" + op_name(std::get<1>(info.param));
}

std::vector<Kind> served() {
  std::vector<Kind> all;
  for (const hktDataType_t type : kAllTypes)
    for (const hktRedOp_t op : kAllOps)
      if (unsupported(type, op) == nullptr) all.emplace_back(type, op);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, PerfDataTest, testing::ValuesIn(served()), label);

// Data that are only moved: every rank and every place has its own, in almost every element.
TEST(PerfDataMoved, EveryRankAndPlaceIsAnother) {
  constexpr uint64_t kCount = 4096;
  for (const hktDataType_t type : kAllTypes) {
    const uint64_t size = type_size(type);
    const PerfData data(type, std::nullopt, 64, 3);
    Bytes input(kCount * size);
    data.fill(input.data(), kCount, 5);
    EXPECT_EQ(data.wrong_copied(input.data(), kCount, 5), 0u) << type_name(type);
    for (const int other : {0, 1, 4, 6, 63})
      EXPECT_GT(data.wrong_copied(input.data(), kCount, other), kCount * 9 / 10) << type_name(type) << ' ' << other;
    for (const uint64_t shift : {1u, 2u, 16u, 64u, 1000u, 2048u}) {
      const uint64_t rest = kCount - shift;
      EXPECT_EQ(data.wrong_copied(input.data() + shift * size, rest, 5, shift), 0u) << type_name(type) << ' ' << shift;
      EXPECT_GT(data.wrong_copied(input.data() + shift * size, rest, 5), rest * 9 / 10)
          << type_name(type) << ' ' << shift;
    }
    const PerfData next(type, std::nullopt, 64, 4);
    EXPECT_GT(next.wrong_copied(input.data(), kCount, 5), kCount * 9 / 10) << type_name(type);
  }
}

// The result of an earlier call must not pass for that of the next.
TEST(PerfDataSeed, ChangesTheValues) {
  const PerfData now(hktFloat32, hktSum, 4, 1), next(hktFloat32, hktMax, 4, 2);
  Bytes first(400), second(400);
  now.fill(first.data(), 100, 0);
  EXPECT_EQ(now.wrong_copied(first.data(), 100, 0), 0u);
  EXPECT_GT(PerfData(hktFloat32, hktSum, 4, 2).wrong_copied(first.data(), 100, 0), 0u);
  next.fill(second.data(), 100, 0);
  EXPECT_EQ(next.wrong_copied(second.data(), 100, 0), 0u);
  EXPECT_GT(PerfData(hktFloat32, hktMax, 4, 3).wrong_copied(second.data(), 100, 0), 0u);
}

}  // namespace
}  // namespace hocket::tool
