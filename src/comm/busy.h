// Gate: who is at work on a communicator. One thread at a time, without a lock: a second one that calls is told, and
// one that only moves data along goes away. It outlives the communicator, for threads that still have it on their list.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace hocket {

class Outstanding;

class Gate {
 public:
  // For a call. False: another thread is in one, or the gate has been closed for good.
  bool enter() {
    uint8_t seen = kFree;
    if (state_.compare_exchange_strong(seen, kCall, std::memory_order_acquire, std::memory_order_relaxed)) [[likely]]
      return true;
    while (seen == kVisit) {  // it leaves soon: nothing in a visit blocks
      sched_yield();
      seen = kFree;
      if (state_.compare_exchange_strong(seen, kCall, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    }
    return false;
  }
  // To move data along, for as long as that takes. False: somebody is there already.
  bool visit() {
    uint8_t seen = kFree;
    return state_.compare_exchange_strong(seen, kVisit, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void leave() { state_.store(kFree, std::memory_order_release); }
  // By whoever has entered: nobody comes in any more.
  void close() { state_.store(kClosed, std::memory_order_release); }
  bool closed() const { return state_.load(std::memory_order_acquire) == kClosed; }

  // --- by whoever has entered or visits
  Outstanding* outstanding = nullptr;  // of the communicator; null: none yet, or it has been destroyed
  bool attended = false;               // the progress thread has it on its list

  // --- any thread
  std::atomic<const void*> thread{nullptr};  // the ThisThread whose waits move what is outstanding here
  std::atomic<uint32_t> grouped{0};          // calls in groups that are still open
  std::atomic<bool> destroyed{false};

 private:
  static constexpr uint8_t kFree = 0, kCall = 1, kVisit = 2, kClosed = 3;
  std::atomic<uint8_t> state_{kFree};
};

// Marks a communicator as in use for the time of a call.
class Busy {
 public:
  explicit Busy(Gate& gate) : gate_(gate), mine_(gate.enter()) {}
  ~Busy() {
    if (mine_) gate_.leave();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  bool mine() const { return mine_; }
  // No call will come after this one.
  void close() {
    gate_.close();
    mine_ = false;
  }

 private:
  Gate& gate_;
  bool mine_;
};

// The same for a visit.
class Visit {
 public:
  explicit Visit(Gate& gate) : gate_(gate), mine_(gate.visit()) {}
  ~Visit() {
    if (mine_) gate_.leave();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  bool mine() const { return mine_; }

 private:
  Gate& gate_;
  const bool mine_;
};

}  // namespace hocket
