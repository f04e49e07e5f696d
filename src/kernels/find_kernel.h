// The parts of fold_kernel, in files of their own because they take long to compile. Each is null for what others
// serve.
#pragma once

#include "kernels/reduce_cpu.h"

namespace hocket::kernels {

[[nodiscard]] Kernel integer_fold_kernel(hktDataType_t type, hktRedOp_t op);  // arithmetic of integers
[[nodiscard]] Kernel bits_fold_kernel(hktDataType_t type, hktRedOp_t op);     // of integers; all of bool
[[nodiscard]] Kernel float_fold_kernel(hktDataType_t type, hktRedOp_t op);    // 32 and 64 bits, and complex
[[nodiscard]] Kernel float16_fold_kernel(hktDataType_t type, hktRedOp_t op);
[[nodiscard]] Kernel float8_fold_kernel(hktDataType_t type, hktRedOp_t op);

}  // namespace hocket::kernels
