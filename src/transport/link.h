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
// - A message of kMapFrom bytes and more need not lie in its slot, where both ends can reach registered memory
//   (transport/regions.h): push_at() says where it lies instead, and pop_begin() returns that. In the producer's memory
//   it must not change until passed(); in the consumer's, it was written to where granted() allows.
// - Nor need it where the consumer can read the producer's memory, if readable() says so. One that fetched() names has
//   no place in the consumer's memory: it takes what it needs with fetch().
// - Credit is published every ack_batch pops, so a producer may count on depth - ack_batch + 1 messages in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "transport/cma.h"
#include "transport/doorbell.h"
#include "transport/regions.h"

namespace hocket {

// The ring in memory: [credit line][pad][slot 0][slot 1]...; a slot is a header line and the payload after it. The
// credit line is the consumer's: credit, grant, which call the grant is for.
struct RingGeometry {
  static constexpr uint32_t kHeader = 64;  // bytes: tag, then up to kInline bytes of payload, or the message's place
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
    // Where the registered memory of the far end and of this rank is in this process; null: neither reaches the
    // other's.
    const RegionBases* theirs = nullptr;
    const RegionBases* own = nullptr;
    uint32_t far = 0;  // rank of the far end
    // Process of the far end, if each end can read the other's memory: kThisProcess needs no system call for it.
    int32_t process = kUnreadable;
  };
  static constexpr int32_t kUnreadable = 0, kThisProcess = -1;
  // From so many bytes on a message may lie elsewhere than in its slot.
  static constexpr uint64_t kMapFrom = 4096;
  Link() = default;
  explicit Link(const Setup& s)
      : slots_(s.ring + RingGeometry::kFirstSlot),
        credit_(reinterpret_cast<std::atomic<uint64_t>*>(s.ring)),
        bell_(s.far_bell),
        pump_(s.pump),
        theirs_(s.theirs),
        own_(s.own),
        stride_(s.geometry.stride()),
        mask_(s.geometry.depth - 1),
        slot_bytes_(s.geometry.slot_bytes),
        ack_batch_(s.geometry.ack_batch),
        id_(s.id),
        far_(s.far),
        process_(s.process),
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

  // Instead of push_begin() and push(), if the message has kMapFrom bytes or more: it lies at `place`.
  void push_at(MessagePlace place, uint64_t bytes, uint32_t signature) {
    place_of(count_) = place.bits();
    if (place.stays()) unpassed_ = count_ + 1;
    seal(bytes, signature, nullptr);
  }
  // The far end can reach what lies in this region.
  bool reaches(const Region& region) const { return theirs_ != nullptr && region.mapped[far_] != 0; }
  // The far end can read all of this rank's memory.
  bool readable() const { return process_ != kUnreadable; }
  // Messages that were pushed from this rank's memory have all been read.
  bool passed() const { return unpassed_ == 0 || credit_->load(std::memory_order_acquire) >= unpassed_; }
  // A call begins that may write into the far end's output, if that grants it before its first message.
  void expect_grant(uint32_t signature) { grant_tag_ = grant_tag(signature); }
  // Where the far end's output begins, no place if it has not said so: and where that is in this process.
  MessagePlace granted() const {
    // Acquire: the place was written before.
    if (theirs_ == nullptr || grant_line()[2].load(std::memory_order_acquire) != grant_tag_) return {};
    return MessagePlace(grant_line()[1].load(std::memory_order_relaxed));
  }
  unsigned char* at(MessagePlace place) const { return place.in(*theirs_); }

  // --- consumer
  // Before the first message of a call: the producer may write to where it should go, `region` at `offset` being the
  // output's first byte.
  void grant(const Region& region, uint64_t offset, uint32_t signature) {
    if (!reaches(region)) return;
    grant_line()[1].store(MessagePlace(MessagePlace::Of::consumer, region.name, offset).bits(),
                          std::memory_order_relaxed);
    // Release: the place is visible to whoever sees that it is for this call, which begins with this message.
    grant_line()[2].store(grant_tag(signature), std::memory_order_release);
  }
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
    if (bytes >= kMapFrom && theirs_ != nullptr) [[unlikely]] {
      if (const MessagePlace place(place_of(count_)); place) {
        if (place.of() == MessagePlace::Of::unmapped) return reinterpret_cast<const unsigned char*>(place.address());
        return place.in(place.of() == MessagePlace::Of::producer ? *theirs_ : *own_);
      }
    }
    const unsigned char* slot = slots_ + (count_ & mask_) * stride_;
    return slot + (bytes <= RingGeometry::kInline ? sizeof(uint64_t) : RingGeometry::kHeader);
  }
  // The next message lies in the producer's memory.
  bool stays(uint64_t bytes) const {
    return bytes >= kMapFrom && theirs_ != nullptr && MessagePlace(place_of(count_)).stays();
  }
  // What pop_begin() returns for the next message is an address in the far end's process.
  bool fetched(uint64_t bytes) const {
    return bytes >= kMapFrom && process_ > 0 && MessagePlace(place_of(count_)).of() == MessagePlace::Of::unmapped;
  }
  // Copies from there. Throws ReadError.
  void fetch(void* to, const unsigned char* from, uint64_t bytes) const {
    read_process({static_cast<int>(far_), process_}, to, reinterpret_cast<uint64_t>(from), bytes);
  }
  void pop() {
    ++count_;
    if (count_ - limit_ < ack_batch_) return;
    publish_credit();
  }
  // The same for a message of `bytes` that may lie in the producer's memory, who then waits for it to be read.
  void pop(uint64_t bytes) {
    const bool awaited = stays(bytes);
    ++count_;
    if (awaited || count_ - limit_ >= ack_batch_) publish_credit();
  }

  uint32_t slot_bytes() const { return slot_bytes_; }
  uint64_t count() const { return count_; }  // messages pushed (producer) or popped (consumer) so far
  uint32_t id() const { return id_; }
  bool valid() const { return credit_ != nullptr; }

 private:
  friend struct LinkTestAccess;  // tests reach the wrap of the sequence without 2^32 messages
  void publish_credit() {
    limit_ = count_;
    credit_->store(count_, std::memory_order_release);  // release: our reads of the slots are done
    if (bell_ != nullptr) bell_->ring(fence_);
    if (pump_ != nullptr) [[unlikely]]
      pump_->popped(*this);
  }
  void publish(uint64_t bytes, uint32_t signature, const void* lent) {
    if (bytes >= kMapFrom && theirs_ != nullptr) [[unlikely]]
      place_of(count_) = 0;
    seal(bytes, signature, lent);
  }
  void seal(uint64_t bytes, uint32_t signature, const void* lent) {
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

  // In the header of the slot of message `count`, where small messages have their payload.
  uint64_t& place_of(uint64_t count) const {
    return *reinterpret_cast<uint64_t*>(slots_ + (count & mask_) * stride_ + sizeof(uint64_t));
  }
  std::atomic<uint64_t>* grant_line() const { return credit_; }
  // Which call, and with which message of the link it begins: as in a message's tag.
  uint64_t grant_tag(uint32_t signature) const { return uint64_t{signature} << 32 | static_cast<uint32_t>(count_ + 1); }

  unsigned char* slots_ = nullptr;
  std::atomic<uint64_t>* credit_ = nullptr;  // messages the consumer has done with, as published
  uint64_t count_ = 0;
  uint64_t limit_ = 0;  // producer: may push while count_ < limit_; consumer: credit published so far
  Doorbell* bell_ = nullptr;
  Pump* pump_ = nullptr;
  const RegionBases* theirs_ = nullptr;
  const RegionBases* own_ = nullptr;
  uint64_t unpassed_ = 0;   // producer: passed() when the far end has popped so many messages; 0: none to wait for
  uint64_t grant_tag_ = 0;  // producer: of the call that is under way
  uint32_t stride_ = 0, mask_ = 0, slot_bytes_ = 0, ack_batch_ = 0, id_ = 0, far_ = 0;
  int32_t process_ = kUnreadable;
  Fence fence_ = Fence::full;
  bool lends_ = false;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8);

}  // namespace hocket
