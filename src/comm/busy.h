// Busy: marks a communicator as in use by one thread for the time of a call. Without a lock: the second one is told.
#pragma once

#include <atomic>

namespace hocket {

class Busy {
 public:
  explicit Busy(std::atomic_flag& flag) : flag_(flag), mine_(!flag.test_and_set(std::memory_order_acquire)) {}
  ~Busy() {
    if (mine_) flag_.clear(std::memory_order_release);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  bool mine() const { return mine_; }
  // The communicator stays in use for good: no call will come after this one.
  void keep() { mine_ = false; }

 private:
  std::atomic_flag& flag_;
  bool mine_;
};

}  // namespace hocket
