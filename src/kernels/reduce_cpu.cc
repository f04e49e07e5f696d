#include "kernels/targets.h"
// Highway compiles this file once per target: everything but the part under HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_cpu.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include <cstring>

#include "hwy/highway.h"
#include "kernels/find_kernel.h"
#include "kernels/fold-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::kernels::HWY_NAMESPACE {

void stream_copy(void* dst, const void* src, uint64_t bytes) {
  uint8_t* to = static_cast<uint8_t*>(dst);
  const uint8_t* from = static_cast<const uint8_t*>(src);
  const hn::ScalableTag<uint8_t> d;
  constexpr size_t n = hn::MaxLanes(d);
  const uint64_t head = bytes_to_line(to) < bytes ? bytes_to_line(to) : bytes;
  std::memcpy(to, from, head);
  uint64_t i = head;
  for (; bytes - i >= kVectors * n; i += kVectors * n) {
    const auto v0 = hn::LoadU(d, from + i);
    const auto v1 = hn::LoadU(d, from + i + n);
    const auto v2 = hn::LoadU(d, from + i + 2 * n);
    const auto v3 = hn::LoadU(d, from + i + 3 * n);
    store<Integer<uint8_t>, Stores::streaming>(d, v0, to + i);
    store<Integer<uint8_t>, Stores::streaming>(d, v1, to + i + n);
    store<Integer<uint8_t>, Stores::streaming>(d, v2, to + i + 2 * n);
    store<Integer<uint8_t>, Stores::streaming>(d, v3, to + i + 3 * n);
  }
  std::memcpy(to + i, from + i, bytes - i);
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace hocket::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::kernels {

HWY_EXPORT(stream_copy);
HWY_EXPORT(target_name);

Kernel fold_kernel(hktDataType_t type, hktRedOp_t op) {
  for (const auto find :
       {integer_fold_kernel, bits_fold_kernel, float_fold_kernel, float16_fold_kernel, float8_fold_kernel}) {
    if (const Kernel found = find(type, op); found.temporal != nullptr) return found;
  }
  return {};
}

const char* simd_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

void copy(void* dst, const void* src, uint64_t bytes, Stores stores) {
  if (bytes == 0) return;  // memcpy takes no null pointers
  if (stores == Stores::temporal) {
    std::memcpy(dst, src, bytes);
    return;
  }
  stream(dst, src, bytes);
  flush();
}

void stream(void* dst, const void* src, uint64_t bytes) {
  if (bytes != 0) HWY_DYNAMIC_DISPATCH(stream_copy)(dst, src, bytes);
}

// As in fold_blocks: a flag stored after the copy must not overtake it.
void flush() { hwy::FlushStream(); }

}  // namespace hocket::kernels
#endif  // HWY_ONCE
