// What TcpTransport does that is not in the steady state: connections made, lost and ended.
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/pacing.h"
#include "transport/tcp/peer.h"
#include "transport/tcp/tcp_transport.h"

namespace hocket::tcp {

// What need not be done at every poll.
void TcpTransport::look_around() {
  if (teller_ != nullptr) teller_->progress();
  uint64_t raised = 0;
  (void)!read(wake_.get(), &raised, sizeof raised);  // nothing to read is fine, too: fault() tells
  connect();
  if (told_ != calls_.latest() && now_ns() - told_at_ > kAnnounceNs) announce_all();
}

void TcpTransport::connect() {
  events_.made.clear();
  events_.failed.clear();
  events_.told.clear();
  events_.fewer.clear();
  visitors_.clear();
  if (Status s = port_->receive(config_.nonce, visitors_); !s && missing_ != 0)  // else nobody is expected here
    events_.failed.push_back({config_.rank, std::move(s.error())});
  connector_.progress(events_, visitors_);
  // A rank that cannot be reached may have left: it has then told of the fault before it closed its port, so that this
  // is found now at the latest.
  if (!events_.failed.empty()) {
    visitors_.clear();
    (void)port_->receive(config_.nonce, visitors_);
    connector_.progress(events_, visitors_);
  }
  for (const Connector::Told& told : events_.told) {
    HKT_INFO(net, config_.log, "rank %d told of a fault: %s", told.rank, told.fault.text.c_str());
    heard(told.fault);
  }
  for (Connector::Made& made : events_.made)
    if (made.purpose == Purpose::share)
      adopt_share(made);
    else
      adopt(made);
  for (const Connector::Failed& fewer : events_.fewer) no_more_shares(peer(fewer.rank), fewer.error.text);
  for (Connector::Failed& failed : events_.failed) blame(failed.rank, failed.error.code, std::move(failed.error.text));
}

// A connection with p that has been made.
void TcpTransport::prepare(int fd, Peer& p) {
  // A host that is switched off says nothing: let the kernel find out. No TCP_USER_TIMEOUT, which would also end the
  // connection of a rank that computes for long between two calls and reads nothing.
  const int on = 1, idle = 10, interval = 5, count = 4;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  pace_if_far(fd);
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.ptr = &p;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &e) != 0)
    blame(config_.rank, hktSystemError,
          sys_error("cannot have the connection to rank %d watched by epoll", p.rank).text);
}

void TcpTransport::adopt(Connector::Made& made) {
  Peer& p = peer(made.rank);
  if (p.state == Peer::State::up || p.state == Peer::State::gone) {
    HKT_INFO(net, config_.log, "dropped a second connection of rank %d from %s", made.rank, made.peer.text().c_str());
    return;
  }
  if (p.state == Peer::State::wanted) --missing_;
  prepare(made.fd.get(), p);
  p.fd = std::move(made.fd);
  p.where = made.peer;
  p.address = made.peer.text();
  p.state = Peer::State::up;
  up_.push_back(&p);
  HKT_INFO(net, config_.log, "connected with rank %d at %s", p.rank, p.address.c_str());
  if (spread_) p.out.fault(*spread_);
  p.out.announce();
  if (p.large()) widen(p);
  flush(p);
  flush_later(p);
}

// --- further connections of a pair

void TcpTransport::adopt_share(Connector::Made& made) {
  Peer& p = peer(made.rank);
  if (p.state == Peer::State::gone || (p.goodbye && !p.in.incomplete()) || p.shares.size() + 1 >= kMaxSockets) {
    HKT_INFO(net, config_.log, "dropped a further connection of rank %d from %s", made.rank, made.peer.text().c_str());
    return;
  }
  prepare(made.fd.get(), p);
  p.shares.push_back(std::make_unique<Peer::Share>());
  p.shares.back()->fd = std::move(made.fd);
  p.out.set_shares(p.shares.size());
  HKT_INFO(net, config_.log, "%zu connections with rank %d, for large messages", p.shares.size() + 1, p.rank);
  if (p.more_shares == Peer::More::coming) p.more_shares = Peer::More::may;
  widen(p);
}

// Large messages flow between this rank and p: the higher one of them connects again, one at a time, to where the first
// connection is.
void TcpTransport::widen(Peer& p) {
  if (p.state != Peer::State::up || p.rank > config_.rank || p.more_shares != Peer::More::may || p.goodbye) return;
  if (p.shares.size() + 1 >= config_.striping.sockets || fault_) {
    p.more_shares = Peer::More::none;
    return;
  }
  p.more_shares = Peer::More::coming;
  Way way;
  for (const Way& w : contacts_[static_cast<size_t>(p.rank)])
    if (w.to == p.where) way = w;
  if (Status s = connector_.dial(p.rank, {way}, Purpose::share); !s) no_more_shares(p, s.error().text);
}

void TcpTransport::no_more_shares(Peer& p, const std::string& why) {
  p.more_shares = Peer::More::none;
  if (p.state != Peer::State::up || p.goodbye) return;  // it leaves: nothing of that is missed
  HKT_WARN(net, config_.log, "large messages to rank %d go by %zu connections, not %u: %s", p.rank, p.shares.size() + 1,
           config_.striping.sockets, why.c_str());
}

// A connection to p has ended, and with it all of them.
void TcpTransport::lose(Peer& p, const char* why) {
  p.state = Peer::State::gone;
  const std::string reason = why;  // it may go with the connection
  p.fd.reset();
  const bool in_order = p.all_come();
  p.shares.clear();
  *std::find(up_.begin(), up_.end(), &p) = up_.back();
  up_.pop_back();
  // A rank that leaves in the middle of a handshake, before this connection is one to it, has told of the fault at the
  // port, as it tells all that it is not connected with.
  if (!in_order && !fault_) connect();
  if (!in_order)
    blame(p.rank, hktRemoteError,
          format("the connection to rank %d (%s) is lost (%s): it has probably died", p.rank, p.address.c_str(),
                 reason.c_str()));
  else if (p.out.unsent() != 0)
    blame(p.rank, hktRemoteError,
          format("rank %d (%s) has destroyed its communicator, but rank %d sends to it", p.rank, p.address.c_str(),
                 config_.rank));
}

// A higher rank that should connect may have died before it did: nothing would ever tell.
void TcpTransport::watch_missing() {
  const int64_t now = now_ns();
  for (int r = config_.rank + 1; r < config_.nranks; ++r) {
    Peer* p = peers_[static_cast<size_t>(r)].get();
    if (p == nullptr || p->state != Peer::State::wanted || now - p->wanted_at < kWatchAfterNs) continue;
    // A watch is a help, no need: without a descriptor for it the call's deadline is left, and another try.
    if (Status s = connector_.dial(r, contacts_[static_cast<size_t>(r)], Purpose::watch); !s) {
      HKT_INFO(net, config_.log, "cannot watch rank %d, which has not connected: %s", r, s.error().text.c_str());
      p->wanted_at = now;
    }
  }
}

// --- leaving

// A connection must not be closed while what was sent is on its way: were anything to come in afterwards, the kernel
// would answer with a reset, and that destroys what the other side has not received. So each is closed for sending and
// read until the other side has closed, too, or its kernel has acknowledged all that was sent.
void TcpTransport::say_goodbye() {
  const Deadline deadline = Deadline::at(now_ns() + (fault_ || spread_ ? kFaultGoodbyeNs : kGoodbyeNs));
  for (Peer* p : up_) {
    if (p->shares.empty()) p->out.goodbye();
    for (const auto& share : p->shares) share->out.goodbye();
  }
  std::vector<pollfd> polls;
  while (!up_.empty() || !told()) {
    polls.clear();
    if (!told()) {
      teller_->progress();
      teller_->poll_set(polls);
    }
    for (size_t i = up_.size(); i-- > 0;) {
      Peer& p = *up_[i];
      if (see_off(p)) {
        p.fd.reset();
        p.shares.clear();
        up_[i] = up_.back();
        up_.pop_back();
      } else {
        const auto events = [](bool shut) { return static_cast<short>(shut ? POLLIN : POLLIN | POLLOUT); };
        polls.push_back({p.fd.get(), events(p.shut || !p.shares.empty()), 0});
        for (const auto& share : p.shares) polls.push_back({share->fd.get(), events(share->shut), 0});
      }
    }
    if ((up_.empty() && told()) || deadline.passed()) return;
    poll(polls.data(), polls.size(), 1);  // acknowledgements wake nobody: look again soon
  }
}

// What comes in is thrown away: true if the other side has closed, too, or has all that was sent.
bool TcpTransport::drained(int fd) {
  for (;;) {
    Result<size_t> n = recv_some(fd, stage_.bytes.data(), stage_.bytes.size());
    if (!n) return true;
    if (*n == 0) break;
  }
  int unacknowledged = 0;
  return ioctl(fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0;
}

// Further connections first: when the first one says goodbye, nothing is on its way by others.
bool TcpTransport::see_off_shares(Peer& p) {
  for (size_t i = p.shares.size(); i-- > 0;) {
    Peer::Share& share = *p.shares[i];
    (void)drained(share.fd.get());  // first: they may leave, too, and be waiting for room before they can read
    if (!share.out.idle() && !share.in.over()) continue;
    if (!share.shut) shutdown(share.fd.get(), SHUT_WR);
    share.shut = true;
    if (!drained(share.fd.get())) continue;
    p.shares.erase(p.shares.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return p.shares.empty();
}

// True when the connections may be closed.
bool TcpTransport::see_off(Peer& p) {
  flush(p);
  if (!p.send_error.empty()) return true;
  if (!p.shares.empty()) {
    if (!see_off_shares(p)) {
      (void)drained(p.fd.get());
      return false;
    }
    p.out.goodbye();
    flush(p);
  }
  if (p.out.idle() && !p.shut) {
    shutdown(p.fd.get(), SHUT_WR);
    p.shut = true;
  }
  return drained(p.fd.get()) && p.shut;
}

}  // namespace hocket::tcp
