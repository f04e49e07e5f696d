#include "transport/tcp/tcp_transport.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/deadline.h"
#include "transport/geometry.h"
#include "transport/tcp/fault_frame.h"
#include "transport/tcp/peer.h"

namespace hocket::tcp {

Status TcpTransport::Peer::control(const Header& header, const unsigned char* payload) {
  switch (header.kind) {
    case Kind::ack:
      return out.acked(header.tag, header.call);
    case Kind::announce: {
      CallRecord call;
      std::memcpy(&call, payload, sizeof call);
      if (call.seq <= calls.latest())
        return error(hktRemoteError, "call %llu announced after call %llu", static_cast<unsigned long long>(call.seq),
                     static_cast<unsigned long long>(calls.latest()));
      calls.write(call);
      return {};
    }
    case Kind::fault: {
      HKT_ASSIGN(const Fault fault, unpack_fault(payload, header.length, transport.config_.nranks));
      transport.heard(fault);
      return {};
    }
    case Kind::goodbye:
      goodbye = true;
      return {};
    case Kind::data:
    case Kind::part:
    case Kind::go:
      break;
  }
  return error(hktInternalError, "a frame of kind %u passed the check of the inbox",
               static_cast<unsigned>(header.kind));
}

TcpTransport::TcpTransport(const Config& config, std::shared_ptr<Port> port, Fd epoll, Fd wake)
    : config_(config),
      limits_{config.geometry, config.tags, config.epoch},
      pid_(getpid()),
      port_(std::move(port)),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      connector_({config.rank, config.nranks, config.nonce, limits_, config.log, epoll_.get(), config.secret}) {
  const auto n = static_cast<size_t>(config.nranks);
  peers_.resize(n);
  up_.reserve(n);
  queued_.reserve(n);
}

Result<std::unique_ptr<TcpTransport>> TcpTransport::listen(const Config& config) {
  HKT_ASSIGN(std::shared_ptr<Port> port, Port::listen(config.addresses, {config.rank, config.nranks, config.log,
                                                                         config.nets, config.bound, config.secret}));
  return share(config, std::move(port));
}

Result<std::unique_ptr<TcpTransport>> TcpTransport::share(const Config& config, std::shared_ptr<Port> port) {
  HKT_TRY(check_geometry(config.geometry));
  if (config.nranks < 1 || config.nranks > 65536 || config.rank < 0 || config.rank >= config.nranks)
    return error(hktInvalidArgument, "rank %d of %d: TCP links carry ranks 0 to 65535", config.rank, config.nranks);
  if (config.tags == 0 || config.tags > kMaxTags)
    return error(hktInvalidArgument, "%u links per pair of ranks: 1 to %u are expected", unsigned{config.tags},
                 unsigned{kMaxTags});
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return descriptor_error("cannot make an epoll descriptor");
  Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return descriptor_error("cannot make an eventfd");
  epoll_event e{};
  e.events = EPOLLIN;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &e) != 0)
    return sys_error("cannot have an eventfd watched by epoll");
  std::unique_ptr<TcpTransport> t(new TcpTransport(config, std::move(port), std::move(epoll), std::move(wake)));
  t->port_->open_door(config.nonce, t->wake_.get());
  return t;
}

TcpTransport::~TcpTransport() {
  if (getpid() != pid_) return;  // a forked child: connections and door are its parent's
  {
    const TurnLock lock(turn_);
    say_goodbye();
  }
  port_->close_door(config_.nonce);
}

Status TcpTransport::set_contacts(const std::vector<std::string>& by_rank) {
  const TurnLock lock(turn_);
  if (by_rank.size() != peers_.size())
    return error(hktInvalidArgument, "TCP contacts of %zu ranks for a communicator of %zu", by_rank.size(),
                 peers_.size());
  std::vector<std::vector<Way>> contacts;
  for (size_t r = 0; r < by_rank.size(); ++r) {
    Result<std::vector<Address>> addresses = Connector::parse_contact(by_rank[r]);
    if (!addresses) return error(hktRemoteError, "TCP contact of rank %zu: %s", r, addresses.error().text.c_str());
    contacts.push_back(port_->ways(*addresses));
  }
  contacts_ = std::move(contacts);
  return {};
}

Result<Link> TcpTransport::open_send(int peer, uint16_t tag) {
  const TurnLock lock(turn_);
  return open(peer, tag, End::send);
}

Result<Link> TcpTransport::open_recv(int peer, uint16_t tag) {
  const TurnLock lock(turn_);
  return open(peer, tag, End::recv);
}

Result<Link> TcpTransport::open(int rank, uint16_t tag, End end) {
  if (rank < 0 || rank >= config_.nranks || rank == config_.rank || tag >= config_.tags)
    return error(hktInvalidArgument, "no TCP link %u between ranks %d and %d: there are %d ranks and links 0 to %u",
                 unsigned{tag}, config_.rank, rank, config_.nranks, unsigned{config_.tags} - 1);
  if (contacts_.empty())
    return error(hktInvalidUsage, "a TCP link was opened before the contacts of the ranks were set");
  Peer& p = peer(rank);
  uint64_t& opened = p.opened[static_cast<size_t>(end)];
  const uint64_t bit = uint64_t{1} << tag;
  if ((opened & bit) != 0)
    return error(hktInvalidUsage, "TCP link %u between ranks %d and %d was opened twice", unsigned{tag}, config_.rank,
                 rank);
  HKT_ASSIGN(unsigned char* const ring, end == End::send ? p.out.open(tag) : p.in.open(tag));
  // What a peer had sent before it left is there to be popped; for all else it must be connected.
  if (end == End::send || !p.in.arrived(tag)) HKT_TRY(want(p));
  opened |= bit;
  Link::Setup setup;
  setup.ring = ring;
  setup.geometry = config_.geometry;
  setup.pump = this;
  setup.lends = true;
  setup.id = static_cast<uint32_t>(rank) << 16 | tag;
  return Link(setup);
}

TcpTransport::Peer& TcpTransport::peer(int rank) {
  std::unique_ptr<Peer>& p = peers_[static_cast<size_t>(rank)];
  if (p == nullptr) p = std::make_unique<Peer>(*this, rank);
  return *p;
}

// A link to or from this peer was opened here: it must be connected.
Status TcpTransport::want(Peer& p) {
  if (p.state == Peer::State::gone && p.goodbye)
    return error(hktRemoteError, "rank %d (%s) has destroyed its communicator", p.rank, p.address.c_str());
  if (p.state != Peer::State::idle) return {};
  const std::vector<Way>& ways = contacts_[static_cast<size_t>(p.rank)];
  if (ways.empty())
    return error(hktInvalidUsage,
                 "rank %d has no TCP address that rank %d can connect to (HOCKET_SOCKET_IFNAME and "
                 "HOCKET_SOCKET_FAMILY), but a link with it",
                 p.rank, config_.rank);
  if (p.rank < config_.rank) HKT_TRY(connector_.dial(p.rank, ways, Purpose::carry));
  p.state = Peer::State::wanted;
  p.wanted_at = now_ns();
  ++missing_;
  return {};
}

Status TcpTransport::connect_all() {
  const TurnLock lock(turn_);
  if (contacts_.empty())
    return error(hktInvalidUsage, "TCP connections were asked for before the contacts of the ranks were set");
  for (int r = 0; r < config_.nranks; ++r)
    if (r != config_.rank) HKT_TRY(want(peer(r)));
  return {};
}

size_t TcpTransport::connected() const {
  const TurnLock lock(turn_);
  return up_.size();
}

size_t TcpTransport::sockets(int rank) const {
  const TurnLock lock(turn_);
  const Peer* p = rank < 0 || rank >= config_.nranks ? nullptr : peers_[static_cast<size_t>(rank)].get();
  return p == nullptr || p->state != Peer::State::up ? 0 : 1 + p->shares.size();
}

// --- moving data

void TcpTransport::pushed(Link& link, uint32_t bytes, const void* lent) {
  const TurnLock lock(turn_);
  Peer& p = *peers_[link.id() >> 16];
  const bool at_once = p.out.unsent() == 0;  // else the socket is full or not there: progress() goes on with it
  p.out.push(static_cast<uint16_t>(link.id()), bytes, lent);
  if (bytes >= config_.striping.from) widen(p);
  if (at_once) flush(p);
  flush_later(p);
  if (p.state == Peer::State::gone && p.goodbye)
    blame(p.rank, hktRemoteError,
          format("rank %d (%s) has destroyed its communicator, but rank %d sends to it", p.rank, p.address.c_str(),
                 config_.rank));
}

void TcpTransport::popped(Link& link) {
  const TurnLock lock(turn_);
  Peer& p = *peers_[link.id() >> 16];
  const auto tag = static_cast<uint16_t>(link.id());
  p.out.credit(tag, p.in.credit(tag));
  flush_later(p);  // it leaves with the next message, or with the next progress()
}

bool TcpTransport::flush(Peer& p) {
  if (p.state != Peer::State::up || !p.send_error.empty()) return false;
  bool moved = false;
  // In turns, so that each socket takes a part of what goes by several.
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i <= p.shares.size(); ++i) {
      Peer::Share* const share = i == 0 ? nullptr : p.shares[i - 1].get();
      if (share != nullptr && share->in.over()) continue;  // the peer leaves
      Result<Outbox::Flow> flow = share == nullptr ? p.out.flush(p.fd.get()) : p.out.flush(share->out, share->fd.get());
      if (!flow) {
        p.send_error = flow.error().text;
        // The peer closes a connection that is gone, and its last words come first; a fault of this rank is known now.
        if (flow.error().code != hktRemoteError) blame(config_.rank, flow.error().code, p.send_error);
        return moved;
      }
      moved = moved || *flow != Outbox::Flow::stopped;
      more = more || *flow == Outbox::Flow::more;
    }
  }
  return moved;
}

void TcpTransport::flush_later(Peer& p) {
  if (p.queued || p.all_sent()) return;
  p.queued = true;
  queued_.push_back(&p);
}

bool TcpTransport::flush_queued() {
  bool moved = false;
  size_t kept = 0;
  for (Peer* p : queued_) {
    moved |= flush(*p);
    // Messages that will never leave stay: flushed() must not come true for them.
    p->queued = p->state == Peer::State::gone ? p->out.unsent() != 0 : !p->all_sent();
    if (p->queued) queued_[kept++] = p;
  }
  queued_.resize(kept);
  return moved;
}

bool TcpTransport::receive(Peer& p, Sockets which) {
  Result<Inbox::Got> got = p.in.receive(p.fd.get(), p.stream, stage_, p);
  bool moved = got.ok() && *got == Inbox::Got::bytes;
  if (got && *got != Inbox::Got::end) {
    // Others are asked when a message has begun that they have parts of: each question is a system call.
    if (!p.shares.empty() && (which == Sockets::all || p.in.incomplete())) moved = receive_shares(p) || moved;
    if (p.more_shares == Peer::More::may && p.large()) widen(p);
    return moved;
  }
  if (!got) {
    blame_nonsense(p, got.error());
  } else {
    // A peer ends the first connection when all has come by the others, one of which may be new.
    if (p.in.incomplete()) connect();
    while (receive_shares(p))
      if (p.state != Peer::State::up) return true;
  }
  lose(p, p.stream.why_ended());
  return true;
}

// True if anything has come, or the peer is lost.
bool TcpTransport::receive_shares(Peer& p) {
  bool moved = false;
  for (size_t i = p.shares.size(); i-- > 0;) {
    Peer::Share& share = *p.shares[i];
    Result<Inbox::Got> got = p.in.receive(share.fd.get(), share.in, stage_, p);
    if (got && *got == Inbox::Got::bytes) moved = true;
    if (got && *got != Inbox::Got::end) continue;
    if (got) {
      // Why it has ended may be said on the first one: a fault, or a goodbye before this one carried anything.
      Result<Inbox::Got> last = Inbox::Got::bytes;
      while (last.ok() && *last == Inbox::Got::bytes) last = p.in.receive(p.fd.get(), p.stream, stage_, p);
      if (!last) got = std::move(last.error());
    }
    if (!got) blame_nonsense(p, got.error());
    if (got && (share.in.over() || (p.goodbye && !p.in.incomplete()))) {
      p.shares.erase(p.shares.begin() + static_cast<std::ptrdiff_t>(i));
      p.out.set_shares(p.shares.size());
      p.more_shares = Peer::More::none;
      moved = true;
      continue;
    }
    lose(p, share.in.why_ended());
    return true;
  }
  return moved;
}

bool TcpTransport::receive_ready() {
  bool moved = false;
  if (up_.size() <= kScan) {
    // Backwards, for lose() puts the last one into the gap.
    for (size_t i = up_.size(); i-- > 0;) moved |= receive(*up_[i], slept_ ? Sockets::all : Sockets::needed);
    return moved;
  }
  std::array<epoll_event, 32> events;
  const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool others = false;  // the eventfd, or a connection that is being made
  for (int i = 0; i < n; ++i) {
    auto* p = static_cast<Peer*>(events[static_cast<size_t>(i)].data.ptr);
    if (p == nullptr)
      others = true;
    else if (p->state == Peer::State::up)
      moved |= receive(*p, Sockets::all);
  }
  if (others) look_around();
  return moved;
}

bool TcpTransport::pump() {
  bool moved = flush_queued();
  if (++polls_ % kLookEvery == 0) slept_ = true;
  if (missing_ != 0 || slept_ || connector_.busy()) look_around();
  moved |= receive_ready();
  slept_ = false;
  return moved;
}

bool TcpTransport::progress() {
  const TurnLock lock(turn_);
  return pump();
}

bool TcpTransport::flushed() const {
  const TurnLock lock(turn_);
  return std::all_of(queued_.begin(), queued_.end(), [](const Peer* p) { return p->out.unsent() == 0; });
}

void TcpTransport::reclaim() {
  if (getpid() != pid_) return;  // a forked child sends nothing
  const TurnLock lock(turn_);
  for (const auto& p : peers_) {
    if (p == nullptr) continue;
    p->out.reclaim();
    for (const auto& share : p->shares) p->out.reclaim(share->out);
  }
}

void TcpTransport::poll_set(std::vector<pollfd>& fds) const {
  const TurnLock lock(turn_);
  fds.push_back({epoll_.get(), POLLIN, 0});
  fds.push_back({port_->fd(), POLLIN, 0});
  slept_ = true;
  for (const Peer* p : queued_) {
    if (p->state != Peer::State::up || !p->send_error.empty()) continue;
    bool shared = false;  // all that is left is on its way by others
    for (const auto& share : p->shares) {
      if (share->out.idle()) continue;
      shared = true;
      fds.push_back({share->fd.get(), POLLOUT, 0});
    }
    if (p->out.full() || !shared) fds.push_back({p->fd.get(), POLLOUT, 0});
  }
}

// --- calls and faults

void TcpTransport::announce(const CallRecord& call) {
  const TurnLock lock(turn_);
  calls_.write(call);
  if (call.seq - told_ >= kAnnounceCalls) announce_all();
}

void TcpTransport::announce_all() {
  for (Peer* p : up_) {
    p->out.announce();
    if (p->out.unsent() == 0) flush(*p);
    flush_later(*p);
  }
  told_ = calls_.latest();
  told_at_ = now_ns();
}

std::optional<CallRecord> TcpTransport::announced(int rank, uint64_t seq) const {
  const TurnLock lock(turn_);
  const Peer* p = rank < 0 || rank >= config_.nranks ? nullptr : peers_[static_cast<size_t>(rank)].get();
  const CallLog* log = rank == config_.rank ? &calls_ : p != nullptr ? &p->calls : nullptr;
  const CallRecord* call = log == nullptr ? nullptr : log->find(seq == 0 ? log->latest() : seq);
  return call == nullptr ? std::nullopt : std::optional<CallRecord>(*call);
}

std::optional<Fault> TcpTransport::fault() {
  const TurnLock lock(turn_);
  if (told_ != calls_.latest()) announce_all();
  if (missing_ != 0) watch_missing();
  slept_ = true;  // look at everything
  pump();
  return fault_;
}

bool TcpTransport::left(int rank) const {
  const TurnLock lock(turn_);
  const Peer* p = rank < 0 || rank >= config_.nranks ? nullptr : peers_[static_cast<size_t>(rank)].get();
  return p != nullptr && p->all_come();
}

void TcpTransport::raise(const Fault& fault) {
  const TurnLock lock(turn_);
  if (!fault_) fault_ = fault;
  spread(fault);
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);  // fails only if it is readable already
}

void TcpTransport::blame(int rank, Code code, std::string text) {
  if (!fault_) fault_ = Fault{code, rank, calls_.latest(), std::move(text)};
}

// It does not speak the protocol.
void TcpTransport::blame_nonsense(const Peer& p, const Error& error) {
  blame(p.rank, hktRemoteError,
        format("rank %d (%s) sent what makes no sense: %s", p.rank, p.address.c_str(), error.text.c_str()));
}

void TcpTransport::spread(const Fault& fault) {
  if (spread_) return;
  spread_ = fault;
  for (Peer* p : up_) {
    p->out.fault(fault);
    flush(*p);
    flush_later(*p);
  }
  // The others may need this rank, or one that leaves for the same reason, later: then nobody would be there to say
  // why.
  std::vector<Teller::Listener> others;
  for (int k = 1; k < config_.nranks && !contacts_.empty(); ++k) {
    const int r = (config_.rank + k) % config_.nranks;
    const Peer* const p = peers_[static_cast<size_t>(r)].get();
    const bool met = p != nullptr && (p->state == Peer::State::up || p->state == Peer::State::gone);
    const std::vector<Way>& ways = contacts_[static_cast<size_t>(r)];
    if (!met && !ways.empty()) others.push_back({r, ways});
  }
  if (others.empty()) return;
  teller_ = std::make_unique<Teller>(connector_.config(), fault, std::move(others));
  teller_->progress();
}

// From a peer.
void TcpTransport::heard(const Fault& fault) {
  if (!fault_) fault_ = fault;
  spread(fault);
}

}  // namespace hocket::tcp
