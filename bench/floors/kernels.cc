#include "kernels.h"

#include <cstring>

namespace floors {

namespace base {
extern const Kernels table;
}
#if defined(FLOORS_X86)
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#endif

const Kernels& kernels() {
#if defined(FLOORS_X86)
  static const Kernels& best = __builtin_cpu_supports("avx512f") ? avx512::table
                               : __builtin_cpu_supports("avx2")  ? avx2::table
                                                                 : base::table;
  return best;
#else
  return base::table;
#endif
}

void copy(float* out, const float* in, size_t count, Store how) {
  if (how == kPast) {
    kernels().copy_past(out, in, count);
    kernels().fence();
  } else {
    std::memcpy(out, in, count * sizeof(float));
  }
}

}  // namespace floors
