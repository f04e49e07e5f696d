// Reductions and copies on host memory: SIMD kernels whose instruction set is chosen at run time.
//
// All functions are pure: any thread, no allocation, no lock, no errors. Results do not depend on the instruction set,
// the alignment, the kind of stores, the position of an element or on which operand `dst` is:
// - operands are folded in the order src[0], src[1], ... without reassociation or fused multiply-add;
// - integers wrap; 16-bit floats are folded in 32 bits and rounded once (to nearest, ties to even);
// - min and max return NaN if any operand is NaN, and order -0 below +0;
// - a NaN result is always the same one (positive, quiet, payload 0), so a op b and b op a have the same bits, always.
// A fold over one operand without a divisor is a copy of its bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hocket/hocket.h"

namespace hocket::kernels {

// streaming: non-temporal stores, which keep the destination out of the caches. The bytes are visible to other threads
// under the usual rules when the function has returned (it fences). What is not aligned to a cache line at either end
// of the destination is stored normally, and so is all of a destination that is not aligned to its elements.
enum class Stores : uint8_t { temporal, streaming };

// dst[i] = fold over k < nsrc of src[k][i], for i < elems; nsrc >= 1. Any alignment. `dst` may be equal to any of the
// src pointers; no other overlap. `divisor` > 1 (hktSum and hktAvg only): the result is divided by it before the one
// rounding of 16-bit floats; integers are divided after the wrapping sum, towards zero. 1: no division.
using FoldFn = void (*)(void* dst, const void* const* src, uint32_t nsrc, uint64_t elems, uint32_t divisor);

struct Kernel {
  FoldFn temporal = nullptr;
  FoldFn streaming = nullptr;
};

// The kernels of a type and operation for this processor: look them up once, keep them, call them without further
// dispatch. Never null for valid types and operations, both null for others. hktAvg is hktSum: the caller passes the
// divisor.
[[nodiscard]] Kernel fold_kernel(hktDataType_t type, hktRedOp_t op);

// memcpy with the choice of stores. Any alignment; no overlap.
void copy(void* dst, const void* src, uint64_t bytes, Stores stores);

// The instruction set that fold_kernel and copy use, by Highway's name ("AVX2", "NEON").
[[nodiscard]] const char* simd_target();

}  // namespace hocket::kernels
