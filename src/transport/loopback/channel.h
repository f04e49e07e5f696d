// Channel: the memory of one loopback link, and the pump between its two rings when faults are injected. Internal.
#pragma once

#include <cstdint>
#include <deque>
#include <random>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "transport/link.h"
#include "transport/loopback/loopback_transport.h"

namespace hocket::loopback {

// Anonymous memory, zeroed, touched only where it is used. Default-made: none.
class RingMemory {
 public:
  RingMemory() = default;
  static Result<RingMemory> make(const RingGeometry& geometry);
  RingMemory(RingMemory&& other) noexcept;
  RingMemory& operator=(RingMemory&&) = delete;
  ~RingMemory();
  unsigned char* data() const { return data_; }
  std::atomic<uint64_t>& word(uint64_t offset) const {
    return *reinterpret_cast<std::atomic<uint64_t>*>(data_ + offset);
  }

 private:
  RingMemory(unsigned char* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  unsigned char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

class Channel {
 public:
  struct Ends {
    Doorbell* from;  // of the producing rank
    Doorbell* to;    // of the consuming rank
  };
  // Plain: one ring. With faults: `seed` is this link's own.
  static Result<std::shared_ptr<Channel>> make(const RingGeometry& geometry, Ends ends,
                                               const std::optional<Faults>& faults, uint64_t seed);

  bool pumped() const { return memory_.far.data() != nullptr; }
  unsigned char* send_ring() const { return memory_.near.data(); }
  unsigned char* recv_ring() const { return pumped() ? memory_.far.data() : memory_.near.data(); }
  Doorbell* from_bell() const { return ends_.from; }
  Doorbell* to_bell() const { return ends_.to; }

  // Pumped only. The number of the message and its bytes; the producer's thread.
  void pushed(uint64_t number, uint32_t bytes) HKT_EXCLUDES(mutex_);
  // Messages popped so far; the consumer's thread.
  void popped(uint64_t count) HKT_EXCLUDES(mutex_);
  bool deliver() HKT_EXCLUDES(mutex_);  // what is due; either end
  bool empty() const HKT_EXCLUDES(mutex_);
  void drop_next() HKT_EXCLUDES(mutex_);
  void cut() HKT_EXCLUDES(mutex_);  // nothing passes from now on

 private:
  struct Message {
    uint64_t number;  // from 0
    uint32_t bytes;
    int64_t due_ns;
  };
  struct Memory {
    RingMemory near;  // the producer's ring, or the only one
    RingMemory far;   // the consumer's when there is a pump
  };
  Channel(const RingGeometry& geometry, Ends ends, Memory memory, const std::optional<Faults>& faults);
  void copy(const Message& message) HKT_REQUIRES(mutex_);

  const RingGeometry geometry_;
  const Ends ends_;
  const Memory memory_;
  const Faults faults_;
  mutable Mutex mutex_;
  std::deque<Message> under_way_ HKT_GUARDED_BY(mutex_);
  std::mt19937_64 random_ HKT_GUARDED_BY(mutex_);
  bool drop_next_ HKT_GUARDED_BY(mutex_) = false;
  bool cut_ HKT_GUARDED_BY(mutex_) = false;
};

}  // namespace hocket::loopback
