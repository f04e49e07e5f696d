// Point-to-point messages of a communicator: sends and receives that are matched by (peer, tag) in order of issue, over
// one link of their own per ordered pair of ranks (kPointTag), opened on first use.
//
// - A message is a head and its bytes, cut into slots. The receiver finds out with the first slot what it is for; what
//   nobody has asked for yet waits in memory of the receiver, or, if it is large and nothing depends on it, in the
//   link.
// - A small send is done at once: what does not fit into slots is copied and follows later. A large one is done when
//   its bytes have left this process.
// - A message that does not fit its receive (too long, another type) is dropped and the receive's error; the
//   communicator goes on. Between the library's own transfers it is a fault of the communicator.
//
// Like everything of a communicator it belongs to whoever has entered its gate.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "comm/request.h"
#include "engine/wait.h"

namespace hocket {

class Communicator;

// Messages of users and those of the library's own collectives never match.
enum class Channel : uint16_t { user, internal };

struct TransferSpec {
  void* buf = nullptr;  // only read by a send
  uint64_t count = 0;   // of a receive: at most so many; on the internal channel exactly so many
  hktDataType_t type = hktInt8;
  int peer = 0;  // of a receive also HKT_ANY_SOURCE, until its message comes
  int32_t tag = 0;
  Channel channel = Channel::user;
  bool sends = false;
  hktMessage_t* message = nullptr;  // of a receive: told what came, before the tally is
};

// First in first out, linked through T::next.
template <class T>
class Queue {
 public:
  bool empty() const { return head_ == nullptr; }
  T* front() const { return head_; }
  T* back() const { return tail_; }
  void push(T* t) {
    t->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = t;
    tail_ = t;
  }
  T* pop() {
    return take([](const T&) { return true; });
  }
  // Takes out the first one that `wanted` says yes to; null if there is none.
  template <class Wanted>
  T* take(Wanted&& wanted) {
    T* before = nullptr;
    for (T* t = head_; t != nullptr; before = t, t = t->next) {
      if (!wanted(*t)) continue;
      (before == nullptr ? head_ : before->next) = t->next;
      if (tail_ == t) tail_ = before;
      return t;
    }
    return nullptr;
  }
  void clear() { head_ = tail_ = nullptr; }

 private:
  T* head_ = nullptr;
  T* tail_ = nullptr;
};

// Memory for messages that wait: kept by size, so that a steady program allocates nothing.
class Blocks {
 public:
  using Block = std::unique_ptr<unsigned char[]>;
  Block take(uint64_t bytes);
  void give(Block block, uint64_t bytes);  // as many as it was taken for

 private:
  static constexpr uint32_t kLeast = 6, kMost = 16;  // log2 of bytes; larger ones are not kept
  std::array<std::vector<Block>, kMost - kLeast + 1> free_;
};

class PointToPoint final : public Waiting {
 public:
  static constexpr uint64_t kSmall = 64 * 1024;  // bytes: a send of so many never waits for its receive

  PointToPoint(Communicator& comm, const Waiter& waiter);
  ~PointToPoint() override;
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  // Begins a send or receive, which tells `tally` once it is done. An error: there is no link, and the communicator has
  // failed. `label` may be empty.
  Status start(const TransferSpec& spec, int64_t timeout_ms, const std::string& label, Tally& tally);

  // Waiting: moves what can be moved.
  bool poll() override;
  Blocked blocked() const override { return blocked(nullptr); }
  Blocked blocked(Channel channel) const { return blocked(&channel); }

  // Nothing is under way, not even copies of small sends.
  bool idle() const { return live_ == 0; }
  // Copies of small sends that have not found room in their link yet.
  uint32_t owed() const { return owed_; }
  // Peers that have left, deadlines; at least every 250 ms of a wait.
  void check();
  // Ends everything with this error.
  void fail(const Error& e);

 private:
  struct Head;
  struct Transfer;
  struct Unexpected;
  struct Partner;

  Result<Partner*> partner(int rank);
  Status open(Partner& p, bool sends);
  Transfer* make(const TransferSpec& spec, int64_t timeout_ms, const std::string& label, Tally& tally);
  void finish(Transfer* t, const Error* e = nullptr);
  void recycle(Transfer* t);

  void start_send(Partner& p, Transfer* t);
  void start_receive(Partner& p, Transfer* t);
  Status start_receive_any(const TransferSpec& spec, int64_t timeout_ms, const std::string& label, Tally& tally);
  bool take_kept(Partner& p, Transfer* t);
  Transfer* claim(Partner& p, const Head& head);
  void succeed(const Partner& p, const Head& head, Transfer* t);
  void give_self(Partner& p, Transfer* t);
  bool push(Partner& p);
  bool push_slots(Partner& p, Transfer& t);
  bool pull(Partner& p);
  bool begin(Partner& p, uint32_t signature);
  void place(Partner& p, const unsigned char* bytes, uint64_t n);
  void end(Partner& p);
  Unexpected* keep(Partner& p, const Head& head);
  void hand_over(Partner& p, Unexpected* u, Transfer* t);
  void forget(Partner& p, Unexpected* u);
  bool may_wait(const Partner& p, const Head& head) const;
  Status fits(const Partner& p, const Head& head, const Transfer& t);
  Blocked blocked(const Channel* channel) const;
  bool overdue(Transfer& t, int64_t now);
  std::string waited_for(int peer) const;
  void check_left();

  Communicator& comm_;
  const Waiter& waiter_;
  const uint32_t short_, long_, more_;              // signatures: a head and few bytes, a head and more, bytes
  std::vector<std::unique_ptr<Partner>> partners_;  // by rank
  std::vector<Partner*> open_;
  Queue<Transfer> leaving_;  // large sends whose last bytes are in the transport
  Queue<Transfer> anybody_;  // receives from any rank that no message has come for
  uint64_t receives_ = 0;    // so many have been started
  uint32_t live_ = 0;        // transfers that are not over
  uint32_t owed_ = 0;        // of these: copies
  uint32_t sending_ = 0;     // of these: sends that somebody waits for
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<Transfer*> free_;
  std::vector<std::unique_ptr<Unexpected>> unexpected_;
  std::vector<Unexpected*> free_unexpected_;
  Blocks blocks_;
};

}  // namespace hocket
