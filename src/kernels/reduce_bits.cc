#include "kernels/targets.h"
// Highway compiles this file once per target: everything but the part under HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_bits.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include "hwy/highway.h"
#include "kernels/find_kernel.h"
#include "kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {

// Bits are combined as bytes, whatever the size of the elements.
template <size_t kSize>
Kernel integer_kernel(hktRedOp_t op) {
  using Byte = Integer<uint8_t>;
  using Logical = Truth<hwy::UnsignedFromSize<kSize>>;
  switch (op) {
    case hktBitAnd:
      return kernel<Byte, BitAnd, kSize>();
    case hktBitOr:
      return kernel<Byte, BitOr, kSize>();
    case hktBitXor:
      return kernel<Byte, BitXor, kSize>();
    case hktLogicalAnd:
      return temporal_kernel<Logical, BitAnd>();
    case hktLogicalOr:
      return temporal_kernel<Logical, BitOr>();
    case hktLogicalXor:
      return temporal_kernel<Logical, BitXor>();
    default:
      return {};
  }
}

Kernel bool_kernel(hktRedOp_t op) {
  switch (op) {
    case hktProd:
    case hktMin:
    case hktBitAnd:
    case hktLogicalAnd:
      return integer_kernel<1>(hktLogicalAnd);
    case hktSum:
    case hktMax:
    case hktBitOr:
    case hktLogicalOr:
      return integer_kernel<1>(hktLogicalOr);
    case hktBitXor:
    case hktLogicalXor:
      return integer_kernel<1>(hktLogicalXor);
    default:
      return {};
  }
}

Kernel find_bits_kernel(hktDataType_t type, hktRedOp_t op) {
  switch (type) {
    case hktInt8:
    case hktUint8:
      return integer_kernel<1>(op);
    case hktInt16:
    case hktUint16:
      return integer_kernel<2>(op);
    case hktInt32:
    case hktUint32:
      return integer_kernel<4>(op);
    case hktInt64:
    case hktUint64:
      return integer_kernel<8>(op);
    case hktBool:
      return bool_kernel(op);
    default:
      return {};
  }
}

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::kernels {

HWY_EXPORT(find_bits_kernel);

Kernel bits_fold_kernel(hktDataType_t type, hktRedOp_t op) { return HWY_DYNAMIC_DISPATCH(find_bits_kernel)(type, op); }

}  // namespace hocket::kernels
#endif  // HWY_ONCE
