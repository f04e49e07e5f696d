#include "transport/tcp/inbox.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
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
    case Kind::part:
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
    ring.arrivals.resize(limits_.geometry.depth);
  }
  return ring.memory.base();
}

// Which message of its link, from 1. On the first socket each begins in its turn; what comes elsewhere says by its
// sequence which of those it is that the peer has credit for.
Result<uint64_t> Inbox::number_of(const Stream& s, const Header& h, const Place& place) {
  Ring& ring = rings_[h.tag];
  const uint64_t before = credit(h.tag);
  const auto behind = static_cast<uint32_t>(h.sequence - static_cast<uint32_t>(before) - 1);  // of those popped
  const uint64_t number = before + behind + 1;
  if (s.kind_ == Stream::Kind::first && place.offset == 0) {
    if (h.sequence != static_cast<uint32_t>(ring.begun + 1))
      return error(hktRemoteError, "message %u of link %u, expected %u", h.sequence, unsigned{h.tag},
                   static_cast<uint32_t>(ring.begun + 1));
    if (ring.begun - before >= limits_.geometry.depth)
      return error(hktRemoteError, "a message of link %u beyond its credit", unsigned{h.tag});
    return ++ring.begun;
  }
  if (behind >= limits_.geometry.depth)
    return error(hktRemoteError, "a part of message %u of link %u, which the peer has no credit for", h.sequence,
                 unsigned{h.tag});
  return number;
}

Status Inbox::begin(Stream& s, const Header& h) {
  const bool part = h.kind == Kind::part;
  if (h.length > limits_.geometry.slot_bytes)
    return error(hktRemoteError, "a message of %llu bytes, at most %u fit", static_cast<ull>(h.length),
                 limits_.geometry.slot_bytes);
  const auto length = static_cast<uint32_t>(h.length);
  const Place place = part ? std::bit_cast<Place>(h.call) : Place{0, length};
  if (place.total > limits_.geometry.slot_bytes || place.offset > place.total || length > place.total - place.offset ||
      (part && length == 0))
    return error(hktRemoteError, "%u bytes at %u of a message of %u, at most %u fit", length, place.offset, place.total,
                 limits_.geometry.slot_bytes);
  // The peer may be ahead: its first message opens the link.
  if (Result<unsigned char*> memory = open(h.tag); !memory) return std::move(memory.error());
  Ring& ring = rings_[h.tag];
  HKT_ASSIGN(const uint64_t number, number_of(s, h, place));
  Arrival& a = ring.arrivals[(number - 1) & (limits_.geometry.depth - 1)];
  if (a.number != number) {
    a = {number, place.total, h.signature, 0, 0, false};
    ++incomplete_;
    largest_ = std::max<uint64_t>(largest_, place.total);
  }
  if (a.total != place.total || a.signature != h.signature || length > a.total - a.claimed)
    return error(hktRemoteError, "parts of message %u of link %u that do not fit together", h.sequence,
                 unsigned{h.tag});
  a.begun = a.begun || (s.kind_ == Stream::Kind::first && place.offset == 0);
  a.claimed += length;
  s.message_ = h;
  s.to_ = ring.memory.payload(number - 1, a.total) + place.offset;
  s.left_ = length;
  return {};
}

bool Inbox::end(Stream& s) {
  const Header& h = s.message_;
  Ring& ring = rings_[h.tag];
  // Its slot is the one with its sequence: numbers that differ by less than 2^32 have different ones.
  Arrival& a = ring.arrivals[static_cast<uint32_t>(h.sequence - 1) & (limits_.geometry.depth - 1)];
  a.received += static_cast<uint32_t>(h.length);
  s.big_ = h.length >= kBig;
  if (!a.whole()) return false;
  --incomplete_;
  // Release: the payload is visible to whoever sees the tag.
  ring.memory.tag(a.number - 1).store(uint64_t{h.signature} << 32 | h.sequence, std::memory_order_release);
  return true;
}

Status Inbox::parse(Stream& s, const unsigned char* bytes, size_t n, Sink& sink, bool* complete) {
  const bool further = s.kind_ == Stream::Kind::further;
  for (;;) {
    if (s.left_ != 0) {
      const size_t take = std::min<uint64_t>(s.left_, n);
      std::memcpy(s.to_, bytes, take);
      s.to_ += take;
      s.left_ -= take;
      bytes += take;
      n -= take;
      if (s.left_ != 0) return {};
      *complete = end(s) || *complete;
    }
    if (n < sizeof(Header)) break;
    Header h;
    std::memcpy(&h, bytes, sizeof h);
    if (h.epoch != limits_.epoch)
      return error(hktRemoteError, "a frame of epoch %u, expected %u", h.epoch, limits_.epoch);
    if (h.zero != 0 || h.tag >= limits_.tags)
      return error(hktRemoteError, "a frame for link %u of %u", unsigned{h.tag}, unsigned{limits_.tags});
    if (s.over_) return error(hktRemoteError, "a frame of kind %u after a goodbye", static_cast<unsigned>(h.kind));
    if (h.kind == Kind::part || (h.kind == Kind::data && !further)) {
      HKT_TRY(begin(s, h));
      if (s.left_ == 0) *complete = end(s) || *complete;
    } else {
      if (!control_fits(h) || (further && h.kind != Kind::goodbye))
        return error(hktRemoteError, "a frame of kind %u with %llu bytes%s", static_cast<unsigned>(h.kind),
                     static_cast<ull>(h.length), further ? " where only parts go" : "");
      if (n - sizeof h < h.length) break;
      if (further)
        s.over_ = true;
      else
        HKT_TRY(sink.control(h, bytes + sizeof h));
      bytes += h.length;
      n -= h.length;
    }
    bytes += sizeof h;
    n -= sizeof h;
  }
  std::memcpy(s.rest_.data(), bytes, n);
  s.rest_bytes_ = n;
  return {};
}

Result<Inbox::Got> Inbox::receive(int fd, Stream& s, Stage& stage, Sink& sink) {
  Got got = Got::nothing;
  for (;;) {
    // A large payload goes straight to its slot, and the header behind it comes along; so little more that the payload
    // behind that one goes straight to its slot, too.
    const bool in_place = s.left_ >= kBig;
    const size_t room = in_place || s.big_ ? 512 : stage.bytes.size();
    std::memcpy(stage.bytes.data(), s.rest_.data(), s.rest_bytes_);
    unsigned char* const staged_to = stage.bytes.data() + s.rest_bytes_;
    ssize_t received = 0;
    if (in_place) {
      iovec pieces[2] = {{s.to_, s.left_}, {staged_to, room - s.rest_bytes_}};
      msghdr message{};
      message.msg_iov = pieces;
      message.msg_iovlen = 2;
      received = recvmsg(fd, &message, MSG_DONTWAIT);
    } else {
      received = recv(fd, staged_to, room - s.rest_bytes_, MSG_DONTWAIT);
    }
    if (received <= 0) {
      if (received < 0 && errno == EINTR) continue;
      if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM)) return got;
      s.why_ended_ = received == 0 ? "closed" : std::strerror(errno);
      return Got::end;
    }
    got = Got::bytes;
    bool complete = false;
    uint64_t bytes = static_cast<uint64_t>(received);
    const bool full = bytes == (in_place ? s.left_ : 0) + room - s.rest_bytes_;
    if (in_place) {
      const uint64_t placed = std::min(bytes, s.left_);
      s.to_ += placed;
      s.left_ -= placed;
      bytes -= placed;
      if (s.left_ == 0) {
        complete = end(s);
      }
    }
    const size_t staged = s.rest_bytes_ + bytes;
    s.rest_bytes_ = 0;
    if (staged != 0) HKT_TRY(parse(s, stage.bytes.data(), staged, sink, &complete));
    if (complete || !full) return got;
  }
}

}  // namespace hocket::tcp
