// How elements are stored and computed with, and the operations on them, for one SIMD target. Included once per target
// by fold-inl.h; needs HWY_BEFORE_NAMESPACE.
//
// An Element has
//   Stored  the type in memory,
//   Work    the type of a lane that is computed with,
//   load    as many elements as the tag D of Work has lanes, from any alignment,
//   pack    back to Stored; the one rounding of 16-bit floats.
// An operation has combine (two operands) and finish (once, on the folded value, before pack).
#if defined(HOCKET_KERNELS_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_KERNELS_ELEMENTS_INL_H_
#undef HOCKET_KERNELS_ELEMENTS_INL_H_
#else
#define HOCKET_KERNELS_ELEMENTS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <limits>
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

struct Float16 {
  using Stored = uint16_t;
  using Work = float;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // these targets convert in hardware, with the rounding of pack below
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint16_t* p) {
    const auto bits = hn::LoadU(hn::Rebind<uint16_t, D>(), p);
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  }
  template <class D>
  static HWY_INLINE VecAs<uint16_t, D> pack(D, hn::Vec<D> v) {
    return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
  }
#else
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint16_t* p) {
    const hn::Rebind<int32_t, D> di;
    const auto bits = hn::PromoteTo(di, hn::LoadU(hn::Rebind<uint16_t, D>(), p));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(di, 0x8000)));
    const auto abs = hn::And(bits, hn::Set(di, 0x7fff));
    const auto moved = hn::ShiftLeft<13>(abs);  // exponent and mantissa at their place, the bias still that of 16 bits
    const auto normal = hn::Add(moved, hn::Set(di, (127 - 15) << 23));
    const auto infinite_or_nan = hn::Or(moved, hn::Set(di, 0xff << 23));
    const auto subnormal = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, abs), hn::Set(d, 0x1p-24F)));
    const auto finite = hn::IfThenElse(hn::Lt(abs, hn::Set(di, 1 << 10)), subnormal, normal);
    const auto value = hn::IfThenElse(hn::Lt(abs, hn::Set(di, 0x1f << 10)), finite, infinite_or_nan);
    return hn::BitCast(d, hn::Or(value, sign));
  }
  template <class D>
  static HWY_INLINE VecAs<uint16_t, D> pack(D d, hn::Vec<D> v) {
    const hn::Rebind<int32_t, D> di;
    const hn::Rebind<uint32_t, D> du;
    const auto sign = hn::And(hn::BitCast(di, hn::ShiftRight<16>(hn::BitCast(du, v))), hn::Set(di, 0x8000));
    const auto abs = hn::And(hn::BitCast(di, v), hn::Set(di, 0x7fffffff));
    // Adding half a unit, less a bit if the result would be odd otherwise; carries run into the exponent up to
    // infinity.
    const auto odd = hn::And(hn::ShiftRight<13>(abs), hn::Set(di, 1));
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(abs, hn::Set(di, 0xfff - ((127 - 15) << 23))), odd));
    // The unit of 16-bit subnormals is the last bit of 0.5F: the addition rounds.
    const auto half = hn::Set(d, 0.5F);
    const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, abs), half)), hn::BitCast(di, half));
    const auto nan_or_infinite =
        hn::IfThenElse(hn::Gt(abs, hn::Set(di, 0xff << 23)), hn::Set(di, 0x7e00), hn::Set(di, 0x7c00));
    const auto finite = hn::IfThenElse(hn::Lt(abs, hn::Set(di, (127 - 14) << 23)), subnormal, normal);
    const auto value = hn::IfThenElse(hn::Lt(abs, hn::Set(di, (127 + 16) << 23)), finite, nan_or_infinite);
    return hn::DemoteTo(hn::Rebind<uint16_t, D>(), hn::Or(value, sign));
  }
#endif
};

// ---- Operations

// Which NaN an addition returns depends on the order of its operands, which compilers swap: return always the same.
template <class D>
HWY_INLINE hn::Vec<D> one_nan(D d, hn::Vec<D> v) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_floating_point_v<T>) {
    return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, std::numeric_limits<T>::quiet_NaN()), v);
  } else {
    return v;
  }
}

// Lanes of unsigned integers are divided as values of type T, which may be signed and of the same size.
template <class T, class D>
HWY_NOINLINE hn::Vec<D> divide_lanes(D d, hn::Vec<D> v, uint32_t divisor) {
  using Lane = hn::TFromD<D>;
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  HWY_ALIGN Lane lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  for (Lane& lane : lanes)
    lane = static_cast<Lane>(static_cast<Wide>(static_cast<T>(lane)) / static_cast<Wide>(divisor));
  return hn::Load(d, lanes);
}

// T: the type of the elements as the user sees them, for the division.
template <class T>
struct Sum {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::Add(a, b);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> finish(D d, hn::Vec<D> v, uint32_t divisor) {
    if (divisor > 1) {
      if constexpr (std::is_floating_point_v<T>) {
        v = hn::Div(v, hn::Set(d, static_cast<T>(divisor)));
      } else {
        v = divide_lanes<T>(d, v, divisor);
      }
    }
    return one_nan(d, v);
  }
};

struct WithoutDivision {
  template <class D>
  static HWY_INLINE hn::Vec<D> finish(D d, hn::Vec<D> v, uint32_t /*divisor*/) {
    return one_nan(d, v);
  }
};

struct Prod : WithoutDivision {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::Mul(a, b);
  }
};

// Highway leaves open what Min and Max of floats do with NaN and zeros of both signs.
struct Min : WithoutDivision {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      // Neither is less: equal values have equal bits except zeros, whose signs Or joins; a NaN stays one whatever is
      // joined.
      const auto joined = hn::Or(a, b);
      return hn::IfThenElse(hn::Lt(a, b), a, hn::IfThenElse(hn::Lt(b, a), b, joined));
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Max : WithoutDivision {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D d, hn::Vec<D> a, hn::Vec<D> b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      return hn::Neg(Min::combine(d, hn::Neg(a), hn::Neg(b)));
    } else {
      return hn::Max(a, b);
    }
  }
};

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_KERNELS_ELEMENTS_INL_H_
