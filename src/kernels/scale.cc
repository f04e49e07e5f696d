#include "kernels/targets.h"
// Highway compiles this file once per target: everything but the part under HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/scale.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include "hwy/highway.h"
#include "kernels/fold-inl.h"
#include "kernels/reduce_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {

// Integers wrap alike with and without a sign.
ScaleFn find_scale_kernel(hktDataType_t type) {
  switch (type) {
    case hktInt8:
    case hktUint8:
      return &scale<WideByte, Prod>;
    case hktInt16:
    case hktUint16:
      return &scale<Integer<uint16_t>, Prod>;
    case hktInt32:
    case hktUint32:
      return &scale<Integer<uint32_t>, Prod>;
    case hktInt64:
    case hktUint64:
      return &scale<Integer<uint64_t>, Prod>;
    case hktFloat16:
      return &scale<Float16, Prod>;
    case hktBfloat16:
      return &scale<Bfloat16, Prod>;
    case hktFloat32:
      return &scale<Float<float>, Prod>;
    case hktFloat64:
      return &scale<Float<double>, Prod>;
    case hktFloat8e4m3:
      return &scale<Float8e4m3, Prod>;
    case hktFloat8e5m2:
      return &scale<Float8e5m2, Prod>;
    case hktBool:
      return &scale<Truth<uint8_t>, BitAnd>;
    case hktComplex64:
      return &scale<Complex<float>, ComplexProd>;
    case hktComplex128:
      return &scale<Complex<double>, ComplexProd>;
    default:
      return nullptr;
  }
}

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::kernels {

HWY_EXPORT(find_scale_kernel);

ScaleFn scale_kernel(hktDataType_t type) { return HWY_DYNAMIC_DISPATCH(find_scale_kernel)(type); }

}  // namespace hocket::kernels
#endif  // HWY_ONCE
