#include "bootstrap/tcp_server.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "base/log.h"
#include "base/start_thread.h"
#include "base/text.h"
#include "bootstrap/identity.h"
#include "bootstrap/series.h"
#include "bootstrap/tcp_connection.h"
#include "bootstrap/tcp_protocol.h"
#include "bootstrap/wire.h"

namespace hocket {
namespace {

using tcp_protocol::frame;
using tcp_protocol::Op;
using tcp_server::Connection;
using tcp_server::end_connection;
using tcp_server::Key;
using tcp_server::Series;

// All values of a job together. A job that is larger fails with a text instead of eating the host's memory.
constexpr size_t kMaxStored = size_t{512} << 20;

// A unique id is good for one job, so whoever comes late with one belongs to the job that failed and shall hear of it.
// At a tcp:// place the next start of the job may come soon.
constexpr int kIdLingerMs = 60'000;

// The thread's whole state; only the thread touches it.
class Loop {
 public:
  Loop(std::vector<Fd> listeners, std::vector<Fd> members, TcpServer::Options options, Fd epoll)
      : epoll_(std::move(epoll)),
        listeners_(std::move(listeners)),
        newcomers_(std::move(members)),
        options_(std::move(options)),
        nranks_(options_.nranks) {}

  // Before run(), which could not be ended without `stop`, and which nobody could reach without its listeners.
  Status prepare(int stop) {
    bool all = watch(EPOLL_CTL_ADD, stop, EPOLLIN, &stop_mark_);
    for (const Fd& l : listeners_) all = watch(EPOLL_CTL_ADD, l.get(), EPOLLIN, &listener_mark_) && all;
    return all ? Status() : Status(sys_error("cannot have the sockets of the rendezvous watched by epoll"));
  }

  // Until the job is over, or the other end of `stop` is closed.
  void run() {
    for (Fd& fd : newcomers_) {
      Connection& c = add(std::move(fd), "this process");
      c.local = true;
      c.proof.reset();
      ++locals_;
    }
    loop();
    close_listeners();
    for (Connection& c : connections_) close(c);
  }

 private:
  void loop() {
    std::array<epoll_event, 128> events;
    while (!over()) {
      const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), alarm_ms());
      if (n < 0 && errno != EINTR) return;
      bool knocked = false;
      for (int i = 0; i < n; ++i) {
        void* const source = events[static_cast<size_t>(i)].data.ptr;
        if (source == &stop_mark_) return;
        if (source == &listener_mark_) {
          knocked = true;
        } else {
          serve(*static_cast<Connection*>(source));
        }
      }
      // Newcomers come last: accepting may drop a stranger that an event points to.
      for (size_t i = 0; knocked && i < listeners_.size(); ++i) accept_some(listeners_[i].get());
      if (alarm_.passed()) check_clock();
      if (std::exchange(closed_some_, false)) connections_.remove_if([](const Connection& c) { return !c.fd; });
    }
  }

  // A connection that cannot be watched is dropped for being silent.
  bool watch(int op, int fd, uint32_t events, void* source) {
    epoll_event e{};
    e.events = events;
    e.data.ptr = source;
    return epoll_ctl(epoll_.get(), op, fd, &e) == 0;
  }

  void arm(Connection& c) {
    const uint32_t wanted = c.out != nullptr ? EPOLLOUT : EPOLLIN;
    if (!c.fd || c.armed == wanted) return;
    if (watch(c.armed == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c.fd.get(), wanted, &c)) c.armed = wanted;
  }

  // check_clock() runs then, at the latest.
  void remind(Deadline at) { alarm_ = earlier(alarm_, at); }

  bool over() const {
    if (joined_ == 0 || members_ > 0 || locals_ > 0) return false;
    return !failure_ || told_.size() >= largest_ || linger_.passed();
  }

  int alarm_ms() const { return alarm_.ns() == INT64_MAX ? -1 : alarm_.left_ms(); }

  Connection& add(Fd fd, std::string peer) {
    Connection& c = connections_.emplace_back();
    c.fd = std::move(fd);
    c.peer = std::move(peer);
    if (options_.secret != nullptr) {
      c.proof = Handshake::accepting(options_.secret, "the process at " + c.peer, tcp_protocol::kMagic, &seen_);
    }
    c.greeting = Deadline::in_ms(options_.greeting_ms);
    remind(c.greeting);
    arm(c);
    return c;
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
    end_connection(epoll_.get(), c.fd);
    closed_some_ = true;
    if (c.member) --members_;
    if (c.local) --locals_;
    c.member = c.local = false;
  }

  void close_listeners() {
    for (Fd& listener : listeners_) end_connection(epoll_.get(), listener);
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
    remind(linger_);
    for (Connection& c : connections_) {
      if (!c.waiting()) continue;
      stop_waiting(c);
      reply_failed(c, failure);
    }
  }

  void serve(Connection& c) {
    if (!c.fd) return;
    if (c.out != nullptr) {
      if (Status sent = flush(c); !sent) lose(c, sent.error().text);
      return;
    }
    if (c.proof) {
      const Result<bool> proven = c.proof->advance(c.fd.get());
      if (!proven) {
        if (proven.error().code == hktInvalidUsage) return refuse(c, proven.error().text);
        return drop(c, proven.error().text.c_str());
      }
      if (!proven.value()) return;
      c.proof.reset();
    }
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
    while (c.fd && !c.waiting() && c.out == nullptr && read_request(c)) {
    }
  }

  // The job goes on without it; if it is missed, this is said.
  void refuse(Connection& c, const std::string& why) {
    if (refusals_++ < kRefusalsToldOf) {
      HKT_WARN(init, LogId{}, "rendezvous: refused a connection: %s", why.c_str());
    } else {
      HKT_INFO(init, LogId{}, "rendezvous: refused a connection: %s", why.c_str());
    }
    note_ = "refused: " + why;
    c.proof.reset();
    c.state = Connection::State::refused;  // until it has read what it was told
  }

  void read_hello(Connection& c) {
    if (is_of_secret(c.in)) {
      const std::string answer = no_secret_here();
      (void)send_some(c.fd.get(), answer.data(), answer.size()).ok();
      return refuse(c, "the process at " + c.peer + " has a job secret, and this process has none");
    }
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
    const bool same_version = version == options_.wire_version;
    if (same_version && nonce != options_.nonce) return drop(c, "it belongs to another job");
    if (same_version && (nranks < 1 || nranks > static_cast<uint32_t>(kMaxRanks) || rank >= nranks)) {
      return drop(c, "its hello names an impossible rank");
    }
    if (!same_version) {
      fail(error(hktInvalidUsage,
                 "a process at %s uses another version of Hocket (bring-up protocol %u, here %u): install the same "
                 "version for all ranks",
                 c.peer.c_str(), version, options_.wire_version));
      c.state = Connection::State::refused;
    } else {
      if (nranks_ == 0) nranks_ = nranks;
      largest_ = std::max({largest_, nranks_, nranks});
      if (connections_.size() > nranks_ * (listeners_.size() + 1) + 2 * TcpServer::kMaxStrangers)
        return drop(c, "too many ranks connect");
      c.rank = rank;
      c.state = Connection::State::open;
    }
    send(c, std::make_shared<const std::string>(
                wire::Writer().raw(tcp_protocol::kMagic).u16(options_.wire_version).u16(0).take()));
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
      case Op::exchange:
        exchange(c, in);
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
    if (!in.done()) return lose(c, "it sent a request that does not parse");
    if (store(c, name, value)) reply(c, Op::done, "");
  }

  // False: `c` has its reply.
  bool store(Connection& c, const std::string& name, std::string_view value) {
    if (name.size() > Store::kMaxKey || value.size() > Store::kMaxValue) {
      lose(c, "it sent a request that does not parse");
      return false;
    }
    if (failure_) {
      reply_failed(c, *failure_);
      return false;
    }
    Key& key = keys_[name];
    if (key.exists) {
      reply(c, Op::exists, "");
      return false;
    }
    stored_ += sizeof(Key) + name.size() + value.size();
    if (stored_ > kMaxStored) {
      const Error full =
          error(hktInternalError, "the ranks stored more than %zu MiB during bring-up", kMaxStored >> 20);
      fail(full);
      reply_failed(c, full);
      return false;
    }
    key.exists = true;
    key.value = value;
    for (Connection* waiter : std::exchange(key.waiters, {})) {
      if (--waiter->absent == 0) reply_values(*waiter);
    }
    if (const auto series = series_.find(name.substr(0, name.rfind('/'))); series != series_.end()) {
      count(series->second);
    }
    return true;
  }

  bool exists(const std::string& name) const {
    const auto key = keys_.find(name);
    return key != keys_.end() && key->second.exists;
  }

  // Counts what has come of a series, and replies to those that have waited for no more than that.
  void count(Series& series) {
    const size_t before = series.here;
    while (exists(series.key(series.here))) ++series.here;
    if (series.here == before || series.waiters.empty()) return;
    std::vector<Connection*> waiters = std::exchange(series.waiters, {});
    for (Connection* waiter : waiters) {
      if (waiter->count > series.here) {
        series.waiters.push_back(waiter);
      } else {
        waiter->series = nullptr;
        reply_series(*waiter, series);
      }
    }
  }

  void exchange(Connection& c, wire::Reader& in) {
    const std::string name(in.bytes());
    const std::string_view value = in.bytes();
    const uint32_t timeout = in.u32();
    const std::string prefix(in.bytes());
    const uint32_t wanted = in.u32();
    if (!in.done() || prefix.size() > Store::kMaxKey || wanted < 1 || wanted > static_cast<uint32_t>(kMaxRanks)) {
      return lose(c, "it sent a request that does not parse");
    }
    if (!store(c, name, value)) return;
    Series& series = series_[prefix];
    if (series.prefix.empty()) stored_ += sizeof(Series) + prefix.size();
    series.prefix = prefix;
    c.count = wanted;
    count(series);
    if (series.here >= wanted) return reply_series(c, series);
    c.series = &series;
    series.waiters.push_back(&c);
    c.timeout = Deadline::in_ms(timeout);
    remind(c.timeout);
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
    for (const std::string& name : c.keys) c.absent += exists(name) ? 0 : 1;
    if (c.absent == 0) return reply_values(c);
    if (timeout == 0) {
      c.absent = 0;
      return reply_missing(c);
    }
    c.timeout = Deadline::in_ms(timeout);
    remind(c.timeout);
    for (const std::string& name : c.keys) {
      Key& key = keys_[name];
      if (!key.exists) key.waiters.push_back(&c);
    }
  }

  void stop_waiting(Connection& c) {
    if (c.series != nullptr) std::erase(std::exchange(c.series, nullptr)->waiters, &c);
    if (c.absent == 0) return;
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

  void reply_series(Connection& c, Series& series) {
    if (series.packed != c.count) {
      std::vector<std::string_view> values;
      for (size_t i = 0; i < c.count; ++i) values.push_back(keys_[series.key(i)].value);
      series.reply = std::make_shared<const std::string>(frame(Op::series, wire::pack_series(values)));
      series.packed = c.count;
    }
    send(c, series.reply);
  }

  void reply_missing(Connection& c) {
    wire::Writer body;
    body.bytes(note_);
    const size_t count = c.series != nullptr ? c.count : c.keys.size();
    for (size_t i = 0; i < count; ++i) {
      if (!exists(c.series != nullptr ? c.series->key(i) : c.keys[i])) body.u32(static_cast<uint32_t>(i));
    }
    stop_waiting(c);
    reply(c, Op::missing, body.view());
  }

  void reply_failed(Connection& c, const Error& failure) {
    told_.insert(c.rank);
    reply(c, Op::failed, wire::pack_error(failure));
  }

  void reply(Connection& c, Op op, std::string_view body) {
    send(c, std::make_shared<const std::string>(frame(op, body)));
  }

  void send(Connection& c, std::shared_ptr<const std::string> bytes) {
    c.out = std::move(bytes);
    c.sent = 0;
    // Whoever is replied to may be in the midst of a loop over connections: epoll reports a loss to serve().
    (void)flush(c).ok();
  }

  Status flush(Connection& c) {
    while (c.sent < c.out->size()) {
      Result<size_t> n = send_some(c.fd.get(), c.out->data() + c.sent, c.out->size() - c.sent);
      if (!n || *n == 0) {
        arm(c);
        return n ? Status() : Status(std::move(n.error()));
      }
      c.sent += *n;
    }
    c.out.reset();
    arm(c);
    return {};
  }

  void check_clock() {
    alarm_ = Deadline::never();
    if (failure_ && !linger_.passed()) remind(linger_);
    for (Connection& c : connections_) {
      if (c.fd && c.state != Connection::State::open && c.greeting.passed()) drop(c, "no hello came in time");
      if (c.waiting() && c.timeout.passed()) reply_missing(c);
      if (c.fd && c.state != Connection::State::open) remind(c.greeting);
      if (c.waiting()) remind(c.timeout);
    }
  }

  Fd epoll_;
  static inline char stop_mark_ = 0, listener_mark_ = 0;  // what epoll reports instead of a connection
  std::vector<Fd> listeners_;
  std::vector<Fd> newcomers_;  // connections from this process, until run()
  TcpServer::Options options_;
  std::list<Connection> connections_;  // oldest first; addresses stay
  bool closed_some_ = false;
  Deadline alarm_ = Deadline::never();  // nothing is due before
  std::unordered_map<std::string, Key> keys_;
  std::unordered_map<std::string, Series> series_;  // those that are waited for; addresses stay
  size_t stored_ = 0;
  uint32_t nranks_;       // if not given, as the first hello has it; the ranks themselves check that they agree
  uint32_t largest_ = 0;  // number of ranks that any hello had: so many may want to be told of an error
  size_t locals_ = 0;     // connections from this process
  size_t members_ = 0;    // here now
  size_t joined_ = 0;     // ever
  SeenProofs seen_;
  int refusals_ = 0;
  std::string note_;  // who was refused last
  std::optional<Error> failure_;
  std::set<uint32_t> told_;  // ranks that know of the failure
  Deadline linger_ = Deadline::never();
};

Result<Loop> make_loop(std::vector<Fd> listeners, std::vector<Fd> members, const TcpServer::Options& options,
                       int stop) {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return descriptor_error("cannot make an epoll descriptor");
  Loop loop(std::move(listeners), std::move(members), options, std::move(epoll));
  HKT_TRY(loop.prepare(stop));
  return loop;
}

}  // namespace

Result<std::unique_ptr<TcpServer>> TcpServer::start(std::vector<Fd> listeners, std::vector<Fd> members,
                                                    const Options& options) {
  HKT_ASSIGN(auto stop, socket_pair());
  HKT_ASSIGN(auto over, socket_pair());
  // `over` is closed when the thread drops what it captured.
  HKT_ASSIGN(Loop all, make_loop(std::move(listeners), std::move(members), options, stop.second.get()));
  Result<std::thread> thread =
      start_thread("the rendezvous thread", [loop = std::move(all), stopped = std::move(stop.second),
                                             closed_when_over = std::move(over.second)]() mutable { loop.run(); });
  if (!thread) return std::move(thread.error());
  std::unique_ptr<TcpServer> server(new TcpServer);
  server->stop_ = std::move(stop.first);
  server->over_ = std::move(over.first);
  server->thread_ = std::move(*thread);
  return server;
}

Status TcpServer::start_detached(std::vector<Fd> listeners, const Options& options) {
  HKT_ASSIGN(auto never, socket_pair());
  HKT_ASSIGN(Loop all, make_loop(std::move(listeners), {}, options, never.second.get()));
  Result<std::thread> thread =
      start_thread("the rendezvous thread", [loop = std::move(all), stop = std::move(never)]() mutable { loop.run(); });
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
