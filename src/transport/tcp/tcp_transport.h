// TcpTransport: links between ranks that share no memory, over a TCP connection per pair of ranks, or several where
// large messages flow (Striping). Both ends of a link have a ring in private memory; this is the pump between them.
//
// - Credit: a sender's slot is free again when the receiver's consumer has popped it and said so. A receiver therefore
//   always has room for what arrives, never stops reading, and no link waits for another one of the same pair.
// - Connections are made on demand, by the higher rank of a pair, when either end of a link between the two is opened;
//   further ones, one at a time, once large messages flow either way.
// - The Port is shared with the communicators made from this one, and nothing else is: each has its own connections, so
//   threads of different communicators never wait for one another.
// - Threads: the communicator's own, except raise(), which any thread may call.
// - Errors of a peer (it died, it speaks nonsense, it cannot be reached) show in fault() and name it; the first one
//   stays. A fault of one connection is a fault of the peer; that a further one cannot be made is a warning.
// - Steady state: no allocation. A push sends at once, by one system call if it goes by one connection, or part by part
//   by several; a poll reads the first connection, and the others while parts of a message are missing.
// - A forked child must not use it; destroying it there closes the child's descriptors and disturbs nobody.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/socket.h"
#include "base/thread_annotations.h"
#include "transport/tcp/call_log.h"
#include "transport/tcp/connector.h"
#include "transport/tcp/inbox.h"
#include "transport/tcp/outbox.h"
#include "transport/tcp/port.h"
#include "transport/tcp/teller.h"
#include "transport/tcp/turn.h"
#include "transport/transport.h"

namespace hocket::tcp {

struct Config {
  int rank = 0;
  int nranks = 1;
  uint64_t nonce = 0;  // the communicator's secret: connections that do not know it are dropped
  uint32_t epoch = 1;  // of the communicator, the same on all ranks
  RingGeometry geometry;
  Striping striping = {};
  uint16_t tags = 4;               // links per ordered pair of ranks, at most kMaxTags
  std::vector<Address> addresses;  // of this rank, to listen on, best first; ports are ignored; for listen() only
  LogId log;
  std::vector<Net> nets = {};  // of this host, to connect from; for listen() only
  Bound bound = Bound::where_it_helps;
  SharedSecret secret = {};  // of the job; null: it has none
};

class TcpTransport final : public Transport, private Pump {
 public:
  // Listens; ready to be connected to. The other ranks need contact().
  static Result<std::unique_ptr<TcpTransport>> listen(const Config& config);
  // The same at a port that this rank has already.
  static Result<std::unique_ptr<TcpTransport>> share(const Config& config, std::shared_ptr<Port> port);
  // Says goodbye and sees to it that all that was sent arrives, or that 5 s have passed (0.5 s after a fault).
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  const std::shared_ptr<Port>& port() const { return port_; }
  std::string contact() const { return port_->contact(); }
  // Every rank's contact() by rank, an empty one for a rank without TCP. Once, before the first open.
  Status set_contacts(const std::vector<std::string>& by_rank) HKT_EXCLUDES(turn_);

  // Connects to all other ranks now instead of when a link is opened; progress() does it.
  Status connect_all() HKT_EXCLUDES(turn_);
  size_t connected() const HKT_EXCLUDES(turn_);        // number of ranks connected to
  size_t sockets(int rank) const HKT_EXCLUDES(turn_);  // number of connections with that one

  const char* name() const override { return "tcp"; }
  RingGeometry geometry() const override { return config_.geometry; }
  Result<Link> open_send(int peer, uint16_t tag) override HKT_EXCLUDES(turn_);
  Result<Link> open_recv(int peer, uint16_t tag) override HKT_EXCLUDES(turn_);
  bool progress() override HKT_EXCLUDES(turn_);
  bool flushed() const override HKT_EXCLUDES(turn_);
  void reclaim() override HKT_EXCLUDES(turn_);
  void poll_set(std::vector<pollfd>& fds) const override HKT_EXCLUDES(turn_);
  void announce(const CallRecord& call) override HKT_EXCLUDES(turn_);
  std::optional<CallRecord> announced(int rank, uint64_t seq) const override HKT_EXCLUDES(turn_);
  // Also sends this rank's announcements to all connected peers.
  std::optional<Fault> fault() override HKT_EXCLUDES(turn_);
  bool left(int rank) const override HKT_EXCLUDES(turn_);
  // May wait for a non-blocking system call of the communicator's thread, and wakes it if it sleeps on poll_set().
  // Peers pass the fault on to theirs; ranks that are not connected are told on connections of their own.
  void raise(const Fault& fault) override HKT_EXCLUDES(turn_);

 private:
  friend struct TcpTestAccess;
  struct Peer;
  static constexpr size_t kScan = 4;                 // so many connections are polled one by one, more by epoll
  static constexpr uint32_t kLookEvery = 1024;       // polls between looks at the listener while nobody is expected
  static constexpr int64_t kAnnounceNs = 2'000'000;  // between announcements to peers that get no message
  static constexpr uint64_t kAnnounceCalls = 32;     // the same in calls: nobody's log may get holes
  static constexpr int64_t kWatchAfterNs = 1'000'000'000;  // of waiting for a higher rank to connect
  static constexpr int64_t kGoodbyeNs = 5'000'000'000;
  static constexpr int64_t kFaultGoodbyeNs = 500'000'000;

  TcpTransport(const Config& config, std::shared_ptr<Port> port, Fd epoll, Fd wake);
  void pushed(Link& link, uint32_t bytes, const void* lent) override HKT_EXCLUDES(turn_);
  void popped(Link& link) override HKT_EXCLUDES(turn_);

  enum class End : uint8_t { send, recv };
  Result<Link> open(int rank, uint16_t tag, End end) HKT_REQUIRES(turn_);
  Peer& peer(int rank) HKT_REQUIRES(turn_);
  Status want(Peer& p) HKT_REQUIRES(turn_);
  bool pump() HKT_REQUIRES(turn_);
  void look_around() HKT_REQUIRES(turn_);
  void connect() HKT_REQUIRES(turn_);
  void announce_all() HKT_REQUIRES(turn_);
  void watch_missing() HKT_REQUIRES(turn_);
  void adopt(Connector::Made& made) HKT_REQUIRES(turn_);
  void adopt_share(Connector::Made& made) HKT_REQUIRES(turn_);
  void widen(Peer& p) HKT_REQUIRES(turn_);
  void no_more_shares(Peer& p, const std::string& why) HKT_REQUIRES(turn_);
  void prepare(int fd, Peer& p) HKT_REQUIRES(turn_);
  enum class Sockets : uint8_t { needed, all };
  bool receive(Peer& p, Sockets which) HKT_REQUIRES(turn_);
  bool receive_shares(Peer& p) HKT_REQUIRES(turn_);
  bool receive_ready() HKT_REQUIRES(turn_);
  void lose(Peer& p, const char* why) HKT_REQUIRES(turn_);
  bool flush(Peer& p) HKT_REQUIRES(turn_);
  void flush_later(Peer& p) HKT_REQUIRES(turn_);
  bool flush_queued() HKT_REQUIRES(turn_);
  void blame(int rank, Code code, std::string text) HKT_REQUIRES(turn_);
  void blame_nonsense(const Peer& p, const Error& error) HKT_REQUIRES(turn_);
  void spread(const Fault& fault) HKT_REQUIRES(turn_);
  void heard(const Fault& fault) HKT_REQUIRES(turn_);
  void say_goodbye() HKT_REQUIRES(turn_);
  // Nobody is left who has to be told of a fault.
  bool told() const HKT_REQUIRES(turn_) { return teller_ == nullptr || teller_->done(); }
  bool see_off(Peer& p) HKT_REQUIRES(turn_);
  bool see_off_shares(Peer& p) HKT_REQUIRES(turn_);
  bool drained(int fd) HKT_REQUIRES(turn_);

  const Config config_;
  const Limits limits_;
  const pid_t pid_;
  mutable Turn turn_;
  const std::shared_ptr<Port> port_;
  const Fd epoll_;  // reports everything there is to read on this communicator's connections
  const Fd wake_;   // an eventfd in epoll_: written by raise(), and when another thread has found a visitor
  Connector connector_ HKT_GUARDED_BY(turn_);
  Connector::Events events_ HKT_GUARDED_BY(turn_);
  std::vector<Port::Visitor> visitors_ HKT_GUARDED_BY(turn_);
  std::vector<std::vector<Way>> contacts_ HKT_GUARDED_BY(turn_);    // by rank
  std::vector<std::unique_ptr<Peer>> peers_ HKT_GUARDED_BY(turn_);  // by rank, made on demand
  std::vector<Peer*> up_ HKT_GUARDED_BY(turn_);                     // connected
  std::vector<Peer*> queued_ HKT_GUARDED_BY(turn_);                 // with something to send
  uint32_t missing_ HKT_GUARDED_BY(turn_) = 0;                      // peers wanted and not yet connected
  uint32_t polls_ HKT_GUARDED_BY(turn_) = 0;
  mutable bool slept_ HKT_GUARDED_BY(turn_) =
      false;                                 // on poll_set(), maybe: what is rarely looked at may have woken it
  CallLog calls_ HKT_GUARDED_BY(turn_);      // this rank's
  uint64_t told_ HKT_GUARDED_BY(turn_) = 0;  // the last of them that all connected peers were told of
  int64_t told_at_ HKT_GUARDED_BY(turn_) = 0;
  std::optional<Fault> fault_ HKT_GUARDED_BY(turn_);      // found or raised by this rank, or told by a peer
  std::optional<Fault> spread_ HKT_GUARDED_BY(turn_);     // what the peers have been told
  std::unique_ptr<Teller> teller_ HKT_GUARDED_BY(turn_);  // tells those that it has not reached
  Stage stage_ HKT_GUARDED_BY(turn_);
};

}  // namespace hocket::tcp
