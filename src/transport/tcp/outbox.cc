#include "transport/tcp/outbox.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "transport/tcp/fault_frame.h"

namespace hocket::tcp {

Outbox::Outbox(const Limits& limits, const CallLog& calls, const Striping& striping)
    : limits_(limits),
      calls_(calls),
      striping_(striping),
      rings_(limits.tags),
      order_(std::bit_ceil(size_t{limits.tags} * limits.geometry.depth)),
      acks_(limits.tags) {}

Result<unsigned char*> Outbox::open(uint16_t tag) {
  Ring& ring = rings_[tag];
  if (!ring.memory) {
    HKT_ASSIGN(ring.memory, RingMemory::make(limits_.geometry));
    ring.messages.resize(limits_.geometry.depth);
  }
  return ring.memory.base();
}

void Outbox::push(uint16_t tag, uint32_t bytes, const void* lent) {
  Ring& ring = rings_[tag];
  ring.messages[ring.pushed++ & (limits_.geometry.depth - 1)] = {bytes, lent};
  order_[order_tail_++ & (order_.size() - 1)] = static_cast<uint8_t>(tag);
  ++unsent_;
  largest_ = std::max(largest_, bytes);
}

void Outbox::reclaim() {
  for (Ring& ring : rings_) {
    for (uint64_t index = ring.taken; index != ring.pushed; ++index) {
      Message& m = ring.messages[index & (limits_.geometry.depth - 1)];
      if (m.lent != nullptr) std::memcpy(ring.memory.payload(index, m.bytes), m.lent, m.bytes);
      m.lent = nullptr;
    }
  }
  batch_.reclaim();
}

void Outbox::credit(uint16_t tag, uint64_t count) {
  acks_[tag] = count;
  acks_due_ |= uint64_t{1} << tag;
}

void Outbox::fault(const Fault& fault) {
  if (faulted_) return;
  faulted_ = true;
  fault_bytes_ = pack_fault(fault, fault_.data());
}

Status Outbox::acked(uint16_t tag, uint64_t count) {
  const Ring& ring = rings_[tag];
  if (!ring.memory) return error(hktRemoteError, "credit for link %u, which carries nothing", unsigned{tag});
  std::atomic<uint64_t>& credit = ring.memory.credit();
  const uint64_t before = credit.load(std::memory_order_relaxed);
  if (count < before || count > ring.taken)
    return error(hktRemoteError, "credit for %llu messages of link %u, expected %llu to %llu",
                 static_cast<unsigned long long>(count), unsigned{tag}, static_cast<unsigned long long>(before),
                 static_cast<unsigned long long>(ring.taken));
  credit.store(count, std::memory_order_release);  // as a consumer with the same memory would publish it
  return {};
}

Header Outbox::header(Kind kind) const {
  Header h;
  h.call = calls_.latest();
  h.epoch = limits_.epoch;
  h.kind = kind;
  return h;
}

void Outbox::control(Kind kind, const void* payload, size_t bytes) {
  Header h = header(kind);
  h.length = bytes;
  batch_.stage(&h, sizeof h);
  if (bytes != 0) batch_.stage(payload, bytes);
}

// All calls since the last announcement, so that the peer's log has no holes; more than 64 would be overwritten there.
void Outbox::compose_announcements() {
  if (calls_.latest() - announced_ > CallLog::kEntries) announced_ = calls_.latest() - CallLog::kEntries;
  while (announced_ != calls_.latest() && batch_.fits(sizeof(Header) + sizeof(CallRecord)))
    if (const CallRecord* call = calls_.find(++announced_); call != nullptr)
      control(Kind::announce, call, sizeof *call);
  announce_due_ = announce_due_ && announced_ != calls_.latest();
}

void Outbox::compose_message() {
  const uint16_t tag = order_[order_head_++ & (order_.size() - 1)];
  Ring& ring = rings_[tag];
  const uint64_t index = ring.taken++;
  const Message& m = ring.messages[index & (limits_.geometry.depth - 1)];
  const uint64_t slot_tag = ring.memory.tag(index).load(std::memory_order_relaxed);
  Header h = header(Kind::data);
  h.length = m.bytes;
  h.signature = static_cast<uint32_t>(slot_tag >> 32);
  h.sequence = static_cast<uint32_t>(slot_tag);
  h.tag = tag;
  batch_.stage(&h, sizeof h);
  unsigned char* const slot = ring.memory.payload(index, m.bytes);
  const void* payload = m.lent != nullptr ? m.lent : slot;
  if (m.bytes > kSmall)
    batch_.refer(payload, m.bytes, m.lent != nullptr ? slot : nullptr);
  else if (m.bytes != 0)
    batch_.stage(payload, m.bytes);
  ++batch_.messages;
}

const Outbox::Message& Outbox::head() const {
  const Ring& ring = rings_[order_[order_head_ & (order_.size() - 1)]];
  return ring.messages[ring.taken & (limits_.geometry.depth - 1)];
}

// The next part of the head; with the last one the message counts as taken.
void Outbox::compose_part(Batch& batch) {
  const uint16_t tag = order_[order_head_ & (order_.size() - 1)];
  Ring& ring = rings_[tag];
  const Message& m = head();
  const uint64_t slot_tag = ring.memory.tag(ring.taken).load(std::memory_order_relaxed);
  const Place place{cut_, m.bytes};
  const uint32_t n = std::min(striping_.part, m.bytes - cut_);
  Header h = header(Kind::part);
  h.length = n;
  h.call = std::bit_cast<uint64_t>(place);
  h.signature = static_cast<uint32_t>(slot_tag >> 32);
  h.sequence = static_cast<uint32_t>(slot_tag);
  h.tag = tag;
  batch.stage(&h, sizeof h);
  unsigned char* const slot = ring.memory.payload(ring.taken, m.bytes) + cut_;
  if (m.lent != nullptr)
    batch.refer(static_cast<const unsigned char*>(m.lent) + cut_, n, slot);
  else
    batch.refer(slot, n, nullptr);
  ++batch.messages;
  cut_ += n;
  if (cut_ != m.bytes) {
    ++unsent_;
    return;
  }
  cut_ = 0;
  ++ring.taken;
  ++order_head_;
}

void Outbox::compose() {
  batch_.clear();
  if (fault_bytes_ != 0) {
    control(Kind::fault, fault_.data(), fault_bytes_);
    fault_bytes_ = 0;
  }
  for (; acks_due_ != 0; acks_due_ &= acks_due_ - 1) {
    Header h = header(Kind::ack);
    h.tag = static_cast<uint16_t>(std::countr_zero(acks_due_));
    h.call = acks_[h.tag];
    batch_.stage(&h, sizeof h);
  }
  if (messages() || announce_due_) compose_announcements();
  while (messages() && announced_ == calls_.latest() && batch_.fits(sizeof(Header) + kSmall)) {
    if (cut()) {  // the others are to have the parts behind it
      compose_part(batch_);
      break;
    }
    compose_message();
  }
  if (goodbye_due_ && !messages() && !announce_due_ && batch_.fits(sizeof(Header))) {
    control(Kind::goodbye, nullptr, 0);
    goodbye_due_ = false;
  }
}

Result<Outbox::Flow> Outbox::send(Batch& batch, int fd) {
  HKT_ASSIGN(const bool moved, batch.send(fd));
  if (!batch.sent()) return moved ? Flow::full : Flow::stopped;
  unsent_ -= batch.messages;
  batch.messages = 0;
  return Flow::done;
}

Result<Outbox::Flow> Outbox::flush(int fd) {
  if (batch_.sent()) {
    if (!due()) return Flow::stopped;
    compose();
  }
  HKT_ASSIGN(const Flow flow, send(batch_, fd));
  return flow == Flow::done && due() ? Flow::more : flow;
}

Result<Outbox::Flow> Outbox::flush(Share& share, int fd) {
  if (share.batch_.sent()) {
    const bool ends = share.goodbye_due_ && !messages();
    if (cut_ == 0 && !ends) return Flow::stopped;
    share.batch_.clear();
    if (ends) {
      const Header h = header(Kind::goodbye);
      share.batch_.stage(&h, sizeof h);
      share.goodbye_due_ = false;
    } else {
      compose_part(share.batch_);
    }
  }
  HKT_ASSIGN(const Flow flow, send(share.batch_, fd));
  return flow == Flow::done && cut_ != 0 ? Flow::more : flow;
}

}  // namespace hocket::tcp
