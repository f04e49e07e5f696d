#include "transport/doorbell.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace hocket {

bool register_asymmetric_fence() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

uint32_t Doorbell::arm(Fence fence) {
  const uint32_t armed = word.load(std::memory_order_relaxed);
  sleeping.store(1, std::memory_order_relaxed);
  // Our store must be visible before we look at the conditions again, and every ringer's earlier store must be visible
  // to us or its later load must see `sleeping`.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (fence == Fence::asymmetric) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  return armed;
}

void Doorbell::sleep(uint32_t armed, int64_t timeout_ns) {
  timespec t{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  // Not FUTEX_PRIVATE: the ringer may be another process.
  syscall(SYS_futex, &word, FUTEX_WAIT, armed, &t, nullptr, 0);
}

void Doorbell::wake() {
  word.fetch_add(1, std::memory_order_relaxed);
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace hocket
