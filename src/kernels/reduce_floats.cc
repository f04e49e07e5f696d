#include "kernels/targets.h"
// Highway compiles this file once per target: everything but the part under HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_floats.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include "hwy/highway.h"
#include "kernels/find_kernel.h"
#include "kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {

// Sums of complex numbers are sums of their parts.
template <class T>
Kernel complex_kernel(hktRedOp_t op) {
  switch (op) {
    case hktSum:
    case hktAvg:
      return kernel<Float<T>, Sum<T>, 2>();
    case hktProd:
      return temporal_kernel<Complex<T>, ComplexProd>();
    default:
      return {};
  }
}

Kernel find_float_kernel(hktDataType_t type, hktRedOp_t op) {
  switch (type) {
    case hktFloat32:
      return float_kernel<Float<float>>(op);
    case hktFloat64:
      return float_kernel<Float<double>>(op);
    case hktComplex64:
      return complex_kernel<float>(op);
    case hktComplex128:
      return complex_kernel<double>(op);
    default:
      return {};
  }
}

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::kernels {

HWY_EXPORT(find_float_kernel);

Kernel float_fold_kernel(hktDataType_t type, hktRedOp_t op) {
  return HWY_DYNAMIC_DISPATCH(find_float_kernel)(type, op);
}

}  // namespace hocket::kernels
#endif  // HWY_ONCE
