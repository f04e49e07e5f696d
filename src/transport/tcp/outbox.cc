#include "transport/tcp/outbox.h"

#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "transport/tcp/fault_frame.h"

namespace hocket::tcp {

Outbox::Outbox(const Limits& limits, const CallLog& calls)
    : limits_(limits),
      calls_(calls),
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
}

void Outbox::reclaim() {
  for (Ring& ring : rings_) {
    for (uint64_t index = ring.taken; index != ring.pushed; ++index) {
      Message& m = ring.messages[index & (limits_.geometry.depth - 1)];
      if (m.lent != nullptr) std::memcpy(ring.memory.payload(index, m.bytes), m.lent, m.bytes);
      m.lent = nullptr;
    }
  }
  for (size_t i = piece_; i < pieces_; ++i) {
    if (homes_[i].at == nullptr) continue;
    iovec& piece = piece_list_[i];  // of the first one a part may have left
    unsigned char* to = homes_[i].at + (homes_[i].n - piece.iov_len);
    std::memcpy(to, piece.iov_base, piece.iov_len);
    piece.iov_base = to;
    homes_[i] = {};
  }
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

// Copies bytes into the batch.
void Outbox::stage(const void* bytes, size_t n) {
  unsigned char* to = staging_.data() + staged_;
  std::memcpy(to, bytes, n);
  staged_ += n;
  batch_bytes_ += n;
  if (pieces_ != 0) {
    iovec& last = piece_list_[pieces_ - 1];
    if (static_cast<unsigned char*>(last.iov_base) + last.iov_len == to) {
      last.iov_len += n;
      return;
    }
  }
  homes_[pieces_] = {};
  piece_list_[pieces_++] = {to, n};
}

// Makes bytes that stay where they are part of the batch. `home`: if they are lent, their place in a slot.
void Outbox::refer(const void* bytes, size_t n, unsigned char* home) {
  homes_[pieces_] = {home, n};
  piece_list_[pieces_++] = {const_cast<void*>(bytes), n};
  batch_bytes_ += n;
}

void Outbox::control(Kind kind, const void* payload, size_t bytes) {
  Header h = header(kind);
  h.length = bytes;
  stage(&h, sizeof h);
  if (bytes != 0) stage(payload, bytes);
}

// All calls since the last announcement, so that the peer's log has no holes; more than 64 would be overwritten there.
void Outbox::compose_announcements() {
  if (calls_.latest() - announced_ > CallLog::kEntries) announced_ = calls_.latest() - CallLog::kEntries;
  while (announced_ != calls_.latest() && fits(sizeof(Header) + sizeof(CallRecord)))
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
  stage(&h, sizeof h);
  unsigned char* const slot = ring.memory.payload(index, m.bytes);
  const void* payload = m.lent != nullptr ? m.lent : slot;
  if (m.bytes > kSmall)
    refer(payload, m.bytes, m.lent != nullptr ? slot : nullptr);
  else if (m.bytes != 0)
    stage(payload, m.bytes);
  ++in_batch_;
}

void Outbox::compose() {
  piece_ = pieces_ = 0;
  staged_ = 0;
  batch_bytes_ = 0;
  in_batch_ = 0;
  if (fault_bytes_ != 0) {
    control(Kind::fault, fault_.data(), fault_bytes_);
    fault_bytes_ = 0;
  }
  for (; acks_due_ != 0; acks_due_ &= acks_due_ - 1) {
    Header h = header(Kind::ack);
    h.tag = static_cast<uint16_t>(std::countr_zero(acks_due_));
    h.call = acks_[h.tag];
    stage(&h, sizeof h);
  }
  if (messages() || announce_due_) compose_announcements();
  while (messages() && announced_ == calls_.latest() && fits(sizeof(Header) + kSmall)) compose_message();
  if (goodbye_due_ && !messages() && !announce_due_ && fits(sizeof(Header))) {
    control(Kind::goodbye, nullptr, 0);
    goodbye_due_ = false;
  }
}

Result<bool> Outbox::flush(int fd) {
  bool moved = false;
  for (;;) {
    if (piece_ == pieces_) {
      if (!due()) return moved;
      compose();
    }
    ssize_t sent = 0;
    if (piece_ + 1 == pieces_) {  // small messages: the shorter system call
      sent = send(fd, piece_list_[piece_].iov_base, piece_list_[piece_].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else {
      msghdr message{};
      message.msg_iov = &piece_list_[piece_];
      message.msg_iovlen = pieces_ - piece_;
      sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (sent < 0) {
      if (errno == EINTR) continue;
      // Out of kernel memory passes; a connection that is gone does not.
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) return moved;
      if (errno == EFAULT) return error(hktInvalidArgument, "the memory of a send buffer cannot be read");
      return error(hktRemoteError, "cannot send: %s", std::strerror(errno));
    }
    moved = true;
    auto left = static_cast<size_t>(sent);
    for (; piece_ < pieces_ && left >= piece_list_[piece_].iov_len; ++piece_) left -= piece_list_[piece_].iov_len;
    if (piece_ < pieces_) {  // the socket is full
      iovec& rest = piece_list_[piece_];
      rest.iov_base = static_cast<unsigned char*>(rest.iov_base) + left;
      rest.iov_len -= left;
      return moved;
    }
    unsent_ -= in_batch_;
    in_batch_ = 0;
  }
}

}  // namespace hocket::tcp
