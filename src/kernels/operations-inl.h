// The operations on elements, for one SIMD target. Included once per target by fold-inl.h.
//
// An operation has combine (two operands) and finish (once, on the folded value, before it is packed).
#if defined(HOCKET_KERNELS_OPERATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_KERNELS_OPERATIONS_INL_H_
#undef HOCKET_KERNELS_OPERATIONS_INL_H_
#else
#define HOCKET_KERNELS_OPERATIONS_INL_H_
#endif

#include <cstdint>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

struct BitAnd : WithoutDivision {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::And(a, b);
  }
};

struct BitOr : WithoutDivision {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::Or(a, b);
  }
};

struct BitXor : WithoutDivision {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> b) {
    return hn::Xor(a, b);
  }
};

// (a + bi)(c + di) = (ac - bd) + (ad + bc)i. The same bits when the operands are swapped: each of its sums and products
// gives them.
struct ComplexProd {
  template <class D>
  static HWY_INLINE ComplexVec<D> combine(D, ComplexVec<D> x, ComplexVec<D> y) {
    return {hn::Sub(hn::Mul(x.re, y.re), hn::Mul(x.im, y.im)), hn::Add(hn::Mul(x.re, y.im), hn::Mul(x.im, y.re))};
  }
  template <class D>
  static HWY_INLINE ComplexVec<D> finish(D d, ComplexVec<D> v, uint32_t /*divisor*/) {
    return {one_nan(d, v.re), one_nan(d, v.im)};
  }
};

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_KERNELS_OPERATIONS_INL_H_
