// Doorbell: how a rank that sleeps is woken by whoever makes progress for it. One per rank, in memory that all its
// peers map.
//
// Sleeper (the rank's own thread): arm(); look at every condition once more; sleep() or disarm().
// Ringer (any peer, after its release store): ring(). It costs a plain load when nobody sleeps.
// Between the ringer's store and its load of `sleeping` a StoreLoad barrier is needed. On the hot path it would stall
// the producer until its store has drained, so the sleeper pays for both sides with membarrier(2) (`Fence::asymmetric`,
// when every process of the communicator has registered); else the ringer fences (`Fence::full`).
#pragma once

#include <atomic>
#include <cstdint>

namespace hocket {

enum class Fence : uint8_t { asymmetric, full };

struct alignas(64) Doorbell {
  std::atomic<uint32_t> word{0};      // futex; changes with every ring of a sleeper
  std::atomic<uint32_t> sleeping{0};  // 1 from arm() to disarm()

  void ring(Fence fence) {
    if (fence == Fence::full)
      std::atomic_thread_fence(std::memory_order_seq_cst);  // orders the slot's tag before the load below
    else
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the sleeper's membarrier does the rest
    if (sleeping.load(std::memory_order_relaxed) != 0) wake();
  }

  uint32_t arm(Fence fence);                       // returns what sleep() takes
  void sleep(uint32_t armed, int64_t timeout_ns);  // returns at once if rung since arm(); spurious returns allowed
  void disarm() { sleeping.store(0, std::memory_order_relaxed); }
  void wake();
};
static_assert(sizeof(Doorbell) == 64 && std::atomic<uint32_t>::is_always_lock_free);

// Registers this process for asymmetric fences. False: the kernel has none, use Fence::full everywhere.
bool register_asymmetric_fence();

}  // namespace hocket
