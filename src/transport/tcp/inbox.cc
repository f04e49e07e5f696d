#include "transport/tcp/inbox.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hocket::tcp {
namespace {

using ull = unsigned long long;

// A frame that makes no sense, other than data: only its length depends on the kind.
bool control_fits(const Header& h) {
  switch (h.kind) {
    case Kind::ack:
    case Kind::goodbye:
      return h.length == 0;
    case Kind::announce:
      return h.length == sizeof(CallRecord);
    case Kind::fault:
      return h.length >= sizeof(FaultHead) && h.length <= kMaxControl;
    case Kind::data:
    case Kind::go:
      return false;  // go belongs to the handshake
  }
  return false;
}

}  // namespace

Result<unsigned char*> Inbox::open(uint16_t tag) {
  Ring& ring = rings_[tag];
  if (!ring.memory) {
    HKT_ASSIGN(ring.memory, RingMemory::make(limits_.geometry));
  }
  return ring.memory.base();
}

Status Inbox::begin_message(const Header& h) {
  if (h.length > limits_.geometry.slot_bytes)
    return error(hktRemoteError, "a message of %llu bytes, at most %u fit", static_cast<ull>(h.length),
                 limits_.geometry.slot_bytes);
  // The peer may be ahead: its first message opens the link.
  if (Result<unsigned char*> memory = open(h.tag); !memory) return std::move(memory.error());
  Ring& ring = rings_[h.tag];
  if (h.sequence != static_cast<uint32_t>(ring.arrived + 1))
    return error(hktRemoteError, "message %u of link %u, expected %u", h.sequence, unsigned{h.tag},
                 static_cast<uint32_t>(ring.arrived + 1));
  if (ring.arrived - credit(h.tag) >= limits_.geometry.depth)
    return error(hktRemoteError, "a message of link %u beyond its credit", unsigned{h.tag});
  message_ = h;
  to_ = ring.memory.payload(ring.arrived, h.length);
  left_ = h.length;
  return {};
}

void Inbox::end_message() {
  Ring& ring = rings_[message_.tag];
  ring.memory.tag(ring.arrived)
      .store(uint64_t{message_.signature} << 32 | message_.sequence, std::memory_order_release);
  ++ring.arrived;
  big_ = message_.length >= kBig;
}

Status Inbox::parse(const unsigned char* bytes, size_t n, Sink& sink, bool* complete) {
  for (;;) {
    if (left_ != 0) {
      const size_t take = std::min<uint64_t>(left_, n);
      std::memcpy(to_, bytes, take);
      to_ += take;
      left_ -= take;
      bytes += take;
      n -= take;
      if (left_ != 0) return {};
      end_message();
      *complete = true;
    }
    if (n < sizeof(Header)) break;
    Header h;
    std::memcpy(&h, bytes, sizeof h);
    if (h.epoch != limits_.epoch)
      return error(hktRemoteError, "a frame of epoch %u, expected %u", h.epoch, limits_.epoch);
    if (h.zero != 0 || h.tag >= limits_.tags)
      return error(hktRemoteError, "a frame for link %u of %u", unsigned{h.tag}, unsigned{limits_.tags});
    if (h.kind == Kind::data) {
      HKT_TRY(begin_message(h));
      if (left_ == 0) {
        end_message();
        *complete = true;
      }
    } else {
      if (!control_fits(h))
        return error(hktRemoteError, "a frame of kind %u with %llu bytes", static_cast<unsigned>(h.kind),
                     static_cast<ull>(h.length));
      if (n - sizeof h < h.length) break;
      HKT_TRY(sink.control(h, bytes + sizeof h));
      bytes += h.length;
      n -= h.length;
    }
    bytes += sizeof h;
    n -= sizeof h;
  }
  std::memcpy(rest_.data(), bytes, n);
  rest_bytes_ = n;
  return {};
}

Result<Inbox::Got> Inbox::receive(int fd, Stage& stage, Sink& sink) {
  Got got = Got::nothing;
  for (;;) {
    // A large payload goes straight to its slot, and the header behind it comes along; so little more that the payload
    // behind that one goes straight to its slot, too.
    const bool in_place = left_ >= kBig;
    const size_t room = in_place || big_ ? 512 : stage.bytes.size();
    std::memcpy(stage.bytes.data(), rest_.data(), rest_bytes_);
    unsigned char* const staged_to = stage.bytes.data() + rest_bytes_;
    ssize_t received = 0;
    if (in_place) {
      iovec pieces[2] = {{to_, left_}, {staged_to, room - rest_bytes_}};
      msghdr message{};
      message.msg_iov = pieces;
      message.msg_iovlen = 2;
      received = recvmsg(fd, &message, MSG_DONTWAIT);
    } else {
      received = recv(fd, staged_to, room - rest_bytes_, MSG_DONTWAIT);
    }
    if (received <= 0) {
      if (received < 0 && errno == EINTR) continue;
      if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM)) return got;
      why_ended_ = received == 0 ? "closed" : std::strerror(errno);
      return Got::end;
    }
    got = Got::bytes;
    bool complete = false;
    uint64_t bytes = static_cast<uint64_t>(received);
    const bool full = bytes == (in_place ? left_ : 0) + room - rest_bytes_;
    if (in_place) {
      const uint64_t placed = std::min(bytes, left_);
      to_ += placed;
      left_ -= placed;
      bytes -= placed;
      if (left_ == 0) {
        end_message();
        complete = true;
      }
    }
    const size_t staged = rest_bytes_ + bytes;
    rest_bytes_ = 0;
    if (staged != 0) HKT_TRY(parse(stage.bytes.data(), staged, sink, &complete));
    if (complete || !full) return got;
  }
}

}  // namespace hocket::tcp
