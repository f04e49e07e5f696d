// Folds and copies: of every type and operation in the first-level cache; of some far beyond the last one, beside the
// floor's add of as many bytes, in turn.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "comm/operations.h"
#include "floors/kernels.h"
#include "hocket/hocket.h"
#include "instructions.h"
#include "kernels/reduce_cpu.h"
#include "parts.h"

namespace hocket::bench {
namespace {

constexpr uint64_t kNear = 8 * 1024;  // bytes of an operand

struct alignas(64) Line {
  unsigned char bytes[64];
};

// Of a type that is one.
size_t size_of(hktDataType_t type) { return std::max<size_t>(type_size(type), 1); }

void fold_near(benchmark::State& state, hktDataType_t type, kernels::FoldFn fold) {
  std::vector<Line> a(kNear / sizeof(Line)), b(a.size()), out(a.size());
  const std::array<const void*, 2> src{a.data(), b.data()};
  measure(state, [&] {
    fold(out.data(), src.data(), 2, kNear / size_of(type), 1);
    benchmark::ClobberMemory();
  });
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * 3 * kNear);
}

// Three arrays that together are four times the last-level cache.
class Far {
 public:
  static constexpr size_t kArrays = 3;
  Far() {
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    bytes_ = (4 * static_cast<uint64_t>(std::max(cache, 32L << 20)) / kArrays + kPage - 1) / kPage * kPage;
    for (float*& a : arrays_) {
      void* const p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) return;
      (void)madvise(p, bytes_, MADV_HUGEPAGE);
      std::memset(p, 0, bytes_);
      a = static_cast<float*>(p);
    }
  }
  ~Far() {
    for (float* const a : arrays_)
      if (a != nullptr) munmap(a, bytes_);
  }
  Far(const Far&) = delete;
  Far& operator=(const Far&) = delete;
  bool good() const { return arrays_.back() != nullptr; }
  float* operator[](size_t i) const { return arrays_[i]; }
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kPage = 2 << 20;
  uint64_t bytes_ = 0;
  std::array<float*, kArrays> arrays_{};
};

template <class Body>
double seconds(const Body& body) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// Each iteration runs the floor in both ways of storing, and the kernel, one after the other; `of_floor` is the median
// of the ratios to the floor's faster way of the same iteration.
void fold_far(benchmark::State& state, hktDataType_t type) {
  const Far far;
  if (!far.good()) return state.SkipWithError("there is not enough memory");
  const kernels::Kernel fold = kernels::fold_kernel(type, hktSum);
  const std::array<const void*, 2> src{far[0], far[1]};
  const auto floor = [&](floors::Store how) {
    return seconds([&] {
      floors::kernels().add[how](far[2], far[0], far[1], far.bytes() / sizeof(float));
      floors::kernels().fence();
    });
  };
  const auto bytes = static_cast<double>(3 * far.bytes());
  std::vector<double> ratio, past, cached, streaming, temporal;
  for (auto _ : state) {
    past.push_back(floor(floors::kPast));
    streaming.push_back(seconds([&] { fold.streaming(far[2], src.data(), 2, far.bytes() / size_of(type), 1); }));
    cached.push_back(floor(floors::kCached));
    temporal.push_back(seconds([&] { fold.temporal(far[2], src.data(), 2, far.bytes() / size_of(type), 1); }));
    ratio.push_back(std::min(past.back(), cached.back()) / std::min(streaming.back(), temporal.back()));
    state.SetIterationTime(streaming.back());
  }
  for (const auto& [name, times] : {std::pair("floor_past", &past), std::pair("floor_cached", &cached),
                                    std::pair("streaming", &streaming), std::pair("temporal", &temporal)})
    state.counters[std::string(name) + "_GBps"] = bytes / median(*times) * 1e-9;
  state.counters["of_floor"] = median(ratio);
}

}  // namespace

void add_kernels() {
  for (const hktDataType_t type : kAllTypes) {
    for (const hktRedOp_t op : kAllOps) {
      const kernels::Kernel kernel = kernels::fold_kernel(type, op);
      if (kernel.temporal == nullptr || op == hktAvg) continue;
      const std::string name = "fold/" + std::string(type_name(type)) + "/" + operation_name(static_cast<uint32_t>(op));
      benchmark::RegisterBenchmark(
          name.c_str(), [type, kernel](benchmark::State& state) { fold_near(state, type, kernel.temporal); });
    }
  }
  for (const hktDataType_t type : {hktFloat32, hktBfloat16, hktFloat16, hktInt32})
    benchmark::RegisterBenchmark(("fold_far/" + std::string(type_name(type)) + "/sum").c_str(),
                                 [type](benchmark::State& state) { fold_far(state, type); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(9);
}

}  // namespace hocket::bench
