// Turn: mutual exclusion between a communicator's own thread, which takes it at every step, and the rare other thread
// that raises a fault. First come, first served, so the rare thread is never starved by a polling one; without
// contention it costs one atomic addition and no system call. Held only across calls that do not block.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "base/thread_annotations.h"

namespace hocket::tcp {

class HKT_CAPABILITY("turn") Turn {
 public:
  void lock() HKT_ACQUIRE() {
    const uint32_t mine = next_.fetch_add(1, std::memory_order_relaxed);
    while (now_.load(std::memory_order_acquire) != mine) sched_yield();
  }
  // Only the holder writes now_.
  void unlock() HKT_RELEASE() { now_.store(now_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

 private:
  std::atomic<uint32_t> next_{0}, now_{0};
};

class HKT_SCOPED_CAPABILITY TurnLock {
 public:
  explicit TurnLock(Turn& turn) HKT_ACQUIRE(turn) : turn_(turn) { turn_.lock(); }
  ~TurnLock() HKT_RELEASE() { turn_.unlock(); }
  TurnLock(const TurnLock&) = delete;
  TurnLock& operator=(const TurnLock&) = delete;

 private:
  Turn& turn_;
};

}  // namespace hocket::tcp
