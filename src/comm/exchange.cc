#include "comm/exchange.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "comm/digest.h"
#include "comm/outstanding.h"
#include "comm/pack.h"
#include "comm/roster.h"

namespace hocket {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of one message; what says more is broken

std::vector<int> everybody(int nranks) {
  std::vector<int> ranks;
  for (int r = 0; r < nranks; ++r) ranks.push_back(r);
  return ranks;
}

}  // namespace

// Watches over an exchange of some ranks: the others may be anywhere, so calls are not compared.
class Exchange::OfSome final : public Supervisor {
 public:
  OfSome(Communicator& comm, std::vector<int> members, const char* what, Deadline deadline)
      : watch_(comm.watch_), parts_(comm.parts_), members_(std::move(members)), what_(what), deadline_(deadline) {}

  Status check(const Waiting& waiting) override {
    HKT_TRY(watch_.look());
    const Blocked blocked = waiting.blocked();
    if (!blocked.mismatched.empty())
      return watch_.fail(
          {hktMismatch, blocked.mismatched.front(), 0,
           format("%s on rank %d does not match that on rank %d: all of its ranks must pass the same "
                  "ranks in the same order and the same tag; rank %d has ranks %s",
                  what_, parts_.rank, blocked.mismatched.front(), parts_.rank, number_list(members_).c_str())});
    for (const int p : blocked.peers)
      if (watch_.has_left(p, waiting))
        return watch_.fail(
            {hktRemoteError, p, 0,
             format("rank %d has destroyed its communicator, but rank %d waits for it in %s", p, parts_.rank, what_)});
    if (!deadline_.passed()) return {};
    if (blocked.peers.empty())
      return watch_.fail({hktTimeout, -1, 0,
                          format("%s on rank %d: its own data did not leave in time; all of ranks %s must call it",
                                 what_, parts_.rank, number_list(members_).c_str())});
    return watch_.fail({hktTimeout, blocked.peers.front(), 0,
                        format("%s on rank %d: nothing came from rank %s in time, which has not called it or waits "
                               "itself; all of ranks %s must call it",
                               what_, parts_.rank, number_list(blocked.peers).c_str(), number_list(members_).c_str())});
  }

 private:
  Watch& watch_;
  const Parts& parts_;
  const std::vector<int> members_;
  const char* const what_;
  const Deadline deadline_;
};

// Bytes to one member and bytes from another at the same time: neither waits for the other to be read first.
class Exchange::Round final : public Waiting {
 public:
  struct End {
    Link* link;
    int rank;
  };
  Round(Communicator& comm, uint32_t signature, End to, End from, const std::string& out)
      : comm_(comm), signature_(signature), to_(to), from_(from), out_(out) {}

  bool poll() override {
    const bool sent = send(), received = receive(), elsewhere = comm_.meanwhile();
    return sent || received || elsewhere;
  }
  bool elsewhere() const override { return comm_.busy_elsewhere(); }
  Blocked blocked() const override {
    Blocked b;
    if (!received() && !from_.link->pop_ready(signature_)) {
      uint32_t theirs = 0;
      b.peers.push_back(from_.rank);
      if (from_.link->pop_mismatch(signature_, &theirs)) b.mismatched.push_back(from_.rank);
    }
    if (!sent() && !to_.link->push_ready()) b.peers.push_back(to_.rank);
    std::sort(b.peers.begin(), b.peers.end());
    b.peers.erase(std::unique(b.peers.begin(), b.peers.end()), b.peers.end());
    return b;
  }
  bool done() const { return sent() && received(); }
  bool broken() const { return broken_; }
  std::string take() { return std::move(in_); }

 private:
  static constexpr uint64_t kHead = sizeof(uint64_t);  // a message of its own before the bytes: how many they are

  bool sent() const { return head_sent_ && sent_ == out_.size(); }
  bool received() const { return broken_ || (head_received_ && received_ == in_.size()); }
  bool send() {
    bool moved = false;
    for (; !sent() && to_.link->push_ready(); moved = true) {
      if (!head_sent_) {
        const uint64_t size = out_.size();
        std::memcpy(to_.link->push_begin(kHead), &size, kHead);
        to_.link->push(kHead, signature_);
        head_sent_ = true;
        continue;
      }
      const uint64_t n = std::min<uint64_t>(out_.size() - sent_, to_.link->slot_bytes());
      std::memcpy(to_.link->push_begin(n), out_.data() + sent_, n);
      to_.link->push(n, signature_);
      sent_ += n;
    }
    return moved;
  }
  bool receive() {
    bool moved = false;
    for (; !received() && from_.link->pop_ready(signature_); moved = true) {
      if (!head_received_) {
        uint64_t size = 0;
        std::memcpy(&size, from_.link->pop_begin(kHead), kHead);
        broken_ = size > kMostBytes;
        if (!broken_) in_.resize(size);
        head_received_ = true;
      } else {
        const uint64_t n = std::min<uint64_t>(in_.size() - received_, from_.link->slot_bytes());
        std::memcpy(in_.data() + received_, from_.link->pop_begin(n), n);
        received_ += n;
      }
      from_.link->pop();
    }
    return moved;
  }

  Communicator& comm_;
  const uint32_t signature_;
  const End to_, from_;
  const std::string& out_;
  std::string in_;
  uint64_t sent_ = 0, received_ = 0;
  bool head_sent_ = false, head_received_ = false, broken_ = false;
};

Exchange::Exchange(Communicator& comm, std::unique_ptr<Supervisor> own)
    : comm_(comm),
      busy_(*comm.gate_),
      own_(std::move(own)),
      waiter_(comm.make_waiter(own_ != nullptr ? *own_ : comm.watch_)) {}

Status Exchange::admit(After after) const {
  HKT_TRY(comm_.admit(busy_.mine()));
  if (comm_.gate_->grouped.load(std::memory_order_relaxed) != 0)
    return error(hktInvalidUsage, "rank %d: the communicator has calls in a group that is open; end the group first",
                 comm_.rank());
  if (comm_.outstanding_ == nullptr) return {};
  // Behind what was issued before it; the last call of all, behind all of that.
  Outstanding& all = *comm_.outstanding_;
  all.wait([&] { return after == After::all ? all.idle() : !all.collectives(); });
  (void)comm_.settle();
  return comm_.admit(true);
}

Result<std::unique_ptr<Exchange>> Exchange::of_all(Communicator& comm, Meeting meeting, int64_t timeout_ms) {
  std::unique_ptr<Exchange> e(new Exchange(comm, nullptr));
  HKT_TRY(e->admit(meeting == Meeting::finalize ? After::all : After::collectives));
  e->narrow(everybody(comm.size()));
  CallRecord record;
  record.collective = static_cast<uint32_t>(meeting);
  comm.announce(record, timeout_ms, nullptr);
  e->seal_ = record.signature;
  return e;
}

Result<std::unique_ptr<Exchange>> Exchange::of_some(Communicator& comm, std::vector<int> members, uint64_t seal,
                                                    const char* what, Deadline deadline) {
  std::unique_ptr<Exchange> e(new Exchange(comm, std::make_unique<OfSome>(comm, members, what, deadline)));
  HKT_TRY(e->admit(After::collectives));
  e->seal_ = digest(mix(mix(0, seal), comm.parts_.epoch));
  e->narrow(std::move(members));
  return e;
}

void Exchange::narrow(std::vector<int> members) {
  members_ = std::move(members);
  me_ = static_cast<size_t>(std::find(members_.begin(), members_.end(), comm_.rank()) - members_.begin());
}

Result<std::string> Exchange::swap(size_t to, size_t from, const std::string& mine) {
  const auto end = [&](size_t member, std::map<uint64_t, Link>& links) -> Result<Round::End> {
    const int rank = members_[member];
    HKT_ASSIGN(Link * link, comm_.link(Peer{static_cast<uint32_t>(rank), kExchangeTag, 0}, links));
    return Round::End{link, rank};
  };
  HKT_ASSIGN(const Round::End out, end(to, comm_.send_));
  HKT_ASSIGN(const Round::End in, end(from, comm_.recv_));
  Round round(comm_, signature_, out, in, mine);
  (void)round.poll();
  while (!round.done()) HKT_TRY(waiter_.wait(round));
  if (round.broken())
    return comm_.watch_.fail({hktRemoteError, in.rank, 0, format("rank %d sent what makes no sense", in.rank)});
  return round.take();
}

// Round by round, everybody has twice as many blocks: those of itself and of the members before it.
Result<std::vector<std::string>> Exchange::all_gather(const std::string& mine) {
  signature_ = digest(mix(mix(0, seal_), ++stage_));
  const size_t n = members_.size();
  std::vector<std::string> blocks{mine};  // blocks[k] is of member me - k
  for (size_t distance = 1; distance < n; distance *= 2) {
    const size_t count = std::min(distance, n - distance);
    Packer out;
    for (size_t k = 0; k < count; ++k) out.text(blocks[k]);
    const size_t from = (me_ + n - distance) % n;
    HKT_ASSIGN(const std::string got, swap((me_ + distance) % n, from, out.bytes()));
    Unpacker in(got);
    for (size_t k = 0; k < count; ++k) {
      blocks.emplace_back();
      if (!in.text(blocks.back(), kMostBytes))
        return comm_.watch_.fail(
            {hktRemoteError, members_[from], 0, format("rank %d sent what makes no sense", members_[from])});
    }
  }
  HKT_TRY(waiter_.flush());
  std::vector<std::string> all(n);
  for (size_t k = 0; k < n; ++k) all[(me_ + n - k) % n] = std::move(blocks[k]);
  return all;
}

void Exchange::finalize_communicator() {
  comm_.finalized_.store(true, std::memory_order_release);
  busy_.close();
}

}  // namespace hocket
