#include "kernels/targets.h"
// Highway compiles this file once per target: everything but the part under HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_float8.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include "hwy/highway.h"
#include "kernels/find_kernel.h"
#include "kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {

Kernel find_float8_kernel(hktDataType_t type, hktRedOp_t op) {
  switch (type) {
    case hktFloat8e4m3:
      return float_kernel<Float8e4m3>(op);
    case hktFloat8e5m2:
      return float_kernel<Float8e5m2>(op);
    default:
      return {};
  }
}

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::kernels {

HWY_EXPORT(find_float8_kernel);

Kernel float8_fold_kernel(hktDataType_t type, hktRedOp_t op) {
  return HWY_DYNAMIC_DISPATCH(find_float8_kernel)(type, op);
}

}  // namespace hocket::kernels
#endif  // HWY_ONCE
