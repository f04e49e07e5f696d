// Link: one end of a FIFO of messages from one rank to another. Whatever carries the messages, both ends see a ring of
// slots in memory: shared memory between processes of a host, private memory with a Pump between the two ends
// elsewhere. So the engine has one inlined hot path and no virtual call.
//
// Contract
// - The producer's end is used by one thread (push_*), the consumer's end by one thread (pop_*). Nothing here blocks;
// false
//   means "would block". Once push_ready or pop_ready has said true it stays true until that message is pushed or
//   popped.
// - A message has at most slot_bytes() bytes; its length is known to both ends from the plan and is not carried.
// - What was written to push_begin()'s memory before push() is visible to whoever saw pop_ready() true for that
// message.
// - The memory of pop_begin() is the consumer's until pop(); the producer reuses a slot only after the credit came
// back.
// - tag = signature (32 bits: which call) | sequence (32 bits: which message of the link). pop_ready compares it whole;
// after
//   a false, pop_mismatch() tells "not there yet" from "a message of another call".
// - Credit is published every ack_batch pops, so a producer may count on depth - ack_batch + 1 messages in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "transport/doorbell.h"

namespace hocket {

// The ring in memory: [credit line][pad][slot 0][slot 1]...; a slot is a header line and the payload after it.
struct RingGeometry {
  static constexpr uint32_t kHeader = 64;  // bytes: tag, then up to kInline bytes of payload
  static constexpr uint32_t kInline = 56;  // a message of at most so many bytes travels in the header line
  static constexpr uint32_t kFirstSlot = 128;
  uint32_t depth = 8;                // slots, a power of two
  uint32_t slot_bytes = 128 * 1024;  // payload capacity, a multiple of 64
  uint32_t ack_batch = 4;            // in [1, depth]
  // The extra lines keep the headers of neighbouring slots out of the same cache set.
  constexpr uint32_t stride() const { return kHeader + slot_bytes + 128; }
  constexpr uint64_t bytes() const { return kFirstSlot + uint64_t{depth} * stride(); }
  friend bool operator==(const RingGeometry&, const RingGeometry&) = default;
};

class Link;

// Moves messages of links whose two ends are in different memories. Called by the rank's own thread only.
class Pump {
 public:
  virtual ~Pump() = default;
  // A message was pushed on `link` (producer's end) or credit published (consumer's end). May do I/O, never blocks.
  // `lent`: where the payload is, null if in the slot; see Link::lend().
  virtual void pushed(Link& link, uint32_t bytes, const void* lent) = 0;
  virtual void popped(Link& link) = 0;
};

class Link {
 public:
  struct Setup {
    unsigned char* ring = nullptr;  // zeroed before first use, geometry.bytes() long, 64-byte aligned
    RingGeometry geometry;
    Doorbell* far_bell = nullptr;  // of the rank at the other end; null: nobody sleeps on this memory
    Fence fence = Fence::full;
    Pump* pump = nullptr;  // null: the far end sees the ring itself
    uint32_t id = 0;       // the pump's name for this link
    bool lends = false;    // the pump can send a payload from anywhere
  };
  Link() = default;
  explicit Link(const Setup& s)
      : slots_(s.ring + RingGeometry::kFirstSlot),
        credit_(reinterpret_cast<std::atomic<uint64_t>*>(s.ring)),
        bell_(s.far_bell),
        pump_(s.pump),
        stride_(s.geometry.stride()),
        mask_(s.geometry.depth - 1),
        slot_bytes_(s.geometry.slot_bytes),
        ack_batch_(s.geometry.ack_batch),
        id_(s.id),
        fence_(s.fence),
        lends_(s.lends) {}

  // --- producer
  bool push_ready() {
    if (count_ < limit_) [[likely]]
      return true;
    limit_ =
        credit_->load(std::memory_order_acquire) + mask_ + 1;  // acquire: the consumer has finished reading the slot
    return count_ < limit_;
  }
  // Where to write the payload of the next message.
  unsigned char* push_begin(uint64_t bytes) const {
    unsigned char* slot = slots_ + (count_ & mask_) * stride_;
    return slot + (bytes <= RingGeometry::kInline ? sizeof(uint64_t) : RingGeometry::kHeader);
  }
  void push(uint64_t bytes, uint32_t signature) { publish(bytes, signature, nullptr); }
  // Instead of push_begin() and push(), if lends(): the payload stays where it is and must not change until the
  // transport is flushed or has been told to reclaim(). Saves a copy.
  bool lends() const { return lends_; }
  void lend(const void* payload, uint64_t bytes, uint32_t signature) { publish(bytes, signature, payload); }

  // --- consumer
  bool pop_ready(uint32_t signature) const {
    return header()->load(std::memory_order_acquire) == (uint64_t{signature} << 32 | static_cast<uint32_t>(count_ + 1));
  }
  // The next message is there but belongs to a call with another signature: returned in *theirs.
  bool pop_mismatch(uint32_t signature, uint32_t* theirs) const {
    const uint64_t tag = header()->load(std::memory_order_acquire);
    *theirs = static_cast<uint32_t>(tag >> 32);
    return static_cast<uint32_t>(tag) == static_cast<uint32_t>(count_ + 1) && *theirs != signature;
  }
  const unsigned char* pop_begin(uint64_t bytes) const {
    const unsigned char* slot = slots_ + (count_ & mask_) * stride_;
    return slot + (bytes <= RingGeometry::kInline ? sizeof(uint64_t) : RingGeometry::kHeader);
  }
  void pop() {
    ++count_;
    if (count_ - limit_ < ack_batch_) return;
    limit_ = count_;
    credit_->store(count_, std::memory_order_release);  // release: our reads of the slots are done
    if (bell_ != nullptr) bell_->ring(fence_);
    if (pump_ != nullptr) [[unlikely]]
      pump_->popped(*this);
  }

  uint32_t slot_bytes() const { return slot_bytes_; }
  uint64_t count() const { return count_; }  // messages pushed (producer) or popped (consumer) so far
  uint32_t id() const { return id_; }
  bool valid() const { return credit_ != nullptr; }

 private:
  friend struct LinkTestAccess;  // tests reach the wrap of the sequence without 2^32 messages
  void publish(uint64_t bytes, uint32_t signature, const void* lent) {
    auto* header = reinterpret_cast<std::atomic<uint64_t>*>(slots_ + (count_ & mask_) * stride_);
    ++count_;
    // Release: the payload is visible to whoever sees the tag.
    header->store(uint64_t{signature} << 32 | static_cast<uint32_t>(count_), std::memory_order_release);
    if (bell_ != nullptr) bell_->ring(fence_);
    if (pump_ != nullptr) [[unlikely]]
      pump_->pushed(*this, static_cast<uint32_t>(bytes), lent);
  }

  const std::atomic<uint64_t>* header() const {
    return reinterpret_cast<const std::atomic<uint64_t>*>(slots_ + (count_ & mask_) * stride_);
  }

  unsigned char* slots_ = nullptr;
  std::atomic<uint64_t>* credit_ = nullptr;  // messages the consumer has done with, as published
  uint64_t count_ = 0;
  uint64_t limit_ = 0;  // producer: may push while count_ < limit_; consumer: credit published so far
  Doorbell* bell_ = nullptr;
  Pump* pump_ = nullptr;
  uint32_t stride_ = 0, mask_ = 0, slot_bytes_ = 0, ack_batch_ = 0, id_ = 0;
  Fence fence_ = Fence::full;
  bool lends_ = false;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8);

}  // namespace hocket
