// Inbox: all that one peer says to one rank: takes the byte stream apart and puts messages into the consumers' rings.
// It owns these rings and knows no socket: receive() is given one. The peer is not trusted: every field is checked
// before it is used. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "transport/link.h"
#include "transport/tcp/ring_memory.h"
#include "transport/tcp/wire.h"

namespace hocket::tcp {

// Where a receive puts what it cannot place yet: one for all inboxes of a transport, empty between calls.
struct Stage {
  std::array<unsigned char, 16 * 1024> bytes;
};

class Inbox {
 public:
  // Gets frames that are not messages. `payload` has header.length bytes (at most kMaxControl), valid during the call.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual Status control(const Header& header, const unsigned char* payload) = 0;
  };
  enum class Got : uint8_t {
    nothing,  // the socket is empty
    bytes,    // something came
    end,      // the connection is closed or lost: why_ended() says which
  };

  explicit Inbox(const Limits& limits) : limits_(limits), rings_(limits.tags) {}

  // The memory of the consumer's ring of (peer -> me, tag), made at first use (which may be its first message). `tag`
  // is in range.
  Result<unsigned char*> open(uint16_t tag);
  // Messages of (peer -> me, tag) that the consumer has done with, as it published.
  uint64_t credit(uint16_t tag) const { return rings_[tag].memory.credit().load(std::memory_order_relaxed); }

  // A message of (peer -> me, tag) has come, popped or not.
  bool arrived(uint16_t tag) const { return rings_[tag].arrived != 0; }

  // Takes what is there, until a message is complete or the socket is empty. An error: the peer does not speak the
  // protocol; do not call again.
  Result<Got> receive(int fd, Stage& stage, Sink& sink);
  const char* why_ended() const { return why_ended_; }

 private:
  friend struct TcpTestAccess;
  struct Ring {
    RingMemory memory;
    uint64_t arrived = 0;  // messages complete
  };
  static constexpr uint64_t kBig = 8 * 1024;  // a payload worth receiving in place

  // Takes frames off `n` bytes. True in *complete if a message became complete. What is left goes to rest_.
  Status parse(const unsigned char* bytes, size_t n, Sink& sink, bool* complete);
  Status begin_message(const Header& h);
  void end_message();

  const Limits limits_;
  std::vector<Ring> rings_;  // by tag
  // The message being received: its header, and where its next byte goes.
  Header message_;
  unsigned char* to_ = nullptr;
  uint64_t left_ = 0;  // payload bytes still to come; while there are any, rest_ is empty
  bool big_ = false;   // the last message was: the next one probably is, too
  size_t rest_bytes_ = 0;
  std::array<unsigned char, sizeof(Header) + kMaxControl> rest_{};  // an incomplete frame
  const char* why_ended_ = "";
};

}  // namespace hocket::tcp
