// The inputs of `hocket perf`, and what it expects of them, against a fold in plain arithmetic.
#include "perf_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace hocket::tool {
namespace {

constexpr hktDataType_t kTypes[] = {hktInt8,  hktUint8,  hktInt16,   hktUint16,   hktInt32,   hktUint32,
                                    hktInt64, hktUint64, hktFloat16, hktBfloat16, hktFloat32, hktFloat64};
constexpr hktRedOp_t kOps[] = {hktSum, hktProd, hktMax, hktMin, hktAvg};

using Bytes = std::vector<unsigned char>;
using Kind = std::tuple<hktDataType_t, hktRedOp_t>;

// A 16-bit float by its definition.
double decode16(uint16_t code, int mantissa, int bias) {
  const int exponent = (code & 0x7fff) >> mantissa;
  const double fraction = std::ldexp(code & ((1 << mantissa) - 1), -mantissa);
  const double v = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (code & 0x8000) != 0 ? -v : v;
}

// The code nearest to a non-negative number, ties to even: positive codes ascend as their values do.
uint16_t nearest16(double v, int mantissa, int bias) {
  uint16_t low = 0, high = static_cast<uint16_t>(((2 * bias + 1) << mantissa) - 1);  // the largest finite one
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (decode16(middle, mantissa, bias) <= v ? low : high) = middle;
  }
  const double below = v - decode16(low, mantissa, bias), above = decode16(high, mantissa, bias) - v;
  if (below == above) return low % 2 == 0 ? low : high;
  return below < above ? low : high;
}

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

double decode(hktDataType_t type, const Bytes& bytes, uint64_t i) {
  switch (type) {
    case hktInt8:
      return load<int8_t>(bytes, i);
    case hktUint8:
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
      return decode16(load<uint16_t>(bytes, i), 10, 15);
    case hktBfloat16:
      return decode16(load<uint16_t>(bytes, i), 7, 127);
    case hktFloat32:
      return load<float>(bytes, i);
    case hktFloat64:
      return load<double>(bytes, i);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void encode(hktDataType_t type, double v, Bytes& bytes, uint64_t i) {
  if (type == hktFloat64) return store(bytes, i, v);
  if (type == hktFloat32) return store(bytes, i, static_cast<float>(v));
  if (type == hktFloat16) return store(bytes, i, nearest16(v, 10, 15));
  if (type == hktBfloat16) return store(bytes, i, nearest16(v, 7, 127));
  // Two's complement cut to the type's size, on a little-endian machine.
  const auto whole = static_cast<int64_t>(v);
  std::memcpy(bytes.data() + i * type_size(type), &whole, type_size(type));
}

// What `data` feeds the ranks, folded over all of them but `without`.
Bytes reduce(const PerfData& data, const Kind& kind, int n, uint64_t count, int without = -1) {
  const hktDataType_t type = std::get<0>(kind);
  const hktRedOp_t op = std::get<1>(kind);
  std::vector<double> all(count);
  bool first = true;
  for (int rank = 0; rank < n; ++rank) {
    if (rank == without) continue;
    Bytes in(count * type_size(type));
    data.fill(in.data(), count, rank);
    for (uint64_t i = 0; i < count; ++i) {
      const double v = decode(type, in, i);
      if (first)
        all[i] = v;
      else if (op == hktMax)
        all[i] = std::max(all[i], v);
      else if (op == hktMin)
        all[i] = std::min(all[i], v);
      else
        all[i] = op == hktProd ? all[i] * v : all[i] + v;
    }
    first = false;
  }
  Bytes out(count * type_size(type));
  for (uint64_t i = 0; i < count; ++i) encode(type, op == hktAvg ? all[i] / n : all[i], out, i);
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

// The order of the fold and of the 16-bit roundings on the way is free: no partial result may round.
TEST_P(PerfDataTest, EveryPartialResultIsExact) {
  if (op() == hktMax || op() == hktMin) return;  // pick an operand
  const int n = 64;
  const PerfData data(type(), op(), n, 3);
  std::vector<double> all(300, op() == hktProd ? 1 : 0);
  for (int rank = 0; rank < n; ++rank) {
    Bytes in(all.size() * type_size(type()));
    data.fill(in.data(), all.size(), rank);
    for (uint64_t i = 0; i < all.size(); ++i) {
      const double v = decode(type(), in, i);
      all[i] = op() == hktProd ? all[i] * v : all[i] + v;
      ASSERT_EQ(all[i], std::trunc(all[i]));
      ASSERT_LE(all[i], 256);  // 8 bits of a bfloat16
      ASSERT_GE(v, 0);
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
  const PerfData data(type(), op(), 5, 2);
  for (int without = 0; without < 5; ++without) {
    const Bytes result = reduce(data, GetParam(), 5, 100, without);
    EXPECT_GT(data.wrong_reduced(result.data(), 100), 0u) << "rank " << without;
  }
}

std::string label(const testing::TestParamInfo<Kind>& info) {
  return std::string(type_name(std::get<0>(info.param))) + "_" + op_name(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, PerfDataTest, testing::Combine(testing::ValuesIn(kTypes), testing::ValuesIn(kOps)),
                         label);

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
