#include "transport/tcp/port.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/deadline.h"
#include "base/network_env.h"

namespace hocket::tcp {
namespace {

constexpr int kAcceptsAtOnce = 64;

Status report(int epoll, int op, int fd) {
  epoll_event e{};
  e.events = EPOLLIN;
  if (epoll_ctl(epoll, op, fd, &e) != 0) return sys_error("cannot have a socket watched by epoll");
  return {};
}

}  // namespace

Result<std::shared_ptr<Port>> Port::listen(const std::vector<Address>& addresses, const Config& config) {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return descriptor_error("cannot make an epoll descriptor");
  std::shared_ptr<Port> port(new Port(config, std::move(epoll)));
  std::string why;
  for (const Address& address : addresses) {
    if (port->listeners_.size() == kMaxAddresses) {
      HKT_INFO(net, config.log, "only %zu of %zu network addresses are used", kMaxAddresses, addresses.size());
      break;
    }
    if (Status added = port->add(address); !added) {
      // One address that cannot be used (being configured, say) is no reason to give up; to have none is.
      HKT_WARN(net, config.log, "this address is left out: %s", added.error().text.c_str());
      why = added.error().text;
    }
  }
  if (port->listeners_.empty())
    return error(hktSystemError, "rank %d has no network address to listen on%s%s", config.rank,
                 why.empty() ? "" : ": ", why.c_str());
  return port;
}

Status Port::add(const Address& address) {
  HKT_ASSIGN(Fd listener, listen_in_range(address));
  HKT_ASSIGN(const Address bound, local_address(listener.get()));
  HKT_TRY(report(epoll_.get(), EPOLL_CTL_ADD, listener.get()));
  listeners_.push_back(std::move(listener));
  addresses_.push_back(bound);
  return {};
}

std::string Port::contact() const {
  std::string bytes(1, static_cast<char>(addresses_.size()));
  for (const Address& a : addresses_) bytes += a.encode();
  return bytes;
}

void Port::open_door(uint64_t nonce, int wake) {
  const MutexLock lock(mutex_);
  doors_[nonce].wake = wake;
}

void Port::close_door(uint64_t nonce) {
  const MutexLock lock(mutex_);
  doors_.erase(nonce);
}

Status Port::receive(uint64_t nonce, std::vector<Visitor>& visitors) {
  const MutexLock lock(mutex_);
  const int64_t now = now_ns();
  // Hellos first, so that who has said one is no stray when there are too many.
  read_all(nonce, now);
  Status accepted = accept_all(now);
  read_all(nonce, now);
  if (const auto door = doors_.find(nonce); door != doors_.end()) {
    for (Visitor& v : door->second.visitors) visitors.push_back(std::move(v));
    door->second.visitors.clear();
  }
  return accepted;
}

void Port::read_all(uint64_t nonce, int64_t now) {
  for (size_t i = strays_.size(); i-- > 0;) {
    Stray& s = strays_[i];
    Step step = read(s, nonce);
    if (step == Step::keep && now - s.since > kStrayNs) {
      drop(s, "no hello in time");
      step = Step::gone;
    }
    if (step == Step::keep) continue;
    if (i + 1 != strays_.size()) s = std::move(strays_.back());
    strays_.pop_back();
  }
}

Status Port::accept_all(int64_t now) {
  for (const Fd& listener : listeners_) {
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      if (strays_.size() == kMaxStrays + static_cast<size_t>(config_.nranks)) drop_oldest();
      Stray s;
      Result<Fd> fd = accept_on(listener.get(), &s.peer);
      if (!fd && !strays_.empty()) {  // out of descriptors: those of strays come first
        drop_oldest();
        fd = accept_on(listener.get(), &s.peer);
      }
      HKT_ASSIGN(s.fd, std::move(fd));
      if (!s.fd) break;
      HKT_TRY(report(epoll_.get(), EPOLL_CTL_ADD, s.fd.get()));
      s.since = now;
      ask_for_proof(s);
      strays_.push_back(std::move(s));
    }
  }
  return {};
}

// Ranks say hello at once and are soon no longer among the strays.
void Port::drop_oldest() {
  const auto oldest = std::min_element(strays_.begin(), strays_.end(),
                                       [](const Stray& a, const Stray& b) { return a.since < b.since; });
  drop(*oldest, "too many that have not said hello");
  strays_.erase(oldest);
}

// `nonce` is that of the door whose owner looks.
Port::Step Port::read(Stray& s, uint64_t nonce) {
  if (Step step = Step::keep; !prove(s, &step)) return step;
  while (s.got < s.bytes.size()) {
    Result<size_t> n = recv_some(s.fd.get(), s.bytes.data() + s.got, s.bytes.size() - s.got);
    if (!n) return Step::gone;
    if (*n == 0) return tell_of_secret(s) ? Step::gone : Step::keep;
    s.got += *n;
  }
  Visitor v;
  std::memcpy(&v.hello, s.bytes.data(), sizeof v.hello);
  const auto door = doors_.find(v.hello.nonce);
  if (v.hello.magic != kMagic || v.hello.auth != 0 || door == doors_.end()) {
    drop(s, "not of this job");
    return Step::gone;
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, s.fd.get(), nullptr);  // its communicator watches it from now on
  v.fd = std::move(s.fd);
  v.peer = s.peer;
  v.early = std::move(s.early);
  door->second.visitors.push_back(std::move(v));
  const uint64_t one = 1;
  if (door->first != nonce) (void)!write(door->second.wake, &one, sizeof one);  // fails only if it is readable already
  return Step::gone;
}

void Port::drop(const Stray& s, const char* why) const {
  HKT_INFO(net, config_.log, "dropped a connection from %s: %s", s.peer.text().c_str(), why);
}

}  // namespace hocket::tcp
