// Inbox: all that one peer says to one rank: takes the byte streams apart and puts messages into the consumers' rings.
// It owns these rings and knows no socket: receive() is given one, with its Stream. The peer is not trusted: every
// field is checked before it is used. Not thread-safe.
//
// A message that is cut begins on the first socket, in the order of its link; its other parts may come before that, on
// others. It is there when all its bytes are; a later one of the same link may be before, for consumers go by numbers.
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

  // What has come of one socket so far.
  class Stream {
   public:
    // Of the first socket, which carries everything; of a further one, which carries parts and a goodbye.
    enum class Kind : uint8_t { first, further };
    explicit Stream(Kind kind) : kind_(kind) {}
    const char* why_ended() const { return why_ended_; }
    // A further one: the peer has said goodbye on it, and nothing will follow.
    bool over() const { return over_; }

   private:
    friend class Inbox;
    const Kind kind_;
    bool over_ = false;
    bool big_ = false;  // the last message was: the next one probably is, too
    // What is being received: its header, and where its next byte goes.
    Header message_;
    unsigned char* to_ = nullptr;
    uint64_t left_ = 0;  // payload bytes still to come; while there are any, rest_ is empty
    size_t rest_bytes_ = 0;
    std::array<unsigned char, sizeof(Header) + kMaxControl> rest_{};  // an incomplete frame
    const char* why_ended_ = "";
  };

  explicit Inbox(const Limits& limits) : limits_(limits), rings_(limits.tags) {}

  // The memory of the consumer's ring of (peer -> me, tag), made at first use (which may be its first message). `tag`
  // is in range.
  Result<unsigned char*> open(uint16_t tag);
  // Messages of (peer -> me, tag) that the consumer has done with, as it published.
  uint64_t credit(uint16_t tag) const { return rings_[tag].memory.credit().load(std::memory_order_relaxed); }

  // A message of (peer -> me, tag) has come, popped or not.
  bool arrived(uint16_t tag) const { return rings_[tag].begun != 0; }
  // Messages have begun of which parts are still to come, on any socket.
  bool incomplete() const { return incomplete_ != 0; }
  // Bytes of the largest message so far.
  uint64_t largest() const { return largest_; }

  // Takes what is there, until a message is complete or the socket is empty. An error: the peer does not speak the
  // protocol; do not call again.
  Result<Got> receive(int fd, Stream& stream, Stage& stage, Sink& sink);

 private:
  friend struct TcpTestAccess;
  // Of the message that has a slot, or had it last.
  struct Arrival {
    uint64_t number = 0;  // from 1
    uint32_t total = 0, signature = 0;
    uint32_t claimed = 0;   // bytes that frames so far are for
    uint32_t received = 0;  // of these
    bool begun = false;     // on the first socket
    bool whole() const { return begun && received == total; }
  };
  struct Ring {
    RingMemory memory;
    uint64_t begun = 0;             // messages that have begun on the first socket
    std::vector<Arrival> arrivals;  // by slot
  };
  static constexpr uint64_t kBig = 8 * 1024;  // a payload worth receiving in place

  // Takes frames off `n` bytes. True in *complete if a message became complete. What is left goes to the stream's rest.
  Status parse(Stream& s, const unsigned char* bytes, size_t n, Sink& sink, bool* complete);
  Status begin(Stream& s, const Header& h);
  Result<uint64_t> number_of(const Stream& s, const Header& h, const Place& place);
  // The frame being received has all its bytes: true if its message has, too.
  bool end(Stream& s);

  const Limits limits_;
  std::vector<Ring> rings_;  // by tag
  uint32_t incomplete_ = 0;
  uint64_t largest_ = 0;
};

}  // namespace hocket::tcp
