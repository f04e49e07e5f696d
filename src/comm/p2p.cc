#include "comm/p2p.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/deadline.h"
#include "comm/communicator.h"
#include "comm/digest.h"
#include "comm/roster.h"

namespace hocket {
namespace {

constexpr int64_t kWarnAfter = 10'000'000'000;          // ns of waiting
constexpr uint64_t kKept = uint64_t{16} * 1024 * 1024;  // bytes nobody has asked for, of one peer
using ull = unsigned long long;

uint32_t signature(uint32_t epoch, uint32_t kind) { return digest(mix(mix(0, epoch), kind)); }

}  // namespace

struct PointToPoint::Head {
  uint64_t count;
  int32_t tag;
  uint16_t type;
  uint16_t channel;

  uint64_t bytes() const { return count * type_size(static_cast<hktDataType_t>(type)); }
  bool good() const {
    const size_t size = type_size(static_cast<hktDataType_t>(type));
    return size != 0 && count <= static_cast<uint64_t>(INT64_MAX) / size && tag >= 0 &&
           channel <= static_cast<uint16_t>(Channel::internal);
  }
};

struct PointToPoint::Transfer {
  TransferSpec spec;
  uint64_t bytes = 0;
  uint64_t moved = 0;
  bool live = false;
  bool begun = false;  // a send: its head has left
  Blocks::Block copy;  // of a small send: its bytes from `copied_from` on; the tally has been told
  uint64_t copied_from = 0;
  Tally* tally = nullptr;
  int64_t timeout_ms = -1;
  int64_t started_ns = 0;  // of the first check, 0 before it
  bool warned = false;
  uint64_t order = 0;  // of a receive: among those of all peers
  std::string label;
  Transfer* next = nullptr;

  bool small() const { return spec.channel == Channel::user && bytes <= kSmall; }
  bool wants(const Head& h) const { return h.tag == spec.tag && h.channel == static_cast<uint16_t>(spec.channel); }
  const unsigned char* rest() const {
    return copy != nullptr ? copy.get() + (moved - copied_from) : static_cast<const unsigned char*>(spec.buf) + moved;
  }
  std::string describe() const {
    return format("%s%s%s(count %llu, %s, %s %s, tag %d)", label.c_str(), label.empty() ? "" : ": ",
                  spec.sends ? "send" : "recv", static_cast<ull>(spec.count), type_name(spec.type),
                  spec.sends ? "to" : "from",
                  spec.peer == HKT_ANY_SOURCE ? "any rank" : format("rank %d", spec.peer).c_str(), spec.tag);
  }
};

// A message that came before its receive was issued.
struct PointToPoint::Unexpected {
  Head head{};
  uint64_t got = 0;
  Blocks::Block bytes;
  Transfer* from = nullptr;     // of a send to oneself: its bytes are still there
  Transfer* claimed = nullptr;  // the receive it is for, while it is still coming in
  Unexpected* next = nullptr;
};

struct PointToPoint::Partner {
  int rank = 0;
  Link* out = nullptr;
  Link* in = nullptr;
  Queue<Transfer> sends;         // the first is being pushed
  Queue<Transfer> posted;        // receives that no message has come for
  Queue<Unexpected> unexpected;  // in the order they came
  uint64_t kept = 0;             // bytes of these
  // The message that is coming in: to a receive or to memory. One that does not fit is dropped; its receive ends only
  // when it has come in, for the sender waits for that.
  bool arriving = false;
  Head head{};
  uint64_t got = 0;
  Transfer* into = nullptr;
  Status fit;
  Unexpected* aside = nullptr;
};

Blocks::Block Blocks::take(uint64_t bytes) {
  const uint32_t log = std::max<uint32_t>(kLeast, static_cast<uint32_t>(std::bit_width(bytes - (bytes != 0))));
  if (log > kMost) return Block(new unsigned char[bytes]);
  std::vector<Block>& free = free_[log - kLeast];
  if (free.empty()) return Block(new unsigned char[uint64_t{1} << log]);
  Block block = std::move(free.back());
  free.pop_back();
  return block;
}

void Blocks::give(Block block, uint64_t bytes) {
  constexpr size_t kSpare = 16;
  const uint32_t log = std::max<uint32_t>(kLeast, static_cast<uint32_t>(std::bit_width(bytes - (bytes != 0))));
  if (log <= kMost && free_[log - kLeast].size() < kSpare) free_[log - kLeast].push_back(std::move(block));
}

PointToPoint::PointToPoint(Communicator& comm, const Waiter& waiter)
    : comm_(comm),
      waiter_(waiter),
      short_(signature(comm.parts().epoch, 1)),
      long_(signature(comm.parts().epoch, 2)),
      more_(signature(comm.parts().epoch, 3)),
      partners_(static_cast<size_t>(comm.size())) {}

PointToPoint::~PointToPoint() = default;

// --- beginning and end of transfers

Status PointToPoint::start(const TransferSpec& spec, int64_t timeout_ms, const std::string& label, Tally& tally) {
  if (spec.peer == HKT_ANY_SOURCE) return start_receive_any(spec, timeout_ms, label, tally);
  HKT_ASSIGN(Partner* const p, partner(spec.peer));
  HKT_TRY(open(*p, spec.sends));
  Transfer* const t = make(spec, timeout_ms, label, tally);
  if (!spec.sends)
    start_receive(*p, t);
  else if (spec.peer == comm_.rank())
    give_self(*p, t);
  else
    start_send(*p, t);
  return {};
}

Result<PointToPoint::Partner*> PointToPoint::partner(int rank) {
  std::unique_ptr<Partner>& p = partners_[static_cast<size_t>(rank)];
  if (p == nullptr) {
    p = std::make_unique<Partner>();
    p->rank = rank;
    open_.push_back(p.get());
  }
  return p.get();
}

Status PointToPoint::open(Partner& p, bool sends) {
  Link*& end = sends ? p.out : p.in;
  if (end != nullptr || p.rank == comm_.rank()) return {};
  HKT_ASSIGN(end, comm_.link(Peer{static_cast<uint32_t>(p.rank), kPointTag, 0}, sends ? comm_.send_ : comm_.recv_));
  return {};
}

PointToPoint::Transfer* PointToPoint::make(const TransferSpec& spec, int64_t timeout_ms, const std::string& label,
                                           Tally& tally) {
  if (free_.empty()) free_.push_back(transfers_.emplace_back(std::make_unique<Transfer>()).get());
  Transfer* const t = free_.back();
  free_.pop_back();
  t->spec = spec;
  t->bytes = spec.count * type_size(spec.type);
  t->moved = 0;
  t->live = true;
  t->begun = t->warned = false;
  t->tally = &tally;
  t->timeout_ms = timeout_ms;
  t->started_ns = 0;
  t->label = label;
  ++live_;
  t->order = receives_;
  if (spec.sends)
    ++sending_;
  else
    ++receives_;
  return t;
}

void PointToPoint::finish(Transfer* t, const Error* e) {
  if (t->tally != nullptr) {
    if (t->spec.sends) --sending_;
    if (e != nullptr)
      t->tally->finish(*e);
    else
      t->tally->finish();
  } else {
    --owed_;
  }
  recycle(t);
}

void PointToPoint::recycle(Transfer* t) {
  if (t->copy != nullptr) blocks_.give(std::move(t->copy), t->bytes - t->copied_from);
  t->copy = nullptr;
  t->tally = nullptr;
  t->live = false;
  --live_;
  free_.push_back(t);
}

// --- sending

void PointToPoint::start_send(Partner& p, Transfer* t) {
  p.sends.push(t);
  push(p);
  if (p.sends.back() != t || !t->small()) return;
  // It has not gone, or not all of it: the caller need not wait for the rest.
  t->copied_from = t->moved;
  t->copy = blocks_.take(t->bytes - t->moved);
  if (t->bytes != t->moved)
    std::memcpy(t->copy.get(), static_cast<const unsigned char*>(t->spec.buf) + t->moved, t->bytes - t->moved);
  t->tally->finish();
  t->tally = nullptr;
  --sending_;
  ++owed_;
}

bool PointToPoint::push(Partner& p) {
  bool moved = false;
  while (Transfer* const t = p.sends.front()) {
    const uint64_t before = p.out->count();
    const bool all = push_slots(p, *t);
    moved |= p.out->count() != before;
    if (!all) return moved;
    p.sends.pop();
    // A caller may not come back for hours, and the peer may be waiting for the last bytes.
    if (waiter_.pumped() && !t->small())
      leaving_.push(t);
    else
      finish(t);
  }
  return moved;
}

// True when the last slot of the message has been pushed.
bool PointToPoint::push_slots(Partner& p, Transfer& t) {
  while (!t.begun || t.moved != t.bytes) {
    if (!p.out->push_ready()) return false;
    if (!t.begun) {
      const Head head{t.spec.count, t.spec.tag, static_cast<uint16_t>(t.spec.type),
                      static_cast<uint16_t>(t.spec.channel)};
      const uint64_t n = std::min<uint64_t>(t.bytes, p.out->slot_bytes() - sizeof head), total = sizeof head + n;
      unsigned char* const to = p.out->push_begin(total);
      std::memcpy(to, &head, sizeof head);
      if (n != 0) std::memcpy(to + sizeof head, t.rest(), n);
      p.out->push(total, total <= RingGeometry::kInline ? short_ : long_);
      t.begun = true;
      t.moved = n;
    } else {
      const uint64_t n = std::min<uint64_t>(t.bytes - t.moved, p.out->slot_bytes());
      if (p.out->lends() && !t.small()) {  // it ends when it has left, or with fail()
        p.out->lend(t.rest(), n, more_);
      } else {
        std::memcpy(p.out->push_begin(n), t.rest(), n);
        p.out->push(n, more_);
      }
      t.moved += n;
    }
  }
  return true;
}

// A send to oneself: to the receive that waits for it, or put aside. Large ones are not copied but wait.
void PointToPoint::give_self(Partner& p, Transfer* t) {
  const Head head{t->spec.count, t->spec.tag, static_cast<uint16_t>(t->spec.type),
                  static_cast<uint16_t>(t->spec.channel)};
  Transfer* const to = claim(p, head);
  Unexpected* const u = keep(p, t->small() && to == nullptr ? head : Head{0, head.tag, head.type, head.channel});
  u->head = head;
  u->got = t->bytes;
  if (t->small() && to == nullptr) {
    if (t->bytes != 0) std::memcpy(u->bytes.get(), t->spec.buf, t->bytes);
    finish(t);
  } else {
    u->from = t;
  }
  if (to != nullptr) hand_over(p, u, to);
}

// --- receiving

void PointToPoint::start_receive(Partner& p, Transfer* t) {
  if (take_kept(p, t)) return;
  p.posted.push(t);
  if (p.in != nullptr) pull(p);
}

// Every rank may be the one that sends, so there is a link from each.
Status PointToPoint::start_receive_any(const TransferSpec& spec, int64_t timeout_ms, const std::string& label,
                                       Tally& tally) {
  for (int rank = 0; rank < comm_.size(); ++rank) {
    HKT_ASSIGN(Partner* const p, partner(rank));
    HKT_TRY(open(*p, false));
  }
  Transfer* const t = make(spec, timeout_ms, label, tally);
  for (const auto& p : partners_)
    if (take_kept(*p, t)) return {};
  anybody_.push(t);
  for (const auto& p : partners_)
    if (p->in != nullptr) pull(*p);
  return {};
}

// Is a message for this receive there already, or on its way in?
bool PointToPoint::take_kept(Partner& p, Transfer* t) {
  for (Unexpected* u = p.unexpected.front(); u != nullptr; u = u->next) {
    if (u->claimed != nullptr || !t->wants(u->head)) continue;
    t->spec.peer = p.rank;
    hand_over(p, u, t);
    return true;
  }
  return false;
}

// The receive that a message is for, taken off its queue: the one that was started first. Null if nobody has asked.
PointToPoint::Transfer* PointToPoint::claim(Partner& p, const Head& head) {
  const auto first = [&](const Queue<Transfer>& q) {
    Transfer* t = q.front();
    while (t != nullptr && !t->wants(head)) t = t->next;
    return t;
  };
  const Transfer *const from_here = first(p.posted), *const from_anybody = first(anybody_);
  const bool any = from_anybody != nullptr && (from_here == nullptr || from_anybody->order < from_here->order);
  Transfer* const t = (any ? anybody_ : p.posted).take([&](const Transfer& r) { return r.wants(head); });
  if (t != nullptr) t->spec.peer = p.rank;
  return t;
}

// All of the message is where its receive wants it.
void PointToPoint::succeed(const Partner& p, const Head& head, Transfer* t) {
  if (t->spec.message != nullptr) *t->spec.message = {head.count, p.rank, 0};
  finish(t);
}

// Memory for a message that nobody has asked for.
PointToPoint::Unexpected* PointToPoint::keep(Partner& p, const Head& head) {
  if (free_unexpected_.empty())
    free_unexpected_.push_back(unexpected_.emplace_back(std::make_unique<Unexpected>()).get());
  Unexpected* const u = free_unexpected_.back();
  u->bytes = head.count != 0 ? blocks_.take(head.bytes()) : nullptr;
  free_unexpected_.pop_back();
  u->head = head;
  u->got = 0;
  u->from = u->claimed = nullptr;
  p.unexpected.push(u);
  p.kept += head.bytes();
  return u;
}

void PointToPoint::forget(Partner& p, Unexpected* u) {
  p.unexpected.take([&](const Unexpected& other) { return &other == u; });
  if (u->bytes != nullptr) {
    p.kept -= u->head.bytes();
    blocks_.give(std::move(u->bytes), u->head.bytes());
    u->bytes = nullptr;
  }
  free_unexpected_.push_back(u);
}

// What was put aside is for `t`: now, or as soon as it is complete.
void PointToPoint::hand_over(Partner& p, Unexpected* u, Transfer* t) {
  if (u->got != u->head.bytes()) {
    u->claimed = t;
    return;
  }
  if (const Status fit = fits(p, u->head, *t); !fit.ok()) {
    finish(t, &fit.error());
  } else {
    const void* const from = u->from != nullptr ? u->from->spec.buf : u->bytes.get();
    if (u->got != 0 && from != t->spec.buf) std::memcpy(t->spec.buf, from, u->got);
    succeed(p, u->head, t);
  }
  if (u->from != nullptr) finish(u->from);
  forget(p, u);
}

// Does the message fit its receive?
Status PointToPoint::fits(const Partner& p, const Head& head, const Transfer& t) {
  const auto type = static_cast<hktDataType_t>(head.type);
  const bool internal = t.spec.channel == Channel::internal;
  if (type == t.spec.type && (internal ? head.count == t.spec.count : head.count <= t.spec.count)) return {};
  if (internal) {
    HKT_TRY(comm_.watch_.compare());
    return comm_.watch_.fail(
        {hktMismatch, p.rank, comm_.seq_,
         format("%s: rank %d sends %llu of %s to rank %d, which expects %llu of %s",
                comm_.watch_.present_call().c_str(), p.rank, static_cast<ull>(head.count), type_name(type),
                comm_.rank(), static_cast<ull>(t.spec.count), type_name(t.spec.type))});
  }
  if (type != t.spec.type)
    return error(hktInvalidUsage, "%s on rank %d: rank %d has sent %s there, not %s", t.describe().c_str(),
                 comm_.rank(), p.rank, type_name(type), type_name(t.spec.type));
  return error(hktInvalidUsage, "%s on rank %d: rank %d has sent %llu elements, more than the %llu there is room for",
               t.describe().c_str(), comm_.rank(), p.rank, static_cast<ull>(head.count),
               static_cast<ull>(t.spec.count));
}

bool PointToPoint::pull(Partner& p) {
  bool moved = false;
  uint32_t theirs = 0;
  while (p.in->pop_mismatch(0, &theirs)) {  // 0 is nobody's: tells what is there
    if (!p.arriving) {
      if (!begin(p, theirs)) return moved;
    } else {
      const uint64_t n = std::min<uint64_t>(p.head.bytes() - p.got, p.in->slot_bytes());
      place(p, p.in->pop_begin(n), n);
    }
    p.in->pop();
    moved = true;
    if (p.got == p.head.bytes()) end(p);
  }
  return moved;
}

// The first slot of a message. False: it stays where it is, for now or (a fault) for good.
bool PointToPoint::begin(Partner& p, uint32_t signature) {
  if (comm_.watch_.failed()) return false;
  Head head{};
  const unsigned char* const at = p.in->pop_begin(signature == short_ ? sizeof head : RingGeometry::kInline + 1);
  std::memcpy(&head, at, sizeof head);
  if ((signature != short_ && signature != long_) || !head.good()) {
    (void)comm_.watch_.fail({hktRemoteError, p.rank, 0, format("rank %d sent what makes no sense", p.rank)});
    return false;
  }
  Transfer* const t = claim(p, head);
  if (t == nullptr && may_wait(p, head)) return false;
  p.aside = t == nullptr ? keep(p, head) : nullptr;
  p.into = t;
  p.fit = t != nullptr ? fits(p, head, *t) : Status();
  p.head = head;
  p.got = 0;
  p.arriving = true;
  place(p, at + sizeof head, std::min<uint64_t>(head.bytes(), p.in->slot_bytes() - sizeof head));
  return true;
}

// A large message that nobody has asked for may stay in the link, where it costs nothing, unless somebody waits for
// what is behind it, or this rank sends: its receiver might be in the same position.
bool PointToPoint::may_wait(const Partner& p, const Head& head) const {
  return p.posted.empty() && anybody_.empty() && sending_ == 0 && (head.bytes() > kSmall || p.kept > kKept);
}

void PointToPoint::place(Partner& p, const unsigned char* bytes, uint64_t n) {
  if (p.into != nullptr && p.fit.ok() && n != 0)
    std::memcpy(static_cast<unsigned char*>(p.into->spec.buf) + p.got, bytes, n);
  else if (p.aside != nullptr && n != 0)
    std::memcpy(p.aside->bytes.get() + p.got, bytes, n);
  p.got += n;
}

void PointToPoint::end(Partner& p) {
  p.arriving = false;
  Unexpected* const u = p.aside;
  Transfer* const t = p.into;
  p.aside = nullptr;
  p.into = nullptr;
  if (t != nullptr && p.fit.ok())
    succeed(p, p.head, t);
  else if (t != nullptr)
    finish(t, &p.fit.error());
  if (u == nullptr) return;
  u->got = p.got;
  if (u->claimed != nullptr) hand_over(p, u, u->claimed);
}

bool PointToPoint::poll() {
  bool moved = false;
  for (Partner* const p : open_) {
    if (p->out != nullptr && !p->sends.empty()) moved |= push(*p);
    if (p->in != nullptr) moved |= pull(*p);
  }
  if (!leaving_.empty() && waiter_.flushed()) {
    while (Transfer* const t = leaving_.pop()) finish(t);
    moved = true;
  }
  return moved;
}

// --- waiting

Blocked PointToPoint::blocked(const Channel* channel) const {
  Blocked b;
  const auto counts = [&](const Transfer* t) { return channel == nullptr || t->spec.channel == *channel; };
  const auto any = [&](const Queue<Transfer>& q) {
    for (const Transfer* t = q.front(); t != nullptr; t = t->next)
      if (counts(t)) return true;
    return false;
  };
  const bool anybody = any(anybody_);
  for (const auto& p : partners_) {
    if (p == nullptr) continue;
    uint32_t theirs = 0;
    const Transfer* const coming = p->into != nullptr ? p->into : p->aside != nullptr ? p->aside->claimed : nullptr;
    const bool receives =
        any(p->posted) || (coming != nullptr && counts(coming)) || (anybody && p->rank != comm_.rank());
    if ((any(p->sends) && p->out != nullptr && !p->out->push_ready()) ||
        (receives && (p->in == nullptr || !p->in->pop_mismatch(0, &theirs))))
      b.peers.push_back(p->rank);
  }
  return b;
}

std::string PointToPoint::waited_for(int peer) const {
  if (peer == HKT_ANY_SOURCE) return "any rank";
  std::string text = format("rank %d", peer);
  const Transport* const route = comm_.parts_.route[static_cast<size_t>(peer)];
  if (route == nullptr) return text + ", which is itself";
  if (const auto last = route->announced(peer, 0))
    text += format(", whose last collective is call %llu, %s", static_cast<ull>(last->seq), describe(*last).c_str());
  return text;
}

// True if its deadline has passed and the communicator has failed of it.
bool PointToPoint::overdue(Transfer& t, int64_t now) {
  if (t.started_ns == 0) t.started_ns = now;
  const int64_t waited = now - t.started_ns;
  if (waited >= kWarnAfter && !t.warned) {
    t.warned = true;
    HKT_WARN(coll, (LogId{comm_.rank(), comm_.size()}), "%s has been waiting for 10 s for %s", t.describe().c_str(),
             waited_for(t.spec.peer).c_str());
  }
  if (t.timeout_ms < 0 || waited / 1'000'000 < t.timeout_ms) return false;
  (void)comm_.watch_.fail(
      {hktTimeout, t.spec.peer == HKT_ANY_SOURCE ? -1 : t.spec.peer, 0,  // whose fault it is, nobody knows
       format("%s on rank %d timed out after %lld ms waiting for %s", t.describe().c_str(), comm_.rank(),
              static_cast<long long>(t.timeout_ms), waited_for(t.spec.peer).c_str())});
  return true;
}

void PointToPoint::check() {
  const int64_t now = now_ns();
  for (const auto& t : transfers_)
    if (t->live && t->spec.channel == Channel::user && overdue(*t, now)) return;
  check_left();
}

// A peer that has left is missed by what waits for it, and the last one by what waits for anybody.
void PointToPoint::check_left() {
  int left = 0;
  for (const int p : blocked().peers) {
    if (!comm_.watch_.has_left(p, *this)) continue;
    ++left;
    const auto concerns = [&](const auto& t) { return t->live && t->spec.peer == p; };
    const auto t = std::find_if(transfers_.begin(), transfers_.end(), concerns);
    if (t == transfers_.end() && !anybody_.empty() && left + 1 < comm_.size()) continue;
    const std::string what = t == transfers_.end() ? (anybody_.empty() ? "a transfer" : anybody_.front()->describe())
                             : (*t)->spec.channel == Channel::internal ? comm_.watch_.present_call()
                                                                       : (*t)->describe();
    (void)comm_.watch_.fail({hktRemoteError, p, 0,
                             format("rank %d has destroyed its communicator, but rank %d waits for it in %s", p,
                                    comm_.rank(), what.c_str())});
    return;
  }
}

void PointToPoint::fail(const Error& e) {
  waiter_.reclaim();  // buffers go back to their callers
  for (const auto& t : transfers_)
    if (t->live) finish(t.get(), &e);
  leaving_.clear();
  anybody_.clear();
  for (Partner* const p : open_) {
    p->sends.clear();
    p->posted.clear();
    while (Unexpected* const u = p->unexpected.front()) forget(*p, u);
    p->arriving = false;
    p->into = nullptr;
    p->aside = nullptr;
  }
}

}  // namespace hocket
