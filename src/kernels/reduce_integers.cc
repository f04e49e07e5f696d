#include "kernels/targets.h"
// Highway compiles this file once per target: everything but the part under HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_integers.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include "hwy/highway.h"
#include "kernels/find_kernel.h"
#include "kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {

// Sums and products wrap alike for signed and unsigned integers, so they are computed with unsigned lanes.
template <class T>
Kernel integer_kernel(hktRedOp_t op) {
  using Unsigned = std::make_unsigned_t<T>;
  switch (op) {
    case hktSum:
    case hktAvg:
      return kernel<Integer<Unsigned>, Sum<T>>();
    case hktProd:
      return kernel<std::conditional_t<sizeof(T) == 1, WideByte, Integer<Unsigned>>, Prod>();
    case hktMin:
      return kernel<Integer<T>, Min>();
    case hktMax:
      return kernel<Integer<T>, Max>();
    default:
      return {};
  }
}

Kernel find_integer_kernel(hktDataType_t type, hktRedOp_t op) {
  switch (type) {
    case hktInt8:
      return integer_kernel<int8_t>(op);
    case hktUint8:
      return integer_kernel<uint8_t>(op);
    case hktInt16:
      return integer_kernel<int16_t>(op);
    case hktUint16:
      return integer_kernel<uint16_t>(op);
    case hktInt32:
      return integer_kernel<int32_t>(op);
    case hktUint32:
      return integer_kernel<uint32_t>(op);
    case hktInt64:
      return integer_kernel<int64_t>(op);
    case hktUint64:
      return integer_kernel<uint64_t>(op);
    default:
      return {};
  }
}

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::kernels {

HWY_EXPORT(find_integer_kernel);

Kernel integer_fold_kernel(hktDataType_t type, hktRedOp_t op) {
  return HWY_DYNAMIC_DISPATCH(find_integer_kernel)(type, op);
}

}  // namespace hocket::kernels
#endif  // HWY_ONCE
