// The halves of fold_kernel, in files of their own because they take long to compile. Both null for types of the other
// half.
#pragma once

#include "kernels/reduce_cpu.h"

namespace hocket::kernels {

[[nodiscard]] Kernel integer_fold_kernel(hktDataType_t type, hktRedOp_t op);
[[nodiscard]] Kernel float_fold_kernel(hktDataType_t type, hktRedOp_t op);

}  // namespace hocket::kernels
