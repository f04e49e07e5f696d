#include "kernels/targets.h"
// Highway compiles this file once per target: everything but the part under HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_float16.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include "hwy/highway.h"
#include "kernels/find_kernel.h"
#include "kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {

Kernel find_float16_kernel(hktDataType_t type, hktRedOp_t op) {
  switch (type) {
    case hktFloat16:
      return float_kernel<Float16>(op);
    case hktBfloat16:
      return float_kernel<Bfloat16>(op);
    default:
      return {};
  }
}

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::kernels {

HWY_EXPORT(find_float16_kernel);

Kernel float16_fold_kernel(hktDataType_t type, hktRedOp_t op) {
  return HWY_DYNAMIC_DISPATCH(find_float16_kernel)(type, op);
}

}  // namespace hocket::kernels
#endif  // HWY_ONCE
