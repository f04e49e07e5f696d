// Reductions and copies on host memory: SIMD kernels whose instruction set is chosen at run time.
//
// All functions are pure: any thread, no allocation, no lock, no errors. Results do not depend on the instruction set,
// the alignment, the kind of stores, the position of an element or on which operand `dst` is:
// - operands are folded in the order src[0], src[1], ... without reassociation or fused multiply-add;
// - integers wrap; 8-bit and 16-bit floats are folded in 32 bits and rounded once (to nearest, ties to even);
// - 8-bit floats saturate: a result that is too large or infinite becomes the largest finite number of its sign. An
//   infinite operand of hktFloat8e5m2 is infinity in the fold: inf - inf is NaN, min(inf, 1) is 1;
// - min and max return NaN if any operand is NaN, and order -0 below +0;
// - a NaN result is always the same one (positive, quiet, payload 0; hktFloat8e4m3: 0x7f, hktFloat8e5m2: 0x7e), so a op
//   b and b op a have the same bits, always;
// - complex products are (ac - bd) + (ad + bc)i with each operation rounded, also for infinities (C's annex G mends
//   those), and each part that is NaN is the one NaN;
// - bool: nonzero is true, results are 0 and 1; sum, max and the ors are or; prod, min and the ands are and;
// - logical operations of integers: nonzero is true, results are 0 and 1.
// A fold over one operand without a divisor is a copy of its bits, whatever the operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hocket/hocket.h"

namespace hocket::kernels {

// streaming: non-temporal stores, which keep the destination out of the caches. The bytes are visible to other threads
// under the usual rules when the function has returned (it fences). What is not aligned to a cache line at either end
// of the destination is stored normally, and so are all of a destination that is not aligned to its elements, and the
// folds that arithmetic bounds rather than memory.
enum class Stores : uint8_t { temporal, streaming };

// dst[i] = fold over k < nsrc of src[k][i], for i < elems; nsrc >= 1. Any alignment. `dst` may be equal to any of the
// src pointers; no other overlap. `divisor` > 1 (hktSum and hktAvg, not of bool): the result, both parts if it is
// complex, is divided by it before the one rounding of 8-bit and 16-bit floats; integers are divided after the wrapping
// sum, towards zero. 1: no division.
using FoldFn = void (*)(void* dst, const void* const* src, uint32_t nsrc, uint64_t elems, uint32_t divisor);

struct Kernel {
  FoldFn temporal = nullptr;
  FoldFn streaming = nullptr;
};

// The kernels of a type and operation for this processor: look them up once, keep them, call them without further
// dispatch. Both null exactly where unsupported() of base/types.h says why. hktAvg is hktSum: the caller passes the
// divisor.
[[nodiscard]] Kernel fold_kernel(hktDataType_t type, hktRedOp_t op);

// dst[i] = scalar * src[i] for i < elems, in the rules above: complex numbers are multiplied as such, bool is and.
// `scalar` points to one element. Any alignment; `dst` may be equal to `src`; no other overlap. Normal stores.
using ScaleFn = void (*)(void* dst, const void* src, uint64_t elems, const void* scalar);

// Looked up and kept as a fold's. Null for what is no type.
[[nodiscard]] ScaleFn scale_kernel(hktDataType_t type);

// memcpy with the choice of stores. Any alignment; no overlap.
void copy(void* dst, const void* src, uint64_t bytes, Stores stores);
// copy() with streaming stores in two halves, for many pieces: flush() makes visible, before any later store, what
// stream() has written.
void stream(void* dst, const void* src, uint64_t bytes);
void flush();

// The instruction set that fold_kernel and copy use, by Highway's name ("AVX2", "NEON").
[[nodiscard]] const char* simd_target();

}  // namespace hocket::kernels
