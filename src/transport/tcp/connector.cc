#include "transport/tcp/connector.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/deadline.h"
#include "transport/tcp/fault_frame.h"

namespace hocket::tcp {
namespace {

Status report(int epoll, int op, int fd, uint32_t events) {
  epoll_event e{};
  e.events = events;  // data stays 0: the connector's
  if (epoll_ctl(epoll, op, fd, &e) != 0) return sys_error("cannot have a socket watched by epoll");
  return {};
}

}  // namespace

Result<std::vector<Address>> Connector::parse_contact(std::string_view bytes) {
  std::vector<Address> out;
  if (bytes.empty()) return out;
  const auto count = static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(1);
  if (count == 0 || count > Port::kMaxAddresses)
    return error(hktRemoteError, "%u addresses, expected 1 to %zu", unsigned{count}, Port::kMaxAddresses);
  for (unsigned i = 0; i < count; ++i) {
    const auto address = Address::decode(bytes);
    if (!address || address->port() == 0)
      return error(hktRemoteError, "address %u of %u is malformed", i + 1, unsigned{count});
    out.push_back(*address);
  }
  if (!bytes.empty()) return error(hktRemoteError, "%zu bytes too many", bytes.size());
  return out;
}

Connector::Dial* Connector::find_dial(int rank) {
  const auto d = std::find_if(dials_.begin(), dials_.end(), [&](const Dial& x) { return x.rank == rank; });
  return d == dials_.end() ? nullptr : &*d;
}

Status Connector::dial(int rank, std::vector<Way> ways, Purpose purpose) {
  if (find_dial(rank) != nullptr) return {};
  Dial d;
  d.rank = rank;
  d.purpose = purpose;
  d.ways = std::move(ways);
  HKT_TRY(try_next(d, now_ns()));
  dials_.push_back(std::move(d));
  return {};
}

// Starts to connect to the next address. A refusal is noted; an error is this process's own.
Status Connector::try_next(Dial& d, int64_t now) {
  const Way& way = d.ways[d.next++];
  d.next_at = now + kNextAfterNs;
  Result<Fd> started = start_connect(way.to, way.from.valid() ? &way.from : nullptr);
  if (!started) {
    if (started.error().code != hktRemoteError) return std::move(started.error());
    d.failures += (d.failures.empty() ? "" : "; ") + started.error().text;
    d.next_at = now;
    return {};
  }
  HKT_TRY(report(config_.epoll, EPOLL_CTL_ADD, started->get(), EPOLLOUT));
  Pending p;
  p.fd = std::move(*started);
  p.peer = way.to;
  p.rank = d.rank;
  p.purpose = d.purpose;
  p.since = now;
  pending_.push_back(std::move(p));
  return {};
}

void Connector::run_dials(Events& events, int64_t now) {
  for (size_t i = dials_.size(); i-- > 0;) {
    Dial& d = dials_[i];
    const auto open = [&] {
      return std::any_of(pending_.begin(), pending_.end(), [&](const Pending& p) {
        const bool same = (p.purpose == Purpose::share) == (d.purpose == Purpose::share);
        return p.rank == d.rank && same && p.state != State::watched;
      });
    };
    while (d.next < d.ways.size() && (now >= d.next_at || !open())) {
      if (Status s = try_next(d, now); !s) {
        note_failure(d.rank, d.ways[d.next - 1].to, s.error().text);
        d.inconclusive = true;
        d.next = d.ways.size();
        if (d.purpose == Purpose::carry) events.failed.push_back({config_.rank, std::move(s.error())});
      }
    }
    if (open()) continue;
    // That a rank which is only watched cannot be reached proves something if it was tried: it may yet connect itself.
    // One connection less of several is no fault.
    if (d.purpose == Purpose::share) events.fewer.push_back({d.rank, error(hktRemoteError, "%s", d.failures.c_str())});
    if (d.purpose == Purpose::carry || (d.purpose == Purpose::watch && !d.inconclusive))
      events.failed.push_back(
          {d.rank,
           error(hktRemoteError,
                 "rank %d cannot be reached: %s: it has died, or a firewall or HOCKET_SOCKET_IFNAME is in the way",
                 d.rank, d.failures.c_str())});
    dials_.erase(dials_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Connector::note_failure(int rank, const Address& address, const std::string& why) {
  HKT_INFO(net, config_.log, "no connection to rank %d at %s: %s", rank, address.text().c_str(), why.c_str());
  if (Dial* d = find_dial(rank); d != nullptr)
    d->failures += format("%s%s %s", d->failures.empty() ? "" : "; ", address.text().c_str(), why.c_str());
}

// Why this way won.
void Connector::tell(const Pending& winner) {
  const Dial* d = find_dial(winner.rank);
  if (d == nullptr || !log_enabled(LogLevel::info, Subsys::net)) return;
  std::string others;
  for (const Pending& p : pending_)
    if (p.rank == winner.rank && &p != &winner && p.state != State::watched)
      others += "; " + p.peer.text() + (p.state == State::connecting ? " has not answered yet" : " answers, too");
  if (!d->failures.empty()) others += "; " + d->failures;
  if (d->next < d->ways.size()) others += format("; %zu more were not tried", d->ways.size() - d->next);
  const Result<Address> mine = local_address(winner.fd.get());
  HKT_INFO(net, config_.log, "rank %d answers first at %s (from %s)%s", winner.rank, winner.peer.text().c_str(),
           mine.ok() ? mine.value().host().c_str() : "?", others.c_str());
}

void Connector::drop(const Address& peer, const char* why) {
  HKT_INFO(net, config_.log, "dropped a connection from %s: %s", peer.text().c_str(), why);
}

// Somebody who knows the nonce has connected and said hello.
void Connector::welcome(Port::Visitor& visitor, Events& events) {
  const Hello& h = visitor.hello;
  const auto me = static_cast<uint32_t>(config_.rank);
  const bool watch = h.purpose == static_cast<uint32_t>(Purpose::watch);
  const bool tell = h.purpose == static_cast<uint32_t>(Purpose::tell);
  const bool share = h.purpose == static_cast<uint32_t>(Purpose::share);
  if (h.rank >= static_cast<uint32_t>(config_.nranks) || h.rank == me || (!tell && watch != (h.rank < me))) {
    drop(visitor.peer, "its rank is none that connects to this one");
    return;
  }
  Pending p;
  p.fd = std::move(visitor.fd);
  p.peer = visitor.peer;
  p.rank = static_cast<int>(h.rank);
  p.purpose = share ? Purpose::share : Purpose::carry;
  p.since = now_ns();
  p.got = visitor.early.size();
  std::memcpy(p.bytes.data(), visitor.early.data(), p.got);
  if (Status s = report(config_.epoll, EPOLL_CTL_ADD, p.fd.get(), EPOLLIN); !s) {
    events.failed.push_back({config_.rank, std::move(s.error())});
    return;
  }
  if (Status s = check_hello(h, p.rank); !s) {
    (void)say_hello(p, Purpose::carry);  // so that they see it, too
    events.failed.push_back({p.rank, std::move(s.error())});
    return;
  }
  p.state = tell ? State::listening : watch ? State::watched : State::answered;
  if (tell || watch || say_hello(p, Purpose::carry)) pending_.push_back(std::move(p));
}

Hello Connector::Config::hello(Purpose purpose) const {
  Hello h;
  h.nonce = nonce;
  h.rank = static_cast<uint32_t>(rank);
  h.size = static_cast<uint32_t>(nranks);
  h.epoch = limits.epoch;
  h.depth = limits.geometry.depth;
  h.slot_bytes = limits.geometry.slot_bytes;
  h.ack_batch = limits.geometry.ack_batch;
  h.tags = limits.tags;
  h.purpose = static_cast<uint32_t>(purpose);
  return h;
}

bool Connector::say_hello(const Pending& p, Purpose purpose) const {
  const Hello h = config_.hello(purpose);
  Result<size_t> sent = send_some(p.fd.get(), &h, sizeof h);  // the first bytes of a connection always fit
  return sent && *sent == sizeof h;
}

// A hello that knows the nonce: does that rank agree on everything else?
Status Connector::check_hello(const Hello& h, int rank) const {
  if (h.version != kWireVersion)
    return error(hktInvalidUsage,
                 "rank %d speaks version %u of the wire protocol, rank %d version %u: use one library version", rank,
                 h.version, config_.rank, kWireVersion);
  const Limits& l = config_.limits;
  const RingGeometry theirs{h.depth, h.slot_bytes, h.ack_batch};
  if (h.size != static_cast<uint32_t>(config_.nranks) || h.epoch != l.epoch || !(theirs == l.geometry) ||
      h.tags != l.tags)
    return error(hktInvalidUsage,
                 "rank %d is of another communicator or set up differently: %u ranks, epoch %u, %u links of %u x %u "
                 "bytes there; %d, "
                 "%u, %u, %u x %u on rank %d",
                 rank, h.size, h.epoch, h.tags, h.depth, h.slot_bytes, config_.nranks, l.epoch, unsigned{l.tags},
                 l.geometry.depth, l.geometry.slot_bytes, config_.rank);
  return {};
}

bool Connector::fill(Pending& p, size_t size, bool* alive) {
  while (p.got < size) {
    Result<size_t> n = recv_some(p.fd.get(), p.bytes.data() + p.got, size - p.got);
    *alive = n.ok();
    if (!n || *n == 0) return false;
    p.got += *n;
  }
  return true;
}

Connector::Step Connector::advance_connected(Pending& p, Events& events) {
  Dial* d = find_dial(p.rank);
  if (d == nullptr) return Step::drop;
  if (Status s = finish_connect(p.fd.get(), p.peer); !s) {
    note_failure(p.rank, p.peer, s.error().text);
    return Step::drop;
  }
  // Somebody listens there. If it is the right rank, it may be far from its next call: time for the other addresses is
  // plenty.
  d->next_at = now_ns() + (d->purpose == Purpose::watch ? INT64_MAX / 2 : kHelloNs);
  note_time(p);
  if (config_.secret == nullptr) return introduce(p, *d);
  if (Status s = report(config_.epoll, EPOLL_CTL_MOD, p.fd.get(), EPOLLIN); !s) {
    note_failure(p.rank, p.peer, s.error().text);
    return Step::drop;
  }
  p.state = State::proving;
  p.proof = Handshake::connecting(config_.secret, format("rank %d (%s)", p.rank, p.peer.text().c_str()));
  return prove(p, events);
}

// Before this rank says something on a new connection: the other side lets go of who is silent for longer than
// kStrayNs.
void Connector::note_time(Pending& p) { p.late = p.late || now_ns() - p.since > Port::kStrayNs; }

// A connection has come to nothing because this rank was late: the next one will not.
void Connector::start_again(Dial& d) {
  d.next = 0;
  d.failures.clear();
}

// Says hello to who listens there, and, with a secret, has proven to know it.
Connector::Step Connector::introduce(Pending& p, Dial& d) {
  note_time(p);
  if (!say_hello(p, d.purpose)) {
    note_failure(p.rank, p.peer, "closed at once");
    if (p.late) start_again(d);
    return Step::drop;
  }
  if (Status s = report(config_.epoll, EPOLL_CTL_MOD, p.fd.get(), EPOLLIN); !s) {
    note_failure(p.rank, p.peer, s.error().text);
    return Step::drop;
  }
  p.state = d.purpose == Purpose::watch ? State::watching : State::said;
  return Step::keep;
}

Connector::Step Connector::read_hello(Pending& p, Events& events) {
  bool alive = true;
  if (!fill(p, sizeof(Hello), &alive)) {
    if (alive) return Step::keep;
    const std::string_view said(reinterpret_cast<const char*>(p.bytes.data()), p.got);
    if (auto refusal = refusal_in(said, format("rank %d (%s)", p.rank, p.peer.text().c_str()))) {
      events.failed.push_back({p.rank, *std::move(refusal)});
      return Step::failed;
    }
    note_failure(p.rank, p.peer, "closed before its hello: not of this job");
    if (Dial* const d = find_dial(p.rank); p.late && d != nullptr) start_again(*d);
    return Step::drop;
  }
  Hello h;
  std::memcpy(&h, p.bytes.data(), sizeof h);
  p.got = 0;
  // Of two addresses that answered in one round the first is taken.
  if (std::any_of(events.made.begin(), events.made.end(),
                  [&](const Made& m) { return m.rank == p.rank && m.purpose == p.purpose; }))
    return Step::drop;
  const bool ours = h.magic == kMagic && h.auth == 0 && h.nonce == config_.nonce;
  if (!ours || h.rank != static_cast<uint32_t>(p.rank)) {
    note_failure(p.rank, p.peer, ours ? format("rank %u answers there", h.rank) : "not of this job");
    return Step::drop;
  }
  if (Status s = check_hello(h, p.rank); !s) {
    events.failed.push_back({p.rank, std::move(s.error())});
    return Step::failed;
  }
  Header go;
  go.epoch = config_.limits.epoch;
  go.kind = Kind::go;
  Result<size_t> sent = send_some(p.fd.get(), &go, sizeof go);
  if (sent && *sent == sizeof go) {
    tell(p);
    return Step::made;
  }
  note_failure(p.rank, p.peer, "closed after its hello");
  return Step::drop;
}

Connector::Step Connector::read_go(Pending& p) {
  bool alive = true;
  if (!fill(p, sizeof(Header), &alive)) return alive ? Step::keep : Step::drop;  // the other side took another address
  Header go;
  std::memcpy(&go, p.bytes.data(), sizeof go);
  if (go.kind == Kind::go && go.epoch == config_.limits.epoch && go.length == 0) return Step::made;
  drop(p.peer, "no go after its hello");
  return Step::drop;
}

Connector::Step Connector::read_fault(Pending& p, Events& events) {
  bool alive = true;
  if (!fill(p, sizeof(Header), &alive)) return alive ? Step::keep : Step::drop;
  Header h;
  std::memcpy(&h, p.bytes.data(), sizeof h);
  const bool fits = h.length >= sizeof(FaultHead) && h.length <= kMaxControl;
  if (h.kind != Kind::fault || h.epoch != config_.limits.epoch || !fits) {
    drop(p.peer, "it came to tell of a fault and did not");
    return Step::drop;
  }
  if (!fill(p, sizeof h + h.length, &alive)) return alive ? Step::keep : Step::drop;
  if (Result<Fault> fault = unpack_fault(p.bytes.data() + sizeof h, h.length, config_.nranks); fault.ok())
    events.told.push_back({p.rank, std::move(*fault)});
  else
    drop(p.peer, fault.error().text.c_str());
  return Step::drop;
}

Connector::Step Connector::advance(Pending& p, short revents, Events& events) {
  switch (p.state) {
    case State::connecting:
      return revents == 0 ? Step::keep : advance_connected(p, events);
    case State::proving:
      return revents == 0 ? Step::keep : prove(p, events);
    case State::said:
      return revents == 0 ? Step::keep : read_hello(p, events);
    case State::answered:
      return revents == 0 ? Step::keep : read_go(p);
    case State::listening:
      // What came sealed is here already.
      return revents == 0 && p.got == 0 ? Step::keep : read_fault(p, events);
    case State::watched:
      return revents == 0 ? Step::keep : Step::drop;  // nothing is ever sent on a watch: it can only end
    case State::watching:
      if (revents == 0) return Step::keep;
      if (Dial* const d = find_dial(p.rank); p.late && d != nullptr) {
        start_again(*d);
        return Step::drop;
      }
      p.state = State::ended;
      p.since = now_ns();
      p.fd.reset();
      return Step::keep;
    case State::ended:
      break;
  }
  if (now_ns() - p.since < kEndedNs) return Step::keep;
  events.failed.push_back({p.rank, error(hktRemoteError, "rank %d (%s) has ended before it connected to rank %d",
                                         p.rank, p.peer.text().c_str(), config_.rank)});
  return Step::failed;
}

void Connector::progress(Events& events, std::vector<Port::Visitor>& visitors) {
  const int64_t now = now_ns();
  for (Port::Visitor& v : visitors) welcome(v, events);
  polls_.clear();
  for (const Pending& p : pending_)
    polls_.push_back({p.fd.get(), static_cast<short>(p.state == State::connecting ? POLLOUT : POLLIN), 0});
  if (!polls_.empty() && poll(polls_.data(), polls_.size(), 0) < 0) return;  // EINTR: the next round does it
  for (size_t i = pending_.size(); i-- > 0;) {
    Pending& p = pending_[i];
    Step step = advance(p, polls_[i].revents, events);
    if (step == Step::keep && p.state == State::connecting && now - p.since > kConnectNs) {
      note_failure(p.rank, p.peer, "does not answer");
      if (Dial* d = find_dial(p.rank); d != nullptr) d->inconclusive = true;
      step = Step::drop;
    }
    if (step == Step::keep) continue;
    if (step == Step::made) events.made.push_back({p.rank, std::move(p.fd), p.peer, p.purpose});
    if (i + 1 != pending_.size()) p = std::move(pending_.back());
    pending_.pop_back();
  }
  for (const Made& m : events.made) settle(m.rank, m.purpose);
  for (const Failed& f : events.failed) settle(f.rank);
  run_dials(events, now);
}

void Connector::settle(int rank, Purpose purpose) {
  // A watch is its owner's to close: were it to end before the new connection is seen there, it would look like a
  // death. Of those that share, each that the other side has begun is one more.
  const bool shares = purpose == Purpose::share;
  std::erase_if(pending_, [&](const Pending& p) {
    const bool kept = p.state == State::watched || (shares && p.state == State::answered);
    return p.rank == rank && !kept && (p.purpose == Purpose::share) == shares;
  });
  std::erase_if(dials_, [&](const Dial& d) { return d.rank == rank && (d.purpose == Purpose::share) == shares; });
}

}  // namespace hocket::tcp
