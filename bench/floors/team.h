// What the processes of a floor share: their ranks, one region of memory, flags in it, and how to wait for a flag.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace floors {

constexpr size_t kLine = 64;
constexpr size_t kRegionBytes = size_t{512} << 20;  // reserved, not used: pages are touched as schemes need them

// A counter in a cache line of its own, written by one rank, read by others.
struct alignas(kLine) Flag {
  std::atomic<uint32_t> value;
};

// One rank of a floor. Every rank takes the same blocks from the region in the same order, so that they agree on
// addresses; blocks are zero-filled, 128-byte aligned (neighbouring lines are fetched in pairs), and never given back.
class Team {
 public:
  Team(int my_rank, int how_many, int cpus, void* shared)
      : rank(my_rank),
        ranks(how_many),
        crowded(how_many > cpus),
        at_(static_cast<std::byte*>(shared)),
        end_(at_ + kRegionBytes) {}

  template <class T>
  T* take(size_t count = 1) {
    const size_t bytes = (count * sizeof(T) + 127) / 128 * 128;
    if (bytes > static_cast<size_t>(end_ - at_)) {
      std::fprintf(stderr, "floors: the shared region of %zu bytes is too small\n", kRegionBytes);
      std::abort();
    }
    void* block = at_;
    at_ += bytes;
    return static_cast<T*>(block);
  }

  const int rank;
  const int ranks;
  const bool crowded;  // more ranks than CPUs: who waits gives the CPU away

 private:
  std::byte* at_;
  std::byte* end_;
};

// Returns when `flag` has reached `target` (counters wrap). No pause instruction: it delays the answer.
inline void wait_for(const std::atomic<uint32_t>& flag, uint32_t target, bool crowded) {
  const unsigned patience = crowded ? 32 : 100000;
  unsigned polls = 0;
  while (static_cast<int32_t>(flag.load(std::memory_order_acquire) - target) < 0) {
    if (++polls > patience) sched_yield();
  }
}

}  // namespace floors
