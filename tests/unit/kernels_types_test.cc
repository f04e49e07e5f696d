// What the types and operations mean, in numbers written down here, and which there are.
#include <cmath>
#include <complex>
#include <limits>
#include <set>

#include "kernels_run.h"

namespace hocket::kernels {
namespace {

class KernelTypes : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, KernelTypes, testing::ValuesIn(targets()), target_label);

template <class T>
void put(Bytes& to, T value) {
  const auto* p = reinterpret_cast<const uint8_t*>(&value);
  to.insert(to.end(), p, p + sizeof(T));
}

TEST_P(KernelTypes, OrderZerosAndKeepNan) {
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

TEST_P(KernelTypes, WrapIntegersAndDivideTowardsZero) {
  EXPECT_EQ(fold<int8_t>({hktInt8, hktProd, 1}, {{16, -128, 100}, {17, -1, 3}}), (std::vector<int8_t>{16, -128, 44}));
  EXPECT_EQ(fold<int8_t>({hktInt8, hktSum, 1}, {{127, -128}, {1, -1}}), (std::vector<int8_t>{-128, 127}));
  EXPECT_EQ(fold<int8_t>({hktInt8, hktAvg, 2}, {{-3, 3, 127}, {-4, 4, 1}}), (std::vector<int8_t>{-3, 3, -64}));
  EXPECT_EQ(fold<uint8_t>({hktUint8, hktAvg, 2}, {{255, 7}, {3, 8}}), (std::vector<uint8_t>{1, 7}));
  const int64_t min64 = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(fold<int64_t>({hktInt64, hktProd, 1}, {{min64, 1LL << 33}, {3, 1LL << 31}}),
            (std::vector<int64_t>{min64, 0}));
  EXPECT_EQ(fold<int64_t>({hktInt64, hktSum, 1}, {{min64}, {-1}}), (std::vector<int64_t>{-(min64 + 1)}));
}

TEST_P(KernelTypes, RoundHalvesOnceToEven) {
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
TEST_P(KernelTypes, ConvertEvery16BitFloat) {
  Bytes all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) put(all, static_cast<uint16_t>(bits));
  for (hktDataType_t type : {hktFloat16, hktBfloat16}) {
    const Format f = type == hktFloat16 ? kHalf : kBrain;
    for (float partner : {1.0F, 0.0F, -3.0F, 0.3F, 0x1p-9F, 0x1.8p-13F, 6e4F, 3e38F, 1e-39F}) {
      Bytes constant;
      for (uint32_t i = 0; i < 0x10000; ++i) put(constant, static_cast<uint16_t>(encode(f, partner)));
      for (hktRedOp_t op : {hktSum, hktProd, hktMin}) {
        const std::vector<Bytes> src = {all, constant};
        check({type, op, 1}, src, reference({type, op, 1}, src), {0x10000, 0, Stores::temporal});
      }
    }
  }
}

using Codes = std::vector<uint8_t>;

Codes fold8(hktDataType_t type, hktRedOp_t op, const std::vector<Codes>& src, uint32_t divisor = 1) {
  return fold<uint8_t>({type, op, divisor}, src);
}

TEST_P(KernelTypes, E4m3RoundsOnceToEvenAndSaturates) {
  // 1 + 1/16 and 1 + 3/16 are ties; twice 1/16 is none; 448 + 16 is a tie, 448 + 32 and 448 * 448 are too large.
  EXPECT_EQ(fold8(hktFloat8e4m3, hktSum, {{0x38, 0x38}, {0x18, 0x24}}), (Codes{0x38, 0x3a}));
  EXPECT_EQ(fold8(hktFloat8e4m3, hktSum, {{0x38}, {0x18}, {0x18}}), (Codes{0x39}));
  EXPECT_EQ(fold8(hktFloat8e4m3, hktSum, {{0x7e, 0x7e, 0xfe}, {0x58, 0x60, 0xfe}}), (Codes{0x7e, 0x7e, 0xfe}));
  EXPECT_EQ(fold8(hktFloat8e4m3, hktProd, {{0x7e, 0x7e}, {0x7e, 0xfe}}), (Codes{0x7e, 0xfe}));
  // Too large on the way is not lost: (448 + 448 - 448) in 32 bits.
  EXPECT_EQ(fold8(hktFloat8e4m3, hktSum, {{0x7e}, {0x7e}, {0xfe}}), (Codes{0x7e}));
  EXPECT_EQ(fold8(hktFloat8e4m3, hktAvg, {{0x7e}, {0x7e}}, 2), (Codes{0x7e}));
  // 2^-9 is the smallest number; half of it is a tie, which goes to zero, three halves go to two.
  EXPECT_EQ(fold8(hktFloat8e4m3, hktProd, {{0x01, 0x03, 0x01}, {0x30, 0x30, 0xb8}}), (Codes{0x00, 0x02, 0x81}));
  // NaN of either sign is one and the same.
  EXPECT_EQ(fold8(hktFloat8e4m3, hktSum, {{0x7f, 0xff, 0x38}, {0x38, 0x38, 0xff}}), (Codes{0x7f, 0x7f, 0x7f}));
  EXPECT_EQ(fold8(hktFloat8e4m3, hktMin, {{0x7f, 0x80}, {0x38, 0x00}}), (Codes{0x7f, 0x80}));
}

TEST_P(KernelTypes, E5m2TakesInfinityAndGivesTheLargestNumber) {
  // 57344 and its half: no sum is infinite.
  EXPECT_EQ(fold8(hktFloat8e5m2, hktSum, {{0x7b, 0xfb}, {0x77, 0xfb}}), (Codes{0x7b, 0xfb}));
  // inf + 1, -inf + 1, inf - inf, inf * 0.
  EXPECT_EQ(fold8(hktFloat8e5m2, hktSum, {{0x7c, 0xfc, 0x7c}, {0x3c, 0x3c, 0xfc}}), (Codes{0x7b, 0xfb, 0x7e}));
  EXPECT_EQ(fold8(hktFloat8e5m2, hktProd, {{0x7c, 0x7c}, {0x00, 0xbc}}), (Codes{0x7e, 0xfb}));
  EXPECT_EQ(fold8(hktFloat8e5m2, hktMin, {{0x7c, 0xfc}, {0x3c, 0x3c}}), (Codes{0x3c, 0xfb}));
  EXPECT_EQ(fold8(hktFloat8e5m2, hktMax, {{0x7c, 0xfc}, {0x3c, 0x3c}}), (Codes{0x7b, 0x3c}));
  // All NaNs are one; a fold of one operand is a copy.
  EXPECT_EQ(fold8(hktFloat8e5m2, hktSum, {{0x7d, 0x7e, 0x7f, 0xff}, {0, 0, 0, 0}}), (Codes{0x7e, 0x7e, 0x7e, 0x7e}));
  EXPECT_EQ(fold8(hktFloat8e5m2, hktSum, {{0x7c, 0xff, 0x7d}}), (Codes{0x7c, 0xff, 0x7d}));
  // 1 + 1/8 and 1 + 3/8 are ties; 2^-16 is the smallest number.
  EXPECT_EQ(fold8(hktFloat8e5m2, hktSum, {{0x3c, 0x3c, 0x01}, {0x30, 0x36, 0x00}}), (Codes{0x3c, 0x3e, 0x01}));
  EXPECT_EQ(fold8(hktFloat8e5m2, hktProd, {{0x01, 0x03}, {0x38, 0x38}}), (Codes{0x00, 0x02}));
}

// The four numbers of each format that fix all others: the smallest, the smallest normal, one, the largest.
TEST(KernelTypesReference, KnowsTheFormats) {
  const auto numbers = [](Format f, std::vector<uint32_t> codes) {
    std::vector<float> v;
    for (uint32_t code : codes) v.push_back(decode(f, code));
    return v;
  };
  EXPECT_EQ(numbers(kE4m3, {1, 8, 0x38, 0x7e}), (std::vector<float>{0x1p-9F, 0x1p-6F, 1, 448}));
  EXPECT_EQ(numbers(kE5m2, {1, 4, 0x3c, 0x7b}), (std::vector<float>{0x1p-16F, 0x1p-14F, 1, 57344}));
  EXPECT_EQ(numbers(kHalf, {1, 0x400, 0x3c00, 0x7bff}), (std::vector<float>{0x1p-24F, 0x1p-14F, 1, 65504}));
  for (const Format& f : {kE4m3, kE5m2, kHalf, kBrain}) {
    for (uint32_t code = 0; code < static_cast<uint32_t>(f.special); ++code)
      EXPECT_EQ(encode(f, decode(f, code)), code) << f.mantissa << " bits of mantissa";
  }
}

TEST_P(KernelTypes, BoolIsZeroOrNot) {
  const std::vector<Codes> src = {{0, 0, 2, 0x80, 1, 0}, {0, 4, 0, 0x40, 1, 1}};
  for (hktRedOp_t op : {hktSum, hktMax, hktBitOr, hktLogicalOr})
    EXPECT_EQ(fold8(hktBool, op, src), (Codes{0, 1, 1, 1, 1, 1})) << op_name(op);
  for (hktRedOp_t op : {hktProd, hktMin, hktBitAnd, hktLogicalAnd})
    EXPECT_EQ(fold8(hktBool, op, src), (Codes{0, 0, 0, 1, 1, 0})) << op_name(op);
  for (hktRedOp_t op : {hktBitXor, hktLogicalXor})
    EXPECT_EQ(fold8(hktBool, op, src), (Codes{0, 1, 1, 0, 0, 1})) << op_name(op);
}

TEST_P(KernelTypes, BitsAndTruthOfIntegers) {
  using I = std::vector<int16_t>;
  const std::vector<I> src = {{0x0ff0, -1, 0, 256}, {0x00ff, 0x1234, 0, 512}};
  const auto result = [&](hktRedOp_t op) { return fold<int16_t>({hktInt16, op, 1}, src); };
  EXPECT_EQ(result(hktBitAnd), (I{0x00f0, 0x1234, 0, 0}));
  EXPECT_EQ(result(hktBitOr), (I{0x0fff, -1, 0, 768}));
  EXPECT_EQ(result(hktBitXor), (I{0x0f0f, ~0x1234, 0, 768}));
  EXPECT_EQ(result(hktLogicalAnd), (I{1, 1, 0, 1}));
  EXPECT_EQ(result(hktLogicalOr), (I{1, 1, 0, 1}));
  EXPECT_EQ(result(hktLogicalXor), (I{0, 0, 0, 0}));
}

TEST_P(KernelTypes, ComplexProductsAreThoseOfTheFormula) {
  using C = std::complex<float>;
  const float inf = std::numeric_limits<float>::infinity();
  const Case prod{hktComplex64, hktProd, 1};
  EXPECT_EQ(fold<C>(prod, {{{1, 2}, {0, 1}}, {{3, 4}, {0, 1}}}), (std::vector<C>{{-5, 10}, {-1, 0}}));
  EXPECT_EQ(fold<C>({hktComplex64, hktAvg, 4}, {{{1, 2}}, {{3, -4}}}), (std::vector<C>{{1, -0.5F}}));
  // Fused, 3 * (1/3) - 1 would show the error of the first product.
  const float third = 1.0F / 3;
  EXPECT_EQ(fold<C>(prod, {{{3, 1}}, {{third, 1}}})[0].real(), 0.0F);
  // inf * 0 in a part makes that part NaN, and no other.
  const C mixed = fold<C>(prod, {{{inf, 0}}, {{1, 1}}})[0];
  EXPECT_EQ(mixed, (C{inf, inf}));
  const C spoilt = fold<C>(prod, {{{inf, 0}}, {{1, 0}}})[0];
  EXPECT_EQ(spoilt.real(), inf);
  EXPECT_TRUE(std::isnan(spoilt.imag()) && !std::signbit(spoilt.imag()));
  using D = std::complex<double>;
  EXPECT_EQ(fold<D>({hktComplex128, hktProd, 1}, {{{1, 2}}, {{3, 4}}, {{0, 1}}}), (std::vector<D>{{-10, -5}}));
}

TEST(KernelFacts, TypesAndOperations) {
  struct Fact {
    hktDataType_t type;
    int value;
    size_t size;
    const char* name;
  };
  const Fact facts[] = {{hktInt8, 0, 1, "int8"},
                        {hktUint8, 1, 1, "uint8"},
                        {hktInt16, 12, 2, "int16"},
                        {hktUint16, 13, 2, "uint16"},
                        {hktInt32, 2, 4, "int32"},
                        {hktUint32, 3, 4, "uint32"},
                        {hktInt64, 4, 8, "int64"},
                        {hktUint64, 5, 8, "uint64"},
                        {hktFloat16, 6, 2, "half"},
                        {hktBfloat16, 9, 2, "bfloat16"},
                        {hktFloat32, 7, 4, "float"},
                        {hktFloat64, 8, 8, "double"},
                        {hktFloat8e4m3, 10, 1, "f8e4m3"},
                        {hktFloat8e5m2, 11, 1, "f8e5m2"},
                        {hktBool, 14, 1, "bool"},
                        {hktComplex64, 15, 8, "complex64"},
                        {hktComplex128, 16, 16, "complex128"}};
  ASSERT_EQ(std::size(facts), kAllTypes.size());
  for (size_t i = 0; i < kAllTypes.size(); ++i) {
    EXPECT_EQ(kAllTypes[i], facts[i].type);
    EXPECT_EQ(static_cast<int>(facts[i].type), facts[i].value);
    EXPECT_TRUE(valid(facts[i].type));
    EXPECT_EQ(type_size(facts[i].type), facts[i].size);
    EXPECT_STREQ(type_name(facts[i].type), facts[i].name);
    EXPECT_LT(static_cast<size_t>(facts[i].type), kTypes);
  }
  const char* ops[] = {"sum", "prod", "max", "min", "avg", "band", "bor", "bxor", "land", "lor", "lxor"};
  ASSERT_EQ(std::size(ops), kAllOps.size());
  for (size_t i = 0; i < kAllOps.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(kAllOps[i]), i);
    EXPECT_TRUE(valid(kAllOps[i]));
    EXPECT_STREQ(op_name(kAllOps[i]), ops[i]);
  }
  const auto no_type = static_cast<hktDataType_t>(kTypes);
  const auto no_op = static_cast<hktRedOp_t>(kOps);
  EXPECT_FALSE(valid(no_type));
  EXPECT_FALSE(valid(no_op));
  EXPECT_EQ(type_size(no_type), 0u);
  EXPECT_STREQ(type_name(no_type), "invalid");
  EXPECT_STREQ(op_name(no_op), "invalid");
}

// Also for values that are no types and operations.
TEST(KernelFacts, KernelsExistForAllSupportedPairsAndNoOthers) {
  int served = 0;
  std::set<std::string> reasons;
  for (size_t t = 0; t < 32; ++t) {
    const auto type = static_cast<hktDataType_t>(t);
    for (size_t o = 0; o < 16; ++o) {
      const auto op = static_cast<hktRedOp_t>(o);
      const Kernel k = fold_kernel(type, op);
      const char* why = unsupported(type, op);
      EXPECT_EQ(k.temporal != nullptr, why == nullptr) << type_name(type) << " " << op_name(op);
      EXPECT_EQ(k.streaming != nullptr, why == nullptr) << type_name(type) << " " << op_name(op);
      served += why == nullptr ? 1 : 0;
      if (why != nullptr) reasons.insert(why);
    }
    EXPECT_EQ(scale_kernel(type) != nullptr, valid(type)) << t;
    EXPECT_EQ(fold_kernel(type, hktAvg).temporal,
              unsupported(type, hktAvg) == nullptr ? fold_kernel(type, hktSum).temporal : nullptr);
  }
  EXPECT_EQ(served, 8 * 11 + 10 + 6 * 5 + 2 * 3);  // integers, bool, floats, complex
  EXPECT_EQ(reasons.size(), 6u);
  EXPECT_NE(std::string(unsupported(hktComplex64, hktMax)).find("no order"), std::string::npos);
  EXPECT_STRNE(simd_target(), "");
}

}  // namespace
}  // namespace hocket::kernels
