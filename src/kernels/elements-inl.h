// How elements are stored and computed with, for one SIMD target. Included once per target by fold-inl.h.
//
// An Element has
//   Stored  the type in memory,
//   Work    the type of a lane that is computed with,
//   load    as many elements as the tag D of Work has lanes, from any alignment,
//   pack    back to Stored (Complex: store); the one rounding of 8-bit and 16-bit floats.
#if defined(HOCKET_KERNELS_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_KERNELS_ELEMENTS_INL_H_
#undef HOCKET_KERNELS_ELEMENTS_INL_H_
#else
#define HOCKET_KERNELS_ELEMENTS_INL_H_
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, class D>
using VecAs = hn::Vec<hn::Rebind<T, D>>;  // as many lanes as D has, of another type

// ---- Elements

template <class T>
struct Integer {
  using Stored = T;
  using Work = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* p) {
    return hn::LoadU(d, p);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> pack(D, hn::Vec<D> v) {
    return v;
  }
};

// Loaded and stored as the integers of the same size: for a single float, compilers' headers read through a float
// pointer, which must be aligned.
template <class T>
struct Float {
  using Stored = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using Work = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Stored* p) {
    return hn::BitCast(d, hn::LoadU(hn::Rebind<Stored, D>(), p));
  }
  template <class D>
  static HWY_INLINE VecAs<Stored, D> pack(D, hn::Vec<D> v) {
    return hn::BitCast(hn::Rebind<Stored, D>(), v);
  }
};

// 8-bit products: no instruction set multiplies bytes. The low 8 bits of a 16-bit product are those of the wrapping
// 8-bit one.
struct WideByte {
  using Stored = uint8_t;
  using Work = uint16_t;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint8_t* p) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint8_t, D>(), p));
  }
  template <class D>
  static HWY_INLINE VecAs<uint8_t, D> pack(D d, hn::Vec<D> v) {
    // DemoteTo saturates, hence the mask.
    return hn::DemoteTo(hn::Rebind<uint8_t, D>(), hn::BitCast(hn::Rebind<int16_t, D>(), hn::And(v, hn::Set(d, 0xff))));
  }
};

struct Bfloat16 {
  using Stored = uint16_t;
  using Work = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint16_t* p) {
    const hn::Rebind<uint32_t, D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(hn::Rebind<uint16_t, D>(), p))));
  }
  // Adds half a unit, less a bit if the result would be odd otherwise. `v` is no NaN but the one of finish, which
  // cannot carry into the exponent.
  template <class D>
  static HWY_INLINE VecAs<uint16_t, D> pack(D, hn::Vec<D> v) {
    const hn::Rebind<uint32_t, D> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff))));
    return hn::DemoteTo(hn::Rebind<uint16_t, D>(), hn::BitCast(hn::Rebind<int32_t, D>(), rounded));
  }
};

// The float formats of 8 and 16 bits that are taken apart by arithmetic: a sign, then the exponent, then kMantissa
// bits. kSpecial  the first code (without the sign) that is no finite number, kTooLarge what a larger result becomes:
// infinity, or the largest finite number in formats that saturate, kNan      the only NaN that is stored.
struct HalfFormat {
  using Stored = uint16_t;
  static constexpr int kMantissa = 10, kExponent = 5;
  static constexpr int kSpecial = 0x7c00, kTooLarge = 0x7c00, kNan = 0x7e00;
};
struct E4m3Format {
  using Stored = uint8_t;
  static constexpr int kMantissa = 3, kExponent = 4;
  static constexpr int kSpecial = 0x7f, kTooLarge = 0x7e, kNan = 0x7f;
};
struct E5m2Format {
  using Stored = uint8_t;
  static constexpr int kMantissa = 2, kExponent = 5;
  static constexpr int kSpecial = 0x7c, kTooLarge = 0x7b, kNan = 0x7e;
};

template <class Format>
struct NarrowFloat {
  using Stored = typename Format::Stored;
  using Work = float;
  static constexpr int kSign = 1 << (8 * sizeof(Stored) - 1);
  static constexpr int kToSign = 32 - 8 * static_cast<int>(sizeof(Stored));  // from this sign to that of a float
  static constexpr int kToMantissa = 23 - Format::kMantissa;                 // the same for the other bits
  static constexpr int kBias = (1 << (Format::kExponent - 1)) - 1;
  // The bits of the float 2^n.
  static constexpr int power_of_two(int n) { return (127 + n) << 23; }
  // The unit of subnormals is 2^kUnit.
  static constexpr int kUnit = 1 - kBias - Format::kMantissa;

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const Stored* p) {
    const hn::Rebind<int32_t, D> di;
    const auto bits = hn::PromoteTo(di, hn::LoadU(hn::Rebind<Stored, D>(), p));
    const auto sign = hn::ShiftLeft<kToSign>(hn::And(bits, hn::Set(di, kSign)));
    const auto abs = hn::And(bits, hn::Set(di, kSign - 1));
    const auto moved = hn::ShiftLeft<kToMantissa>(abs);  // all at their place, the bias still that of Format
    const auto normal = hn::Add(moved, hn::Set(di, (127 - kBias) << 23));
    const auto infinite_or_nan = hn::Or(moved, hn::Set(di, 0xff << 23));
    const auto unit = hn::BitCast(d, hn::Set(di, power_of_two(kUnit)));
    const auto subnormal = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, abs), unit));
    const auto finite = hn::IfThenElse(hn::Lt(abs, hn::Set(di, 1 << Format::kMantissa)), subnormal, normal);
    const auto value = hn::IfThenElse(hn::Lt(abs, hn::Set(di, Format::kSpecial)), finite, infinite_or_nan);
    return hn::BitCast(d, hn::Or(value, sign));
  }
  template <class D>
  static HWY_INLINE VecAs<Stored, D> pack(D d, hn::Vec<D> v) {
    const hn::Rebind<int32_t, D> di;
    const hn::Rebind<uint32_t, D> du;
    const auto sign = hn::And(hn::BitCast(di, hn::ShiftRight<kToSign>(hn::BitCast(du, v))), hn::Set(di, kSign));
    const auto abs = hn::And(hn::BitCast(di, v), hn::Set(di, 0x7fffffff));
    // Adding half a unit, less a bit if the result would be odd otherwise; carries run into the exponent.
    const auto odd = hn::And(hn::ShiftRight<kToMantissa>(abs), hn::Set(di, 1));
    constexpr int half_unit = (1 << (kToMantissa - 1)) - 1;
    const auto moved = hn::Add(hn::Add(abs, hn::Set(di, half_unit - ((127 - kBias) << 23))), odd);
    const auto normal = hn::Min(hn::ShiftRight<kToMantissa>(moved), hn::Set(di, Format::kTooLarge));
    // The last bit of this float is the unit of subnormals: the addition rounds.
    const auto ruler = hn::Set(di, power_of_two(kUnit + 23));
    const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, abs), hn::BitCast(d, ruler))), ruler);
    const auto number = hn::IfThenElse(hn::Lt(abs, hn::Set(di, power_of_two(1 - kBias))), subnormal, normal);
    const auto value = hn::IfThenElse(hn::Gt(abs, hn::Set(di, 0xff << 23)), hn::Set(di, Format::kNan), number);
    return hn::DemoteTo(hn::Rebind<Stored, D>(), hn::Or(value, sign));
  }
};

using Float8e4m3 = NarrowFloat<E4m3Format>;
using Float8e5m2 = NarrowFloat<E5m2Format>;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // these targets convert in hardware, with the rounding of NarrowFloat
struct Float16 {
  using Stored = uint16_t;
  using Work = float;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint16_t* p) {
    const auto bits = hn::LoadU(hn::Rebind<uint16_t, D>(), p);
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  }
  template <class D>
  static HWY_INLINE VecAs<uint16_t, D> pack(D, hn::Vec<D> v) {
    return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
  }
};
#else
using Float16 = NarrowFloat<HalfFormat>;
#endif

// Zero is false, the rest is true; computed with and stored as 0 and 1.
template <class T>
struct Truth {
  using Stored = T;
  using Work = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* p) {
    return hn::IfThenZeroElse(hn::Eq(hn::LoadU(d, p), hn::Zero(d)), hn::Set(d, T{1}));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> pack(D, hn::Vec<D> v) {
    return v;
  }
};

// Complex numbers: their real parts in one vector, their imaginary parts in another. The same bits as lanes, for the
// reason given at Float.
template <class D>
struct ComplexVec {
  hn::Vec<D> re, im;
};

template <class T>
struct Complex {
  using Part = typename Float<T>::Stored;
  using Stored = std::array<Part, 2>;
  using Work = T;
  template <class D>
  static HWY_INLINE ComplexVec<D> load(D d, const Stored* p) {
    const hn::Rebind<Part, D> bits;
    hn::Vec<decltype(bits)> re, im;
    hn::LoadInterleaved2(bits, reinterpret_cast<const Part*>(p), re, im);
    return {hn::BitCast(d, re), hn::BitCast(d, im)};
  }
  template <class D>
  static HWY_INLINE void store(D, ComplexVec<D> v, Stored* p) {
    const hn::Rebind<Part, D> bits;
    hn::StoreInterleaved2(hn::BitCast(bits, v.re), hn::BitCast(bits, v.im), bits, reinterpret_cast<Part*>(p));
  }
};

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_KERNELS_ELEMENTS_INL_H_
