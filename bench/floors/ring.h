// One direction between two processes: a ring of slots in shared memory, written by one and read by the other.
//
// Several schemes use one RingMemory with slots of different sizes. Each calls resume() when it begins; all slots have
// been read by then, because a measurement ends with all ranks meeting.
#pragma once

#include <algorithm>

#include "team.h"

namespace floors {

constexpr size_t kRingBytes = size_t{4} << 20;

struct RingMemory {
  Flag filled;  // slots filled so far
  Flag freed;   // slots read so far
  alignas(128) std::byte slots[kRingBytes];
};

struct SlotShape {
  size_t bytes;
  uint32_t depth;

  float* slot(RingMemory* memory, uint32_t number) const {
    return reinterpret_cast<float*>(memory->slots + number % depth * bytes);
  }
};

class RingWriter {
 public:
  RingWriter(RingMemory* memory, SlotShape shape, bool crowded) : memory_(memory), shape_(shape), crowded_(crowded) {}

  void resume() {
    filled_ = memory_->filled.value.load(std::memory_order_relaxed);
    freed_ = memory_->freed.value.load(std::memory_order_acquire);
  }
  // The next slot, once it is free.
  float* begin() {
    if (filled_ - freed_ >= shape_.depth) {
      wait_for(memory_->freed.value, filled_ + 1 - shape_.depth, crowded_);
      freed_ = memory_->freed.value.load(std::memory_order_acquire);
    }
    return shape_.slot(memory_, filled_);
  }
  void end() { memory_->filled.value.store(++filled_, std::memory_order_release); }

 private:
  RingMemory* memory_;
  SlotShape shape_;
  bool crowded_;
  uint32_t filled_ = 0;
  uint32_t freed_ = 0;  // as last seen: the reader's line is looked at only when the ring seems full
};

class RingReader {
 public:
  RingReader(RingMemory* memory, SlotShape shape, bool crowded) : memory_(memory), shape_(shape), crowded_(crowded) {}

  void resume() { freed_ = memory_->freed.value.load(std::memory_order_relaxed); }
  // The next slot, once it is filled.
  const float* begin() {
    wait_for(memory_->filled.value, freed_ + 1, crowded_);
    return shape_.slot(memory_, freed_);
  }
  void end() { memory_->freed.value.store(++freed_, std::memory_order_release); }

 private:
  RingMemory* memory_;
  SlotShape shape_;
  bool crowded_;
  uint32_t freed_ = 0;
};

}  // namespace floors
