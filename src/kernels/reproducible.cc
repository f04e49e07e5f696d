#include "kernels/reproducible.h"

#include "kernels/targets.h"
// Highway compiles this file once per target: everything but the part under HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reproducible.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/types.h"
#include "hwy/highway.h"
#include "kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {

__extension__ typedef unsigned __int128 Uint128;

constexpr int kLimbBits = 43;                        // of an operand; the sum of kMostAddends has 20 more, and a sign
constexpr uint64_t kPlusInf = 1;                     // where nothing is finite, operands are counted by kind
constexpr uint64_t kMinusInf = uint64_t{1} << 21;    // each of these has room for kMostAddends of the one before
constexpr uint64_t kNotANumber = uint64_t{1} << 42;  // still in the first limb
static_assert(kMinusInf > kMostAddends && kNotANumber / kMinusInf > kMostAddends);
static_assert(kNotANumber < uint64_t{1} << kLimbBits && kLimbBits + std::countr_zero(kMostAddends) < 64);

// A sign, the exponent, the mantissa; the largest exponent is that of infinity and NaN.
template <class Stored, int kMantissaBits, int kExponentBits, int kLimbsOfSum>
struct Format {
  using Bits = Stored;
  using Code = std::conditional_t<(kExponentBits > 8), uint16_t, uint8_t>;
  using Wide = std::conditional_t<kLimbsOfSum == 1, uint64_t, Uint128>;  // two's complement
  static constexpr int kMantissa = kMantissaBits, kLimbs = kLimbsOfSum;
  static constexpr int kSpecial = (1 << kExponentBits) - 1;
  static constexpr int kLeast = 1 - (kSpecial >> 1);  // binary exponent of the least normal number
  static constexpr Bits kOne = 1;
  static constexpr Bits kSign = static_cast<Bits>(kOne << (8 * sizeof(Bits) - 1));
  static constexpr Bits kMantissaMask = static_cast<Bits>((kOne << kMantissa) - 1);
  static constexpr Bits kInfinity = static_cast<Bits>(Bits{kSpecial} << kMantissa);
  static constexpr Bits kNan = static_cast<Bits>(kInfinity | kOne << (kMantissa - 1));
  // Of an operand's magnitude, and how many of these lie below the unit of one that has the sum's code.
  static constexpr int kBits = kLimbBits * kLimbs, kBelow = kBits - kMantissa - 1;
};
using Half = Format<uint16_t, 10, 5, 1>;
using Brain = Format<uint16_t, 7, 8, 1>;
using Single = Format<uint32_t, 23, 8, 1>;
using Double = Format<uint64_t, 52, 11, 2>;

// From any alignment.
template <class F>
HWY_INLINE typename F::Bits load(const void* from, uint64_t i) {
  typename F::Bits bits;
  std::memcpy(&bits, static_cast<const unsigned char*>(from) + i * sizeof bits, sizeof bits);
  return bits;
}

template <class F>
HWY_INLINE int exponent_of(typename F::Bits bits) {
  return static_cast<int>(bits >> F::kMantissa) & F::kSpecial;
}

// Subnormal numbers have the unit of the least normal ones, and so their code, 1; -0 alone has a smaller one, 0.
template <class F>
void classify(void* to, const void* from, uint64_t floats) {
  auto* const codes = static_cast<typename F::Code*>(to);
  for (uint64_t i = 0; i < floats; ++i) {
    const auto bits = load<F>(from, i);
    const int e = exponent_of<F>(bits);
    codes[i] = static_cast<typename F::Code>(bits == F::kSign ? 0 : e == 0 ? 1 : e);
  }
}

template <class F>
HWY_INLINE uint64_t kind_of(typename F::Bits bits) {
  const uint64_t infinity = (bits & F::kSign) != 0 ? kMinusInf : kPlusInf;
  const uint64_t kind = (bits & F::kMantissaMask) != 0 ? kNotANumber : infinity;
  return exponent_of<F>(bits) == F::kSpecial ? kind : 0;
}

// `value` or its two's complement, without a branch that would be taken half of the time.
template <class Wide>
HWY_INLINE Wide negate_if(Wide value, bool negative) {
  const Wide all = Wide{0} - static_cast<Wide>(negative);
  return (value ^ all) - all;
}

// Integers of one limb, of vectors, by each_vector. Of no meaning where the code is that of what is not finite. Half a
// unit is added, less a bit if the result would be odd otherwise; all beyond kBits orders is less than half a unit.
template <class F>
struct IntegersAt {
  int64_t* sums;
  const unsigned char* from;
  const typename F::Code* codes;

  template <class D>  // of uint64_t
  HWY_INLINE void operator()(D d, uint64_t i) const {
    const hn::Rebind<uint32_t, D> narrow;
    const auto bits =
        load_narrow(narrow, reinterpret_cast<const typename F::Bits*>(from + i * sizeof(typename F::Bits)));
    const auto code = load_narrow(narrow, codes + i);
    const auto one = hn::Set(narrow, 1);
    const auto e = hn::And(hn::ShiftRight<F::kMantissa>(bits), hn::Set(narrow, F::kSpecial));
    const auto leading = hn::ShiftLeft<F::kMantissa>(hn::Min(e, one));
    const auto significand = hn::Or(hn::And(bits, hn::Set(narrow, F::kMantissaMask)), leading);
    const auto orders = hn::Min(hn::Sub(hn::Max(code, one), hn::Max(e, one)), hn::Set(narrow, F::kBits + 1));

    const auto exact = hn::ShiftLeft<F::kBelow>(hn::PromoteTo(d, significand));
    const auto shift = hn::PromoteTo(d, orders);
    const auto even = hn::AndNot(hn::Shr(exact, shift), hn::PromoteTo(d, hn::Min(orders, one)));
    const auto half = hn::ShiftRight<1>(hn::Shl(hn::Set(d, 1), shift));
    const auto magnitude = hn::Shr(hn::Add(exact, hn::Sub(half, even)), shift);
    const auto sign = hn::PromoteTo(d, hn::ShiftRight<8 * sizeof(typename F::Bits) - 1>(bits));
    const auto all = hn::Sub(hn::Zero(d), sign);
    hn::StoreU(hn::Sub(hn::Xor(magnitude, all), all), d, reinterpret_cast<uint64_t*>(sums + i));
  }

  template <class D, class T>
  static HWY_INLINE hn::Vec<D> load_narrow(D d, const T* at) {
    const auto v = hn::LoadU(hn::Rebind<T, D>(), at);
    if constexpr (sizeof(T) == 4) {
      return v;
    } else {
      return hn::PromoteTo(d, v);
    }
  }
};

// The same for vectors of two limbs. A significand has 53 bits, so either it is moved up and nothing is cut off, or it
// is rounded and fits one word.
template <class F>
struct LimbPairsAt {
  int64_t* sums;
  const unsigned char* from;
  const typename F::Code* codes;

  template <class D>  // of uint64_t
  HWY_INLINE void operator()(D d, uint64_t i) const {
    const hn::RebindToSigned<D> whole;
    const auto bits = hn::LoadU(d, reinterpret_cast<const uint64_t*>(from + i * sizeof(uint64_t)));
    const hn::Rebind<uint32_t, D> narrow;
    const auto code32 = hn::PromoteTo(narrow, hn::LoadU(hn::Rebind<typename F::Code, D>(), codes + i));
    const auto code = hn::BitCast(whole, hn::PromoteTo(d, hn::Max(code32, hn::Set(narrow, 1))));
    const auto e = hn::And(hn::ShiftRight<F::kMantissa>(bits), hn::Set(d, F::kSpecial));
    const auto subnormal = hn::Eq(e, hn::Zero(d));
    const auto one = hn::Set(d, 1);
    const auto leading = hn::IfThenZeroElse(subnormal, hn::Set(d, F::kOne << F::kMantissa));
    const auto significand = hn::Or(hn::And(bits, hn::Set(d, F::kMantissaMask)), leading);
    const auto orders = hn::Sub(code, hn::BitCast(whole, hn::IfThenElse(subnormal, one, e)));
    const auto limit = hn::Set(whole, F::kBelow), none = hn::Zero(whole);
    const auto lost = hn::Min(hn::Max(hn::Sub(orders, limit), none), hn::Set(whole, F::kMantissa + 2));
    const auto down = hn::BitCast(d, lost), up = hn::BitCast(d, hn::Max(hn::Sub(limit, orders), none));
    const auto exact = hn::Eq(down, hn::Zero(d));
    const auto even = hn::IfThenZeroElse(exact, hn::AndNot(hn::Shr(significand, down), one));
    const auto half = hn::ShiftRight<1>(hn::Shl(one, down));
    const auto rounded = hn::Shr(hn::Add(significand, hn::Sub(half, even)), down);
    const auto mask = hn::Set(d, (uint64_t{1} << kLimbBits) - 1);
    const auto lower = hn::And(hn::Shl(rounded, up), mask);
    const auto upper = hn::Shr(rounded, hn::Sub(hn::Set(d, kLimbBits), up));
    const auto sign = hn::ShiftRight<63>(bits), all = hn::Sub(hn::Zero(d), sign);
    // -(upper, lower): the lower limb stays positive and borrows from the upper one, if it is not 0.
    const auto borrows = hn::IfThenZeroElse(hn::Eq(lower, hn::Zero(d)), sign);
    const auto low = hn::And(hn::Sub(hn::Xor(lower, all), all), mask);
    const auto high = hn::Sub(hn::Sub(hn::Xor(upper, all), all), borrows);
    hn::StoreInterleaved2(low, high, d, reinterpret_cast<uint64_t*>(sums + 2 * i));
  }
};

template <class F>
HWY_INLINE void put(int64_t* sums, uint64_t i, typename F::Wide value) {
  if constexpr (F::kLimbs == 1) {
    sums[i] = static_cast<int64_t>(value);
  } else {  // the upper one has the sign
    sums[2 * i] = static_cast<int64_t>(static_cast<uint64_t>(value) & ((uint64_t{1} << kLimbBits) - 1));
    sums[2 * i + 1] = static_cast<int64_t>(static_cast<uint64_t>(value >> kLimbBits));
  }
}

template <class F>
void quantise(int64_t* sums, const void* from, const void* codes_at, uint64_t floats) {
  const auto* const codes = static_cast<const typename F::Code*>(codes_at);
  using At = std::conditional_t<F::kLimbs == 1, IntegersAt<F>, LimbPairsAt<F>>;
  each_vector<Integer<uint64_t>>(At{sums, static_cast<const unsigned char*>(from), codes}, 0, floats);
  for (uint64_t i = 0; i < floats; ++i)
    if (codes[i] == F::kSpecial) put<F>(sums, i, kind_of<F>(load<F>(from, i)));
}

HWY_INLINE int leading_zeros(uint64_t x) { return std::countl_zero(x); }
HWY_INLINE int leading_zeros(Uint128 x) {
  const auto upper = static_cast<uint64_t>(x >> 64);
  return upper != 0 ? std::countl_zero(upper) : 64 + std::countl_zero(static_cast<uint64_t>(x));
}

// The float next to magnitude / divisor * 2^unit, without its sign. magnitude > 0.
template <class F>
HWY_INLINE typename F::Bits nearest(typename F::Wide magnitude, int unit, uint32_t divisor) {
  using Wide = typename F::Wide;
  constexpr Wide one = 1;
  constexpr int top = 8 * sizeof(Wide) - 2;  // where the leading bit is put
  const auto lift = [&] {
    const int by = leading_zeros(magnitude) - 1;
    magnitude <<= by;
    unit -= by;
  };
  lift();
  bool inexact = false;
  unit -= std::countr_zero(divisor);
  divisor >>= std::countr_zero(divisor);
  if (divisor > 1) {  // of 2^62 and more by at most 2^20: enough bits are left
    const Wide quotient = magnitude / divisor;
    inexact = quotient * divisor != magnitude;
    magnitude = quotient;
    lift();
  }
  const int exponent = unit + top;
  const int normal = exponent > F::kLeast ? exponent : F::kLeast;
  const int drop = normal - F::kMantissa - unit;  // bits below the unit of the result, at least some
  if (drop > top + 1) return 0;                   // less than half of the least subnormal number
  const Wide rest = magnitude & ((one << drop) - 1), half = one << (drop - 1);
  Wide result = magnitude >> drop;
  const auto odd = static_cast<unsigned>(result & 1);
  result += static_cast<Wide>((rest > half ? 1u : 0u) | ((rest == half ? 1u : 0u) & (odd | (inexact ? 1u : 0u))));
  // The leading bit, if the result is normal, is one more in the exponent; so is a carry.
  result += static_cast<Wide>(normal - F::kLeast) << F::kMantissa;
  return result < F::kInfinity ? static_cast<typename F::Bits>(result) : F::kInfinity;
}

template <class F>
HWY_INLINE typename F::Bits result_of_kinds(uint64_t counted) {
  const uint64_t plus = counted % kMinusInf, minus = counted / kMinusInf % (kNotANumber / kMinusInf);
  if (counted >= kNotANumber || (plus != 0 && minus != 0)) return F::kNan;
  return static_cast<typename F::Bits>(F::kInfinity | (minus != 0 ? F::kSign : 0));
}

// Integers below 2^53 (of_integer: 2^52) as doubles and back; exact, whatever the rounding mode.
constexpr uint64_t k2To52 = 0x4330000000000000, k2To84 = 0x4530000000000000;  // bits of these doubles
template <class D>
HWY_INLINE hn::Vec<hn::RebindToFloat<D>> of_integer(D d, hn::Vec<D> v) {
  const hn::RebindToFloat<D> real;
  return hn::Sub(hn::BitCast(real, hn::Or(v, hn::Set(d, k2To52))), hn::Set(real, 0x1p52));
}
template <class D>
HWY_INLINE hn::Vec<D> to_integer(D d, hn::Vec<hn::RebindToFloat<D>> v) {
  const hn::RebindToFloat<D> real;
  return hn::Xor(hn::BitCast(d, hn::Add(v, hn::Set(real, 0x1p52))), hn::Set(d, k2To52));
}

// The bits of the double that is v < 2^63, rounded to odd: the last bit stands for all that is cut off. So whoever
// rounds it once more, to two bits less or fewer, rounds v.
template <class D>
HWY_INLINE hn::Vec<D> normalised(D d, hn::Vec<D> v) {
  const hn::RebindToFloat<D> real;
  const auto cut = hn::And(v, hn::Set(d, 0x7ff)), kept = hn::AndNot(hn::Set(d, 0x7ff), v);
  const auto odd = hn::IfThenElse(hn::Eq(cut, hn::Zero(d)), kept, hn::Or(kept, hn::Set(d, 0x800)));
  const auto short_enough = hn::Eq(hn::ShiftRight<53>(v), hn::Zero(d));
  const auto exact = hn::IfThenElse(short_enough, v, odd);
  const auto upper = hn::BitCast(real, hn::Or(hn::ShiftRight<32>(exact), hn::Set(d, k2To84)));
  const auto lower = hn::BitCast(real, hn::Or(hn::And(exact, hn::Set(d, 0xffffffff)), hn::Set(d, k2To52)));
  return hn::BitCast(d, hn::Add(hn::Sub(upper, hn::Set(real, 0x1p84 + 0x1p52)), lower));
}

// One digit of a long division, of integers below 2^52 with a quotient below 2^51: the quotient is returned, the
// remainder stays in `rest`.
template <class R>  // of double
HWY_INLINE hn::Vec<R> divided(R real, hn::Vec<R>& rest, hn::Vec<R> divisor) {
  const auto two = hn::Set(real, 0x1p52), one = hn::Set(real, 1.0), none = hn::Zero(real);
  auto quotient = hn::Sub(hn::Add(hn::Div(rest, divisor), two), two);  // by one too much or too little, maybe
  rest = hn::Sub(rest, hn::Mul(quotient, divisor));
  const auto over = hn::Lt(rest, none);
  quotient = hn::Sub(quotient, hn::IfThenElseZero(over, one));
  rest = hn::Add(rest, hn::IfThenElseZero(over, divisor));
  const auto under = hn::Ge(rest, divisor);
  quotient = hn::Add(quotient, hn::IfThenElseZero(under, one));
  rest = hn::Sub(rest, hn::IfThenElseZero(under, divisor));
  return quotient;
}

// The float next to a significand whose leading bit is `kLead`, without its sign; `more`: by how much its exponent is
// above that of the least normal number.
template <class F, int kLead, class D>
HWY_INLINE hn::Vec<D> nearest_of(D d, hn::Vec<D> significand, hn::Vec<hn::RebindToSigned<D>> more) {
  const hn::RebindToSigned<D> whole;
  const auto one = hn::Set(d, 1);
  const auto normal = hn::Max(more, hn::Zero(whole));
  const auto below = hn::Add(hn::Sub(normal, more), hn::Set(whole, kLead - F::kMantissa));
  const auto drop = hn::BitCast(d, hn::Min(below, hn::Set(whole, kLead + 2)));  // all of it: less than half a unit
  const auto half = hn::ShiftRight<1>(hn::Shl(one, drop));
  const auto even = hn::AndNot(hn::Shr(significand, drop), one);
  const auto cut = hn::Shr(hn::Add(significand, hn::Sub(half, even)), drop);
  // The leading bit, if the result is normal, is one more in the exponent; so is a carry.
  const auto finite = hn::Add(cut, hn::ShiftLeft<F::kMantissa>(hn::BitCast(d, normal)));
  const auto infinite = hn::Gt(normal, hn::Set(whole, F::kSpecial - 2));
  const auto infinity = hn::Set(d, uint64_t{F::kInfinity});
  return hn::IfThenElse(hn::RebindMask(d, infinite), infinity, finite);
}

// Rounds vectors of sums of one limb, by each_vector: what nearest() does. Where nothing is finite the result is of no
// meaning.
template <class F, bool kDivides>
struct NearestAt {
  unsigned char* to;
  const int64_t* sums;
  const typename F::Code* codes;
  uint64_t twos;  // the divisor is 2^twos * odd
  double odd;     // 1 unless kDivides

  template <class D>  // of uint64_t
  HWY_INLINE void operator()(D d, uint64_t i) const {
    const hn::RebindToSigned<D> whole;
    const hn::Rebind<typename F::Code, D> narrow;
    const auto sum = hn::LoadU(d, reinterpret_cast<const uint64_t*>(sums + i));
    const auto code = widened(d, hn::LoadU(narrow, codes + i));
    const auto sign = hn::ShiftRight<63>(sum), all = hn::Sub(hn::Zero(d), sign);
    const auto magnitude = hn::Sub(hn::Xor(sum, all), all);
    auto bits = normalised(d, magnitude);
    auto lowered = hn::Set(d, twos);  // the unit, in binary orders
    if constexpr (kDivides) {
      const auto lift = hn::And(hn::Sub(hn::Set(d, 1023 + 62), hn::ShiftRight<52>(bits)), hn::Set(d, 63));
      bits = normalised(d, quotient(d, hn::Shl(magnitude, lift)));
      lowered = hn::Add(lowered, lift);
    }

    constexpr int64_t above = -1023 - 1 - F::kMantissa - F::kBelow;
    const auto exponent = hn::Sub(hn::Add(hn::ShiftRight<52>(bits), code), lowered);
    const auto more = hn::Add(hn::BitCast(whole, exponent), hn::Set(whole, above));
    const auto mask = hn::Set(d, (uint64_t{1} << 52) - 1);
    const auto significand = hn::Or(hn::And(bits, mask), hn::Set(d, uint64_t{1} << 52));
    const auto bounded = nearest_of<F, 52>(d, significand, more);
    const auto with_sign = hn::Or(bounded, hn::ShiftLeft<8 * sizeof(typename F::Bits) - 1>(sign));
    const auto result = hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), with_sign);
    const auto minus_zero = hn::Eq(code, hn::Zero(d));
    const hn::Rebind<typename F::Bits, D> stored;
    hn::StoreU(hn::TruncateTo(stored, hn::IfThenElse(minus_zero, hn::Set(d, uint64_t{F::kSign}), result)), stored,
               reinterpret_cast<typename F::Bits*>(to + i * sizeof(typename F::Bits)));
  }

  template <class D, class V>
  static HWY_INLINE hn::Vec<D> widened(D d, V codes) {
    return hn::PromoteTo(d, hn::PromoteTo(hn::Rebind<uint32_t, D>(), codes));
  }
  // Of 2^62 and more: enough bits are left, and the last one stands for the remainder.
  template <class D>
  HWY_INLINE hn::Vec<D> quotient(D d, hn::Vec<D> dividend) const {
    const hn::RebindToFloat<D> real;
    const auto by = hn::Set(real, odd);
    auto rest = of_integer(d, hn::ShiftRight<32>(dividend));
    const auto upper = to_integer(d, divided(real, rest, by));
    const auto lower_half = of_integer(d, hn::And(dividend, hn::Set(d, 0xffffffff)));
    rest = hn::Add(hn::Mul(rest, hn::Set(real, 0x1p32)), lower_half);
    const auto lower = to_integer(d, divided(real, rest, by));
    const auto remains = hn::MaskFromVec(hn::BitCast(d, hn::VecFromMask(real, hn::Ne(rest, hn::Zero(real)))));
    return hn::Or(hn::Add(hn::ShiftLeft<32>(upper), lower), hn::IfThenElseZero(remains, hn::Set(d, 1)));
  }
};

// The same for sums of two limbs, divided by a power of two.
template <class F>
struct NearestOfPairsAt {
  unsigned char* to;
  const int64_t* sums;
  const typename F::Code* codes;
  uint64_t twos;

  template <class D>  // of uint64_t
  HWY_INLINE void operator()(D d, uint64_t i) const {
    const hn::RebindToSigned<D> whole;
    const auto code = hn::PromoteTo(
        d, hn::PromoteTo(hn::Rebind<uint32_t, D>(), hn::LoadU(hn::Rebind<typename F::Code, D>(), codes + i)));
    const auto mask = hn::Set(d, (uint64_t{1} << kLimbBits) - 1), zero = hn::Zero(d);
    hn::Vec<D> first, second;
    hn::LoadInterleaved2(d, reinterpret_cast<const uint64_t*>(sums + 2 * i), first, second);
    second = hn::Add(second, hn::BitCast(d, hn::ShiftRight<kLimbBits>(hn::BitCast(whole, first))));
    first = hn::And(first, mask);
    const auto sign = hn::ShiftRight<63>(second), all = hn::Sub(zero, sign);
    const auto borrows = hn::IfThenZeroElse(hn::Eq(first, zero), sign);
    const auto low = hn::And(hn::Sub(hn::Xor(first, all), all), mask);
    const auto high = hn::Sub(hn::Sub(hn::Xor(second, all), all), borrows);

    // One word of it, whose leading bit is 62; what is cut off shows in the last bit.
    const auto small = hn::Eq(high, zero);
    const auto word = hn::IfThenElse(small, low, high);
    const auto leading = hn::ShiftRight<52>(normalised(d, word));  // by 1023 too much
    const auto lift = hn::And(hn::Sub(hn::Set(d, 1023 + 62), leading), hn::Set(d, 63));
    const auto by = hn::Sub(hn::BitCast(whole, lift), hn::Set(whole, kLimbBits)), none = hn::Zero(whole);
    const auto up = hn::BitCast(d, hn::Max(by, none)), down = hn::BitCast(d, hn::Max(hn::Neg(by), none));
    const auto lost = hn::IfThenZeroElse(small, hn::AndNot(hn::Shl(hn::Set(d, ~uint64_t{0}), down), low));
    const auto rest = hn::IfThenZeroElse(small, hn::Shr(hn::Shl(low, up), down));
    const auto lifted = hn::Or(hn::Shl(word, lift), rest);
    const auto cut = hn::Or(lost, hn::And(lifted, hn::Set(d, 3)));
    const auto odd = hn::IfThenZeroElse(hn::Eq(cut, zero), hn::Set(d, 1));
    const auto significand = hn::Or(hn::ShiftRight<2>(lifted), odd);

    constexpr int64_t above = -1023 - 1 - F::kMantissa - F::kBelow;
    const auto limb = hn::IfThenZeroElse(small, hn::Set(d, kLimbBits));
    const auto exponent = hn::Sub(hn::Add(hn::Add(leading, limb), code), hn::Set(d, twos));
    const auto more = hn::Add(hn::BitCast(whole, exponent), hn::Set(whole, above));
    const auto with_sign = hn::Or(nearest_of<F, 60>(d, significand, more), hn::ShiftLeft<63>(sign));
    const auto result = hn::IfThenZeroElse(hn::Eq(hn::Or(low, high), zero), with_sign);
    hn::StoreU(hn::IfThenElse(hn::Eq(code, zero), hn::Set(d, F::kSign), result), d,
               reinterpret_cast<uint64_t*>(to + i * sizeof(uint64_t)));
  }
};

template <class F>
void round_vectors(void* to, const int64_t* sums, const void* codes_at, uint64_t floats, uint32_t divisor) {
  auto* const dst = static_cast<unsigned char*>(to);
  const auto* const codes = static_cast<const typename F::Code*>(codes_at);
  const int twos = std::countr_zero(divisor);
  const auto each = [&](auto nearest_at) { each_vector<Integer<uint64_t>>(nearest_at, 0, floats); };
  if constexpr (F::kLimbs == 2)
    each(NearestOfPairsAt<F>{dst, sums, codes, static_cast<uint64_t>(twos)});
  else if (const double odd = divisor >> twos; odd != 1)
    each(NearestAt<F, true>{dst, sums, codes, static_cast<uint64_t>(twos), odd});
  else
    each(NearestAt<F, false>{dst, sums, codes, static_cast<uint64_t>(twos), odd});
  for (uint64_t i = 0; i < floats; ++i) {
    if (codes[i] != F::kSpecial) continue;
    const auto result = result_of_kinds<F>(static_cast<uint64_t>(sums[i * F::kLimbs]));
    std::memcpy(dst + i * sizeof result, &result, sizeof result);
  }
}

template <class F>
void round(void* to, const int64_t* sums, const void* codes_at, uint64_t floats, uint32_t divisor) {
  using Wide = typename F::Wide;
  // What is left is float64 by a number that is no power of two.
  if (F::kLimbs == 1 || std::has_single_bit(divisor)) return round_vectors<F>(to, sums, codes_at, floats, divisor);
  auto* const dst = static_cast<unsigned char*>(to);
  const auto* const codes = static_cast<const typename F::Code*>(codes_at);
  for (uint64_t i = 0; i < floats; ++i) {
    const int code = codes[i];
    const int64_t* const limbs = sums + i * F::kLimbs;
    auto sum = static_cast<Wide>(limbs[0]);
    if constexpr (F::kLimbs == 2) sum += static_cast<Wide>(limbs[1]) << kLimbBits;
    const bool negative = sum >> (8 * sizeof(Wide) - 1) != 0;
    typename F::Bits result = 0;
    if (code == 0)
      result = F::kSign;
    else if (code == F::kSpecial)
      result = result_of_kinds<F>(static_cast<uint64_t>(limbs[0]));
    else if (sum != 0)
      result = static_cast<typename F::Bits>(
          nearest<F>(negate_if(sum, negative), code - 1 + F::kLeast - F::kMantissa - F::kBelow, divisor) |
          (negative ? F::kSign : 0));
    std::memcpy(dst + i * sizeof result, &result, sizeof result);
  }
}

template <class F>
ReproducibleSum sum_of(uint32_t parts) {
  return {parts,
          sizeof(typename F::Bits),
          sizeof(typename F::Code) == 1 ? hktUint8 : hktUint16,
          F::kLimbs,
          &classify<F>,
          &quantise<F>,
          &round<F>};
}

ReproducibleSum find_reproducible_sum(hktDataType_t type) {
  switch (type) {
    case hktFloat16:
      return sum_of<Half>(1);
    case hktBfloat16:
      return sum_of<Brain>(1);
    case hktFloat32:
      return sum_of<Single>(1);
    case hktFloat64:
      return sum_of<Double>(1);
    case hktComplex64:
      return sum_of<Single>(2);
    case hktComplex128:
      return sum_of<Double>(2);
    default:
      return {};
  }
}

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::kernels {

HWY_EXPORT(find_reproducible_sum);

ReproducibleSum reproducible_sum(hktDataType_t type) { return HWY_DYNAMIC_DISPATCH(find_reproducible_sum)(type); }

}  // namespace hocket::kernels
#endif  // HWY_ONCE
