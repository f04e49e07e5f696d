// Copy and add loops of the floors, compiled for several instruction sets and chosen once at run time.
#pragma once

#include <cstddef>

namespace floors {

// How a destination is written: through the cache, or past it. After `past` the caller fences (fence()) before it
// tells anybody about the data.
enum Store { kCached = 0, kPast = 1 };

// Destinations written `past` the cache are 64-byte aligned; everything else has any alignment. No overlap.
struct Kernels {
  const char* name;
  void (*copy_past)(float* out, const float* in, size_t count);
  void (*add[2])(float* out, const float* a, const float* b, size_t count);
  // The sum goes to two places: [how `out` is written][how `second` is].
  void (*add_twice[2][2])(float* out, float* second, const float* a, const float* b, size_t count);
  // Sum of `operands` (>= 2) inputs.
  void (*sum[2])(float* out, const float* const* in, int operands, size_t count);
  void (*fence)();
};

// The fastest set that this processor has.
const Kernels& kernels();

void copy(float* out, const float* in, size_t count, Store how);

}  // namespace floors
