// Compiled once per instruction set, with FLOORS_ISA naming the namespace. Includes nothing whose inline functions
// could leak out of here compiled for the wrong processor.
#include <cstddef>

#include "kernels.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace floors {
namespace FLOORS_ISA {
namespace {

constexpr size_t kLane = 16;  // floats in a cache line, the unit of every loop

typedef float Line __attribute__((vector_size(64), aligned(4), may_alias));

inline void store_past(float* out, const Line& line) {
#if defined(__AVX512F__)
  _mm512_stream_ps(out, reinterpret_cast<const __m512&>(line));
#elif defined(__AVX__)
  const float* from = reinterpret_cast<const float*>(&line);
  _mm256_stream_ps(out, _mm256_loadu_ps(from));
  _mm256_stream_ps(out + 8, _mm256_loadu_ps(from + 8));
#elif defined(__x86_64__)
  const float* from = reinterpret_cast<const float*>(&line);
  for (int i = 0; i < 16; i += 4) _mm_stream_ps(out + i, _mm_loadu_ps(from + i));
#else
  *reinterpret_cast<Line*>(out) = line;
#endif
}

template <Store how>
inline void store(float* out, const Line& line) {
  if (how == kPast) {
    store_past(out, line);
  } else {
    *reinterpret_cast<Line*>(out) = line;
  }
}

inline const Line& load(const float* in) { return *reinterpret_cast<const Line*>(in); }

void copy_past(float* out, const float* in, size_t count) {
  size_t i = 0;
  for (; i + kLane <= count; i += kLane) store_past(out + i, load(in + i));
  for (; i < count; i++) out[i] = in[i];
}

template <Store how>
void add(float* out, const float* a, const float* b, size_t count) {
  size_t i = 0;
  for (; i + kLane <= count; i += kLane) store<how>(out + i, load(a + i) + load(b + i));
  for (; i < count; i++) out[i] = a[i] + b[i];
}

template <Store how, Store how_second>
void add_twice(float* out, float* second, const float* a, const float* b, size_t count) {
  size_t i = 0;
  for (; i + kLane <= count; i += kLane) {
    const Line sum = load(a + i) + load(b + i);
    store<how>(out + i, sum);
    store<how_second>(second + i, sum);
  }
  for (; i < count; i++) out[i] = second[i] = a[i] + b[i];
}

template <Store how>
void sum(float* out, const float* const* in, int operands, size_t count) {
  size_t i = 0;
  for (; i + kLane <= count; i += kLane) {
    Line total = load(in[0] + i) + load(in[1] + i);
    for (int k = 2; k < operands; k++) total += load(in[k] + i);
    store<how>(out + i, total);
  }
  for (; i < count; i++) {
    float total = in[0][i];
    for (int k = 1; k < operands; k++) total += in[k][i];
    out[i] = total;
  }
}

void fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace

extern const Kernels table;
const Kernels table = {
    FLOORS_ISA_NAME,
    copy_past,
    {add<kCached>, add<kPast>},
    {{add_twice<kCached, kCached>, add_twice<kCached, kPast>}, {add_twice<kPast, kCached>, add_twice<kPast, kPast>}},
    {sum<kCached>, sum<kPast>},
    fence};

}  // namespace FLOORS_ISA
}  // namespace floors
