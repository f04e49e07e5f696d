#include "bootstrap/tcp_server.h"

#include <poll.h>

#include <algorithm>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "base/log.h"
#include "base/start_thread.h"
#include "base/text.h"
#include "bootstrap/identity.h"
#include "bootstrap/tcp_protocol.h"
#include "bootstrap/wire.h"

namespace hocket {
namespace {

using tcp_protocol::Op;

// All values of a job together. A job that is larger fails with a text instead of eating the host's memory.
constexpr size_t kMaxStored = size_t{512} << 20;

// A unique id is good for one job, so whoever comes late with one belongs to the job that failed and shall hear of it.
// At a tcp:// place the next start of the job may come soon.
constexpr int kIdLingerMs = 60'000;

struct Connection {
  enum class State : uint8_t {
    greeting,  // no valid hello yet
    open,      // said hello; a member from its first request on
    refused,   // gets its welcome and nothing else
  };
  Fd fd;
  std::string peer;
  State state = State::greeting;
  uint32_t rank = 0;
  bool member = false;
  bool local = false;  // its other end is in this process
  Deadline greeting = Deadline::never();
  std::string in;
  std::string out;
  size_t sent = 0;
  // A get that waits.
  std::vector<std::string> keys;
  size_t absent = 0;
  Deadline timeout = Deadline::never();
  bool waiting() const { return absent > 0; }
};

struct Key {
  bool exists = false;
  std::string value;
  std::vector<Connection*> waiters;
};

// Ends it for the other side even if a child process holds a copy of the descriptor, as after a fork without exec.
void end_connection(Fd& fd) {
  if (fd) shutdown(fd.get(), SHUT_RDWR);
  fd.reset();
}

std::string frame(Op op, std::string_view body) {
  return wire::Writer().u32(static_cast<uint32_t>(body.size() + 1)).u8(static_cast<uint8_t>(op)).raw(body).take();
}

// The thread's whole state; only the thread touches it.
class Loop {
 public:
  Loop(std::vector<Fd> listeners, std::vector<Fd> members, TcpServer::Options options)
      : listeners_(std::move(listeners)), options_(options), nranks_(options.nranks) {
    for (Fd& fd : members) {
      add(std::move(fd), "this process");
      connections_.back().local = true;
      ++locals_;
    }
  }

  // Until the job is over, or the other end of `stop` is closed.
  void run(int stop) {
    loop(stop);
    close_listeners();
    for (Connection& c : connections_) close(c);
  }

 private:
  void loop(int stop) {
    while (!over()) {
      std::vector<pollfd> polled = {{stop, POLLIN, 0}};
      for (const Fd& listener : listeners_) polled.push_back({listener.get(), POLLIN, 0});
      const size_t first = polled.size();
      std::vector<Connection*> order;
      for (Connection& c : connections_) {
        const bool writing = c.sent < c.out.size();
        polled.push_back({c.fd.get(), static_cast<short>(writing ? POLLOUT : POLLIN), 0});
        order.push_back(&c);
      }
      if (poll(polled.data(), polled.size(), timeout_ms()) < 0 && errno != EINTR) return;
      if (polled[0].revents != 0) return;
      for (size_t i = 0; i < order.size(); ++i) {
        if (polled[first + i].revents != 0) serve(*order[i]);
      }
      // Newcomers come last: accepting may drop a stranger that `order` points to.
      for (size_t i = 1; i < first && !listeners_.empty(); ++i) {
        if (polled[i].revents != 0) accept_some(polled[i].fd);
      }
      check_clock();
      connections_.remove_if([](const Connection& c) { return !c.fd; });
    }
  }

  bool over() const {
    if (joined_ == 0 || members_ > 0 || locals_ > 0) return false;
    return !failure_ || told_.size() >= largest_ || linger_.passed();
  }

  int timeout_ms() const {
    constexpr int kForever = 1'000'000'000;
    int ms = failure_ && members_ == 0 && locals_ == 0 ? linger_.left_ms(kForever) : kForever;
    for (const Connection& c : connections_) {
      if (c.state != Connection::State::open) ms = std::min(ms, c.greeting.left_ms(kForever));
      if (c.waiting()) ms = std::min(ms, c.timeout.left_ms(kForever));
    }
    return ms == kForever ? -1 : ms;
  }

  void add(Fd fd, std::string peer) {
    Connection& c = connections_.emplace_back();
    c.fd = std::move(fd);
    c.peer = std::move(peer);
    c.greeting = Deadline::in_ms(options_.greeting_ms);
  }

  // Not too many at once: hellos that wait are read between, before their senders count as silent.
  void accept_some(int listener) {
    for (int i = 0; i < 32; ++i) {
      Address peer;
      Result<Fd> fd = accept_on(listener, &peer);
      if (!fd) {
        // Out of descriptors: strangers make room, or else the job cannot come up.
        if (!drop_oldest_stranger()) {
          fail(fd.error());
          close_listeners();
          return;
        }
        continue;
      }
      if (!*fd) return;
      // A rank may try all addresses at once.
      if (strangers() >= TcpServer::kMaxStrangers + nranks_ * listeners_.size()) drop_oldest_stranger();
      add(std::move(*fd), peer.text());
    }
  }

  static bool is_stranger(const Connection& c) { return c.fd && c.state != Connection::State::open; }
  size_t strangers() const {
    return static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(), is_stranger));
  }
  bool drop_oldest_stranger() {
    const auto oldest = std::find_if(connections_.begin(), connections_.end(), is_stranger);
    if (oldest == connections_.end()) return false;
    drop(*oldest, "too many connections without a hello");
    return true;
  }

  void drop(Connection& c, const char* why) {
    HKT_INFO(init, LogId{}, "rendezvous: dropped the connection from %s: %s", c.peer.c_str(), why);
    close(c);
  }

  void close(Connection& c) {
    stop_waiting(c);
    end_connection(c.fd);
    if (c.member) --members_;
    if (c.local) --locals_;
    c.member = c.local = false;
  }

  void close_listeners() {
    for (Fd& listener : listeners_) end_connection(listener);
    listeners_.clear();
  }

  // The connection ended, or says nonsense. For a member that means death.
  void lose(Connection& c, const std::string& why) {
    const bool member = c.member;
    const uint32_t rank = c.rank;
    const std::string peer = c.peer;
    drop(c, why.c_str());
    if (member) {
      told_.insert(rank);  // nobody is left to be told
      fail(error(hktRemoteError, "rank %u of %u (%s) died or left during bring-up: %s", rank, nranks_, peer.c_str(),
                 why.c_str()));
    }
  }

  void fail(const Error& failure) {
    if (failure_) return;
    failure_ = failure;
    const bool patience_is_over = failure.code == hktTimeout && options_.nonce == 0;
    linger_ = Deadline::in_ms(patience_is_over ? 0 : options_.nonce == 0 ? kLingerMs : kIdLingerMs);
    for (Connection& c : connections_) {
      if (!c.waiting()) continue;
      stop_waiting(c);
      reply_failed(c, failure);
    }
  }

  void serve(Connection& c) {
    if (!c.fd) return;
    if (c.sent < c.out.size()) return flush(c);
    char block[65536];
    const bool greeting = c.state == Connection::State::greeting;
    // Of a stranger not a byte more than a hello is read.
    const size_t room = greeting ? tcp_protocol::kHelloSize - c.in.size() : sizeof block;
    Result<size_t> n = recv_some(c.fd.get(), block, room);
    if (!n) return lose(c, n.error().text);
    if (c.state == Connection::State::refused) return;
    if (*n > 0 && c.waiting()) return lose(c, "it sent a request before it had the reply to the last one");
    c.in.append(block, *n);
    if (greeting) return read_hello(c);
    // One request at a time: a reply that is not yet sent keeps the next one in the socket.
    while (c.fd && !c.waiting() && c.sent == c.out.size() && read_request(c)) {
    }
  }

  void read_hello(Connection& c) {
    const size_t known = std::min(c.in.size(), tcp_protocol::kMagic.size());
    if (std::string_view(c.in).substr(0, known) != tcp_protocol::kMagic.substr(0, known)) {
      return drop(c, "it does not speak Hocket's protocol");
    }
    if (c.in.size() < tcp_protocol::kHelloSize) return;
    wire::Reader in(c.in);
    in.raw(tcp_protocol::kMagic.size());
    const uint16_t version = in.u16();
    in.u16();
    const uint32_t rank = in.u32();
    const uint32_t nranks = in.u32();
    const uint64_t nonce = in.u64();
    c.in.clear();
    const bool same_version = version == tcp_protocol::kWireVersion;
    if (same_version && nonce != options_.nonce) return drop(c, "it belongs to another job");
    if (same_version && (nranks < 1 || nranks > static_cast<uint32_t>(kMaxRanks) || rank >= nranks)) {
      return drop(c, "its hello names an impossible rank");
    }
    c.out = wire::Writer().raw(tcp_protocol::kMagic).u16(tcp_protocol::kWireVersion).u16(0).take();
    if (!same_version) {
      fail(error(hktInvalidUsage,
                 "a process at %s uses another version of Hocket (bring-up protocol %u, here %u): install the same "
                 "version for all ranks",
                 c.peer.c_str(), version, tcp_protocol::kWireVersion));
      c.state = Connection::State::refused;
    } else {
      if (nranks_ == 0) nranks_ = nranks;
      largest_ = std::max({largest_, nranks_, nranks});
      if (connections_.size() > nranks_ * (listeners_.size() + 1) + 2 * TcpServer::kMaxStrangers)
        return drop(c, "too many ranks connect");
      c.rank = rank;
      c.state = Connection::State::open;
    }
    flush(c);
  }

  // Handles one complete request; false if there is none yet.
  bool read_request(Connection& c) {
    wire::Reader head(c.in);
    const uint32_t length = head.u32();
    if (!head.ok()) return false;
    if (length == 0 || length > tcp_protocol::max_request(nranks_)) {
      lose(c, "it sent a request of " + std::to_string(length) + " bytes");
      return false;
    }
    if (head.left() < length) return false;
    const std::string request = c.in.substr(4, length);
    c.in.erase(0, size_t{4} + length);
    if (!c.member) {
      c.member = true;
      ++members_;
      ++joined_;
    }
    wire::Reader in(request);
    switch (static_cast<Op>(in.u8())) {
      case Op::put:
        put(c, in);
        return true;
      case Op::get:
        get(c, in);
        return true;
      case Op::fail: {
        told_.insert(c.rank);
        fail(wire::unpack_error(in.raw(in.left())));
        reply(c, Op::done, "");
        return true;
      }
      case Op::bye:
        if (!in.done()) break;
        close(c);
        return false;
      default:
        break;
    }
    lose(c, "it sent a request that does not parse");
    return false;
  }

  void put(Connection& c, wire::Reader& in) {
    const std::string name(in.bytes());
    const std::string_view value = in.bytes();
    if (!in.done() || name.size() > Store::kMaxKey || value.size() > Store::kMaxValue) {
      return lose(c, "it sent a request that does not parse");
    }
    if (failure_) return reply_failed(c, *failure_);
    Key& key = keys_[name];
    if (key.exists) return reply(c, Op::exists, "");
    stored_ += name.size() + value.size();
    if (stored_ > kMaxStored) {
      const Error full =
          error(hktInternalError, "the ranks stored more than %zu MiB during bring-up", kMaxStored >> 20);
      fail(full);
      return reply_failed(c, full);
    }
    key.exists = true;
    key.value = value;
    reply(c, Op::done, "");
    for (Connection* waiter : std::exchange(key.waiters, {})) {
      if (--waiter->absent == 0) reply_values(*waiter);
    }
  }

  void get(Connection& c, wire::Reader& in) {
    const uint32_t timeout = in.u32();
    const uint32_t count = in.u32();
    std::vector<std::string> names;
    // Each key takes at least its length: `count` cannot promise more than has come.
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      names.emplace_back(in.bytes());
      if (names.back().size() > Store::kMaxKey) return lose(c, "it asked for a key that is too long");
    }
    if (!in.done() || names.empty()) return lose(c, "it sent a request that does not parse");
    if (failure_) return reply_failed(c, *failure_);
    c.keys = std::move(names);
    for (const std::string& name : c.keys) {
      const auto key = keys_.find(name);
      if (key != keys_.end() && key->second.exists) continue;
      ++c.absent;
    }
    if (c.absent == 0) return reply_values(c);
    if (timeout == 0) {
      c.absent = 0;
      return reply_missing(c);
    }
    c.timeout = Deadline::in_ms(timeout);
    for (const std::string& name : c.keys) {
      Key& key = keys_[name];
      if (!key.exists) key.waiters.push_back(&c);
    }
  }

  void stop_waiting(Connection& c) {
    if (!c.waiting()) return;
    c.absent = 0;
    for (const std::string& name : c.keys) {
      const auto key = keys_.find(name);
      if (key == keys_.end()) continue;
      std::vector<Connection*>& waiters = key->second.waiters;
      waiters.erase(std::remove(waiters.begin(), waiters.end(), &c), waiters.end());
      if (!key->second.exists && waiters.empty()) keys_.erase(key);
    }
  }

  void reply_values(Connection& c) {
    wire::Writer body;
    for (const std::string& name : c.keys) body.bytes(keys_[name].value);
    reply(c, Op::values, body.view());
  }

  void reply_missing(Connection& c) {
    wire::Writer body;
    for (size_t i = 0; i < c.keys.size(); ++i) {
      const auto key = keys_.find(c.keys[i]);
      if (key == keys_.end() || !key->second.exists) body.u32(static_cast<uint32_t>(i));
    }
    stop_waiting(c);
    reply(c, Op::missing, body.view());
  }

  void reply_failed(Connection& c, const Error& failure) {
    told_.insert(c.rank);
    reply(c, Op::failed, wire::pack_error(failure));
  }

  void reply(Connection& c, Op op, std::string_view body) {
    c.out = frame(op, body);
    flush(c);
  }

  void flush(Connection& c) {
    while (c.sent < c.out.size()) {
      Result<size_t> n = send_some(c.fd.get(), c.out.data() + c.sent, c.out.size() - c.sent);
      // Whoever is replied to may be in the midst of a loop over connections; the next poll reports the loss.
      if (!n || *n == 0) return;
      c.sent += *n;
    }
    c.out.clear();
    c.sent = 0;
  }

  void check_clock() {
    for (Connection& c : connections_) {
      if (!c.fd) continue;
      if (c.state != Connection::State::open && c.greeting.passed()) drop(c, "no hello came in time");
      if (c.waiting() && c.timeout.passed()) reply_missing(c);
    }
  }

  std::vector<Fd> listeners_;
  TcpServer::Options options_;
  std::list<Connection> connections_;  // oldest first; addresses stay
  std::unordered_map<std::string, Key> keys_;
  size_t stored_ = 0;
  uint32_t nranks_;       // if not given, as the first hello has it; the ranks themselves check that they agree
  uint32_t largest_ = 0;  // number of ranks that any hello had: so many may want to be told of an error
  size_t locals_ = 0;     // connections from this process
  size_t members_ = 0;    // here now
  size_t joined_ = 0;     // ever
  std::optional<Error> failure_;
  std::set<uint32_t> told_;  // ranks that know of the failure
  Deadline linger_ = Deadline::never();
};

}  // namespace

Result<std::unique_ptr<TcpServer>> TcpServer::start(std::vector<Fd> listeners, std::vector<Fd> members,
                                                    Options options) {
  Result<std::pair<Fd, Fd>> stop = socket_pair();
  if (!stop) return std::move(stop.error());
  Result<std::pair<Fd, Fd>> over = socket_pair();
  if (!over) return std::move(over.error());
  // `over` is closed when the thread drops what it captured.
  Result<std::thread> thread =
      start_thread("the rendezvous thread",
                   [loop = Loop(std::move(listeners), std::move(members), options), stopped = std::move(stop->second),
                    closed_when_over = std::move(over->second)]() mutable { loop.run(stopped.get()); });
  if (!thread) return std::move(thread.error());
  std::unique_ptr<TcpServer> server(new TcpServer);
  server->stop_ = std::move(stop->first);
  server->over_ = std::move(over->first);
  server->thread_ = std::move(*thread);
  return server;
}

Status TcpServer::start_detached(std::vector<Fd> listeners, Options options) {
  Result<std::pair<Fd, Fd>> never = socket_pair();
  if (!never) return std::move(never.error());
  Result<std::thread> thread =
      start_thread("the rendezvous thread", [loop = Loop(std::move(listeners), {}, options),
                                             stop = std::move(*never)]() mutable { loop.run(stop.second.get()); });
  if (!thread) return std::move(thread.error());
  thread->detach();
  return {};
}

TcpServer::~TcpServer() {
  stop_.reset();
  thread_.join();
}

bool TcpServer::wait_over(Deadline deadline) {
  Result<bool> ready = wait_ready(over_.get(), POLLIN, deadline);
  return ready && *ready;
}

}  // namespace hocket
