// Outbox: all that one rank has to say to one peer: messages of its links, in the order they were pushed, and the
// frames between them. It owns the producers' rings and knows no socket: flush() is given one. Not thread-safe.
//
// Where a pair has further sockets, a large message is cut into parts: each socket takes the next one when it has sent
// its last one, so that a slow socket takes fewer. The first part, as all else, goes by the first socket.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "transport/link.h"
#include "transport/tcp/batch.h"
#include "transport/tcp/call_log.h"
#include "transport/tcp/ring_memory.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"

namespace hocket::tcp {

class Outbox {
 public:
  // `calls` are this rank's: each is announced before the first message that is sent after it began.
  Outbox(const Limits& limits, const CallLog& calls, const Striping& striping = {});

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

  // One further socket and what it is sending.
  class Share {
   public:
    Share() : batch_(sizeof(Header)) {}
    void goodbye() { goodbye_due_ = true; }  // after the parts of all that is queued
    bool idle() const { return batch_.sent() && !goodbye_due_; }

   private:
    friend class Outbox;
    Batch batch_;
    bool goodbye_due_ = false;
  };
  // There are so many further sockets: messages that are begun from now on are cut for them.
  void set_shares(size_t shares) { shares_ = shares; }

  enum class Flow : uint8_t {
    stopped,  // nothing moved: there is nothing for this socket, or it is full
    full,     // something did, and now it is full
    done,     // all that there is for it now is in the kernel
    more,     // a batch is, and there is more
  };
  // Sends one batch on the first socket, or on a further one. An error means the connection is gone.
  Result<Flow> flush(int fd);
  Result<Flow> flush(Share& share, int fd);
  void reclaim(Share& share) { share.batch_.reclaim(); }

  bool idle() const { return batch_.sent() && !due(); }
  bool full() const { return !batch_.sent(); }  // as far as is known
  // Messages pushed and not yet wholly in the kernel; of one that is cut, each part that has been taken counts, too.
  uint32_t unsent() const { return unsent_; }
  // Bytes of the largest message so far.
  uint32_t largest() const { return largest_; }

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
  static constexpr uint64_t kSmall = 2048;  // payloads up to here are copied behind their header: one piece less
  static constexpr size_t kStaged = 8192;   // headers and small payloads of a batch; the rest waits for the next batch

  bool messages() const { return order_tail_ != order_head_; }
  bool due() const { return messages() || acks_due_ != 0 || fault_bytes_ != 0 || announce_due_ || goodbye_due_; }
  // The message at the head of the queue.
  const Message& head() const;
  // It goes in parts.
  bool cut() const { return cut_ != 0 || (shares_ != 0 && messages() && head().bytes >= striping_.from); }
  void compose();
  void compose_announcements();
  void compose_message();
  void compose_part(Batch& batch);
  void control(Kind kind, const void* payload, size_t bytes);
  Result<Flow> send(Batch& batch, int fd);
  Header header(Kind kind) const;

  const Limits limits_;
  const CallLog& calls_;
  const Striping striping_;
  size_t shares_ = 0;
  uint32_t cut_ = 0;            // bytes of the head that have been taken
  std::vector<Ring> rings_;     // by tag
  std::vector<uint8_t> order_;  // tags of queued messages, a ring buffer: as many as all slots together
  uint64_t order_head_ = 0, order_tail_ = 0;
  std::vector<uint64_t> acks_;  // by tag: credit to return
  uint64_t acks_due_ = 0;       // set of tags
  uint64_t announced_ = 0;      // sequence number of the last call announced here
  uint32_t unsent_ = 0;
  uint32_t largest_ = 0;
  bool announce_due_ = false;
  bool goodbye_due_ = false;
  bool faulted_ = false;
  size_t fault_bytes_ = 0;  // of fault_, 0: none to send
  std::array<unsigned char, kMaxControl> fault_{};

  Batch batch_{kStaged};  // of the first socket
  static_assert(kMaxTags * sizeof(Header) + 2 * (sizeof(Header) + kMaxControl) <= kStaged);
};

}  // namespace hocket::tcp
