// ForkGuard: tells a forked child from its parent with one load and no system call: a page that the kernel zeroes in
// children.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "base/result.h"

namespace hocket {

class ForkGuard {
 public:
  static Result<ForkGuard> create() {
    const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return sys_error("mmap of %zu bytes", size);
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
      Error e = sys_error("madvise(MADV_WIPEONFORK); Linux 4.14 or newer is needed");
      munmap(page, size);
      return e;
    }
    ForkGuard guard;
    guard.mark_ = static_cast<volatile int*>(page);
    *guard.mark_ = 1;
    return guard;
  }
  ForkGuard(ForkGuard&& other) noexcept : mark_(std::exchange(other.mark_, nullptr)) {}
  ForkGuard& operator=(ForkGuard&& other) noexcept {
    std::swap(mark_, other.mark_);
    return *this;
  }
  ~ForkGuard() {
    if (mark_ != nullptr) munmap(const_cast<int*>(mark_), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  }
  bool in_child() const { return *mark_ == 0; }

 private:
  ForkGuard() = default;
  volatile int* mark_ = nullptr;  // volatile: the kernel changes it
};

}  // namespace hocket
