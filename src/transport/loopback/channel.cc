#include "transport/loopback/channel.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/deadline.h"

namespace hocket::loopback {

Result<RingMemory> RingMemory::make(const RingGeometry& geometry) {
  const uint64_t bytes = geometry.bytes();
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return sys_error("loopback: cannot map a ring of %llu bytes", static_cast<unsigned long long>(bytes));
  return RingMemory(static_cast<unsigned char*>(data), bytes);
}

RingMemory::RingMemory(RingMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

RingMemory::~RingMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Channel::Channel(const RingGeometry& geometry, Ends ends, Memory memory, const std::optional<Faults>& faults)
    : geometry_(geometry), ends_(ends), memory_(std::move(memory)), faults_(faults.value_or(Faults{})) {}

Result<std::shared_ptr<Channel>> Channel::make(const RingGeometry& geometry, Ends ends,
                                               const std::optional<Faults>& faults, uint64_t seed) {
  HKT_ASSIGN(RingMemory near, RingMemory::make(geometry));
  if (!faults) return std::shared_ptr<Channel>(new Channel(geometry, ends, {std::move(near), RingMemory()}, faults));
  HKT_ASSIGN(RingMemory far, RingMemory::make(geometry));
  std::shared_ptr<Channel> channel(new Channel(geometry, ends, {std::move(near), std::move(far)}, faults));
  MutexLock lock(channel->mutex_);
  channel->random_.seed(seed);
  return channel;
}

void Channel::pushed(uint64_t number, uint32_t bytes) {
  {
    MutexLock lock(mutex_);
    // Both numbers are drawn for every message: a link's n-th message fares the same whatever happened to others.
    const bool lost = random_() % 1'000'000 < faults_.drop_per_million;
    const auto delay = static_cast<int64_t>(random_() % (static_cast<uint64_t>(faults_.max_delay_ns) + 1));
    if (lost || std::exchange(drop_next_, false)) return;
    const int64_t due = now_ns() + delay;
    // Never before the one ahead of it: a link is a FIFO.
    under_way_.push_back({number, bytes, under_way_.empty() ? due : std::max(due, under_way_.back().due_ns)});
  }
  deliver();
}

void Channel::popped(uint64_t count) {
  MutexLock lock(mutex_);
  if (cut_) return;
  // Release: the consumer has finished reading, and we with copying.
  memory_.near.word(0).store(count, std::memory_order_release);
  ends_.from->ring(Fence::full);
}

bool Channel::deliver() {
  MutexLock lock(mutex_);
  bool moved = false;
  while (!cut_ && !under_way_.empty() && (faults_.max_delay_ns == 0 || under_way_.front().due_ns <= now_ns())) {
    copy(under_way_.front());
    under_way_.pop_front();
    moved = true;
  }
  if (moved) ends_.to->ring(Fence::full);
  return moved;
}

void Channel::copy(const Message& message) {
  const uint64_t slot = RingGeometry::kFirstSlot + (message.number & (geometry_.depth - 1)) * geometry_.stride();
  const uint64_t payload = slot + (message.bytes <= RingGeometry::kInline ? sizeof(uint64_t) : RingGeometry::kHeader);
  std::memcpy(memory_.far.data() + payload, memory_.near.data() + payload, message.bytes);
  const uint64_t tag = memory_.near.word(slot).load(std::memory_order_relaxed);  // our lock orders it after the push
  memory_.far.word(slot).store(tag, std::memory_order_release);
}

bool Channel::empty() const {
  MutexLock lock(mutex_);
  return under_way_.empty();
}

void Channel::drop_next() {
  MutexLock lock(mutex_);
  drop_next_ = true;
}

void Channel::cut() {
  MutexLock lock(mutex_);
  cut_ = true;
}

}  // namespace hocket::loopback
