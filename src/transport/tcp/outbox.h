// Outbox: all that one rank has to say to one peer: messages of its links, in the order they were pushed, and the
// frames between them. It owns the producers' rings and knows no socket: flush() is given one. Not thread-safe.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "transport/link.h"
#include "transport/tcp/call_log.h"
#include "transport/tcp/ring_memory.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"

namespace hocket::tcp {

class Outbox {
 public:
  // `calls` are this rank's: each is announced before the first message that is sent after it began.
  Outbox(const Limits& limits, const CallLog& calls);

  // The memory of the producer's ring of (me -> peer, tag), made at first use. `tag` is in range.
  Result<unsigned char*> open(uint16_t tag);

  // Queueing; nothing here sends or allocates.
  // The next slot of that ring is full, or its payload is at `lent` until it has left or reclaim() is called.
  void push(uint16_t tag, uint32_t bytes, const void* lent);
  void reclaim();
  void credit(uint16_t tag, uint64_t count);  // `count` messages of (peer -> me, tag) are done with
  void announce() { announce_due_ = announced_ != calls_.latest(); }  // without a message to go with
  void fault(const Fault& fault);                                     // before all that is queued; the first one stays
  void goodbye() { goodbye_due_ = true; }                             // after all that is queued

  // The peer returned credit for (me -> peer, tag). An error: it never got so many messages, or has taken credit back.
  Status acked(uint16_t tag, uint64_t count);

  // Sends until all is in the kernel or the socket is full: true if anything moved. An error means the connection is
  // gone.
  Result<bool> flush(int fd);

  bool idle() const { return piece_ == pieces_ && !due(); }
  uint32_t unsent() const { return unsent_; }  // messages pushed and not yet wholly in the kernel

 private:
  friend struct TcpTestAccess;
  struct Message {
    uint32_t bytes = 0;
    const void* lent = nullptr;  // where the payload is, null: in the slot
  };
  struct Ring {
    RingMemory memory;
    std::vector<Message> messages;  // by slot
    uint64_t pushed = 0;            // messages queued so far
    uint64_t taken = 0;             // of these: put into a batch; the peer may have no more than these
  };
  static constexpr size_t kPieces = 16;    // of one sendmsg
  static constexpr uint64_t kSmall = 256;  // payloads up to here are copied behind their header: one piece less
  static constexpr size_t kStaged = 4096;  // headers and small payloads of a batch; the rest waits for the next batch
  static constexpr uint64_t kBatch = 1 << 30;  // bytes of a batch beyond which nothing is added: one call moves < 2 GiB

  bool messages() const { return order_tail_ != order_head_; }
  bool due() const { return messages() || acks_due_ != 0 || fault_bytes_ != 0 || announce_due_ || goodbye_due_; }
  bool fits(size_t bytes) const {
    return pieces_ + 2 <= kPieces && staged_ + bytes <= kStaged && batch_bytes_ < kBatch;
  }
  void compose();
  void compose_announcements();
  void compose_message();
  void control(Kind kind, const void* payload, size_t bytes);
  void stage(const void* bytes, size_t n);
  void refer(const void* bytes, size_t n, unsigned char* home);
  Header header(Kind kind) const;

  const Limits limits_;
  const CallLog& calls_;
  std::vector<Ring> rings_;     // by tag
  std::vector<uint8_t> order_;  // tags of queued messages, a ring buffer: as many as all slots together
  uint64_t order_head_ = 0, order_tail_ = 0;
  std::vector<uint64_t> acks_;  // by tag: credit to return
  uint64_t acks_due_ = 0;       // set of tags
  uint64_t announced_ = 0;      // sequence number of the last call announced here
  uint32_t unsent_ = 0;
  uint32_t in_batch_ = 0;  // messages of the batch
  bool announce_due_ = false;
  bool goodbye_due_ = false;
  bool faulted_ = false;
  size_t fault_bytes_ = 0;  // of fault_, 0: none to send
  std::array<unsigned char, kMaxControl> fault_{};

  // The batch being sent: stays as it is until its last byte is in the kernel.
  std::array<iovec, kPieces> piece_list_{};
  // By piece: where the bytes of a lent payload, all n of them, have their place in a slot; null for other pieces.
  struct Home {
    unsigned char* at = nullptr;
    size_t n = 0;
  };
  std::array<Home, kPieces> homes_{};
  size_t piece_ = 0, pieces_ = 0;
  uint64_t batch_bytes_ = 0;
  size_t staged_ = 0;
  alignas(64) std::array<unsigned char, kStaged> staging_;
  static_assert(kMaxTags * sizeof(Header) + 2 * (sizeof(Header) + kMaxControl) <= kStaged);
};

}  // namespace hocket::tcp
