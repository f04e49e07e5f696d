#include "bootstrap/tcp_store.h"

#include <poll.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "bootstrap/interfaces.h"
#include "bootstrap/tcp_protocol.h"
#include "bootstrap/tcp_server.h"
#include "bootstrap/wire.h"

namespace hocket {
namespace {

using tcp_protocol::Op;

constexpr int kGraceMs = 2000;  // a server that answers late to a timeout has this long
constexpr size_t kMaxReply = size_t{1} << 30;
constexpr int kGreetingMs = 5000;

Deadline with_grace(Deadline deadline) {
  return deadline.ns() > INT64_MAX - kGraceMs * int64_t{1'000'000}
             ? Deadline::never()
             : Deadline::at(deadline.ns() + kGraceMs * int64_t{1'000'000});
}

class TcpStore final : public Store {
 public:
  TcpStore(Fd fd, TcpMember me, Deadline deadline, std::unique_ptr<TcpServer> server)
      : fd_(std::move(fd)), me_(std::move(me)), deadline_(deadline), server_(std::move(server)) {}

  Status put(std::string_view key, std::string_view value) override {
    if (key.size() > kMaxKey || value.size() > kMaxValue) {
      return error(hktInternalError, "a value of %zu bytes under %s is too long for bring-up (at most %zu)",
                   value.size(), in_quotes(key).c_str(), kMaxValue);
    }
    HKT_ASSIGN(Reply reply, call(Op::put, wire::Writer().bytes(key).bytes(value).view(), with_grace(deadline_)));
    if (reply.op == Op::done) return {};
    if (reply.op == Op::exists) return error(hktInvalidUsage, "key %s exists already", in_quotes(key).c_str());
    return nonsense();
  }

  Result<Found> get(const std::vector<std::string>& keys, Deadline deadline) override {
    wire::Writer body;
    body.u32(static_cast<uint32_t>(deadline.left_ms())).u32(static_cast<uint32_t>(keys.size()));
    for (const std::string& key : keys) body.bytes(key);
    HKT_ASSIGN(Reply reply, call(Op::get, body.view(), with_grace(deadline)));
    Found out;
    wire::Reader in(reply.body);
    if (reply.op == Op::values) {
      while (in.ok() && in.left() > 0) out.values.emplace_back(in.bytes());
      if (in.done() && out.values.size() == keys.size()) return out;
    } else if (reply.op == Op::missing) {
      while (in.ok() && in.left() > 0) {
        const uint32_t index = in.u32();
        if (index >= keys.size() || out.missing.size() > keys.size()) return nonsense();
        out.missing.push_back(static_cast<int>(index));
      }
      if (in.done() && !out.missing.empty()) return out;
    }
    return nonsense();
  }

  void fail(const Error& failure) override {
    // Nobody is left to be told if this fails.
    (void)call(Op::fail, wire::pack_error(failure), Deadline::in_ms(kGraceMs)).ok();
  }

  Status leave(Deadline deadline) override {
    if (fd_) {
      const std::string bye = frame(Op::bye, "");
      (void)send_all(fd_.get(), bye.data(), bye.size(), Deadline::in_ms(kGraceMs)).ok();
      fd_.reset();
    }
    if (server_ == nullptr) return {};
    const bool over = server_->wait_over(deadline);
    server_.reset();
    if (over) return {};
    return error(hktTimeout, "some ranks had not finished bring-up when the deadline passed");
  }

 private:
  struct Reply {
    Op op;
    std::string body;
  };

  static std::string frame(Op op, std::string_view body) {
    return wire::Writer().u32(static_cast<uint32_t>(body.size() + 1)).u8(static_cast<uint8_t>(op)).raw(body).take();
  }

  Error nonsense() {
    fd_.reset();
    return error(hktRemoteError, "%s sent a reply that does not parse", me_.server.c_str());
  }

  // One request and its reply. An error that another rank published is the error returned.
  Result<Reply> call(Op op, std::string_view body, Deadline deadline) {
    if (!fd_) return error(hktRemoteError, "the connection to %s is lost", me_.server.c_str());
    Result<Reply> reply = exchange(frame(op, body), deadline);
    if (!reply) {
      // Half a reply may be under way: nothing sensible can follow on this connection.
      fd_.reset();
      if (reply.error().code == hktTimeout) {
        return error(hktTimeout, "%s does not answer", me_.server.c_str());
      }
      if (reply.error().code == hktRemoteError) {
        return error(hktRemoteError, "%s died or left during bring-up: %s", me_.server.c_str(),
                     reply.error().text.c_str());
      }
      return reply;
    }
    if (reply->op == Op::failed) return wire::unpack_error(reply->body);
    return reply;
  }

  Result<Reply> exchange(const std::string& request, Deadline deadline) {
    HKT_TRY(send_all(fd_.get(), request.data(), request.size(), deadline));
    char head[5];
    HKT_TRY(recv_all(fd_.get(), head, sizeof head, deadline));
    wire::Reader in(std::string_view(head, sizeof head));
    const size_t length = in.u32();
    if (length < 1 || length > kMaxReply) return nonsense();
    Reply reply{static_cast<Op>(in.u8()), {}};
    // The length is only a claim: memory grows with what has come.
    while (reply.body.size() < length - 1) {
      const size_t have = reply.body.size();
      const size_t part = std::min<size_t>(length - 1 - have, size_t{1} << 20);
      reply.body.resize(have + part);
      HKT_TRY(recv_all(fd_.get(), reply.body.data() + have, part, deadline));
    }
    return reply;
  }

  Fd fd_;
  TcpMember me_;
  Deadline deadline_;
  std::unique_ptr<TcpServer> server_;  // of rank 0
};

// Says hello; ok once the other side has proven to be a rendezvous server of this job.
Status greet(int fd, const Address& to, const TcpMember& me, Deadline deadline) {
  const std::string hello = wire::Writer()
                                .raw(tcp_protocol::kMagic)
                                .u16(tcp_protocol::kWireVersion)
                                .u16(0)
                                .u32(static_cast<uint32_t>(me.rank))
                                .u32(static_cast<uint32_t>(me.nranks))
                                .u64(me.nonce)
                                .take();
  HKT_TRY(send_all(fd, hello.data(), hello.size(), deadline));
  char welcome[tcp_protocol::kWelcomeSize];
  const Status got = recv_all(fd, welcome, sizeof welcome, deadline);
  if (!got.ok()) {
    return error(hktRemoteError, "something listens at %s, but does not greet as Hocket does (%s)", to.text().c_str(),
                 got.error().text.c_str());
  }
  wire::Reader in(std::string_view(welcome, sizeof welcome));
  if (in.raw(tcp_protocol::kMagic.size()) != tcp_protocol::kMagic) {
    return error(hktRemoteError, "what listens at %s is not Hocket", to.text().c_str());
  }
  if (const uint16_t version = in.u16(); version != tcp_protocol::kWireVersion) {
    return error(hktInvalidUsage,
                 "%s uses another version of Hocket (bring-up protocol %u, here %u): install the same version for all "
                 "ranks",
                 me.server.c_str(), version, tcp_protocol::kWireVersion);
  }
  return {};
}

// One try of all addresses at once: the first that connects and greets wins. Some may be dead ends that never answer
// (a bridge that exists on every host, an interface without a cable): after the first failure the rest get
// `patience_ms`.
Result<Fd> connect_any(const std::vector<Address>& addresses, const TcpMember& me, int patience_ms, Deadline deadline) {
  struct Attempt {
    Address to;
    Fd fd;
  };
  std::vector<Attempt> attempts;
  std::optional<Error> last;
  Deadline round = earlier(deadline, Deadline::in_ms(kGreetingMs));
  const auto failed = [&](Error&& why) {
    if (!last) round = earlier(round, Deadline::in_ms(patience_ms));
    last = std::move(why);
  };
  for (const Address& to : addresses) {
    Result<Fd> fd = start_connect(to);
    if (fd) {
      attempts.push_back({to, std::move(*fd)});
    } else {
      failed(std::move(fd.error()));
    }
  }
  while (!attempts.empty()) {
    std::vector<pollfd> polled;
    for (const Attempt& attempt : attempts) polled.push_back({attempt.fd.get(), POLLOUT, 0});
    if (poll(polled.data(), polled.size(), round.left_ms()) < 0 && errno != EINTR) {
      return descriptor_error("cannot poll sockets");
    }
    std::vector<Attempt> pending;
    for (size_t i = 0; i < attempts.size(); ++i) {
      Attempt& attempt = attempts[i];
      if (polled[i].revents == 0) {
        pending.push_back(std::move(attempt));
        continue;
      }
      Status status = finish_connect(attempt.fd.get(), attempt.to);
      if (status.ok()) {
        status = greet(attempt.fd.get(), attempt.to, me, earlier(deadline, Deadline::in_ms(kGreetingMs)));
      }
      if (status.ok()) return std::move(attempt.fd);
      if (status.error().code == hktInvalidUsage) return std::move(status.error());
      failed(std::move(status.error()));
    }
    attempts = std::move(pending);
    if (!attempts.empty() && round.passed()) {
      return last ? *std::move(last) : error(hktRemoteError, "no answer from %s", attempts.front().to.text().c_str());
    }
  }
  return last ? *std::move(last) : error(hktRemoteError, "there is no address to connect to");
}

using AddressSource = std::function<Result<std::vector<Address>>()>;

Result<Fd> connect_until(const AddressSource& source, const TcpMember& me, Deadline deadline) {
  int pause_ms = 5;
  int patience_ms = 200;
  Error last;
  do {
    Result<std::vector<Address>> addresses = source();
    if (!addresses) {
      last = std::move(addresses.error());
    } else {
      Result<Fd> fd = connect_any(*addresses, me, patience_ms, deadline);
      if (fd) return fd;
      last = std::move(fd.error());
    }
    // Rank 0 may start late, and its name may become known late; anything else does not get better by waiting.
    if (last.code != hktRemoteError && last.code != hktTimeout) return last;
    std::this_thread::sleep_for(std::chrono::milliseconds(deadline.left_ms(pause_ms)));
    pause_ms = std::min(pause_ms * 2, 100);
    patience_ms = std::min(patience_ms * 2, 3000);
  } while (!deadline.passed());
  return error(hktTimeout,
               "rank %d of %d could not reach %s before the deadline: %s; is it running there, and may this host "
               "connect to it?",
               me.rank, me.nranks, me.server.c_str(), last.text.c_str());
}

Result<std::unique_ptr<Store>> join(const AddressSource& source, const TcpMember& me, Deadline deadline) {
  HKT_ASSIGN(Fd fd, connect_until(source, me, deadline));
  return std::unique_ptr<Store>(std::make_unique<TcpStore>(std::move(fd), me, deadline, nullptr));
}

// See host_tcp_store.
Result<std::vector<Address>> listening_addresses(const HostPort& where, Family family, const TcpMember& me) {
  HKT_ASSIGN(const std::vector<Address> named, resolve(where, family));
  HKT_ASSIGN(const std::vector<Interface> mine, all_interfaces());
  std::vector<Address> out;
  for (const Address& address : named) {
    const auto same = [&](const Interface& i) {
      Address at_port = i.address;
      at_port.set_port(where.port);
      return at_port == address;
    };
    const bool local = std::any_of(mine.begin(), mine.end(), same);
    if (local || address.is_loopback() || address.is_wildcard()) out.push_back(address);
  }
  const bool loopback_wanted = where.host == "localhost" || out.empty() || out.front().host() == where.host;
  const auto is_loopback = [](const Address& a) { return a.is_loopback(); };
  const bool only_loopback = !out.empty() && std::all_of(out.begin(), out.end(), is_loopback);
  if (!out.empty() && (!only_loopback || loopback_wanted)) return out;
  if (out.empty()) {
    HKT_WARN(init, (LogId{me.rank, me.nranks}),
             "rank 0 shall listen on %s, which is no address of this host: it listens on all",
             in_quotes(where.host).c_str());
  }
  out.clear();
  if (family != Family::v6) out.push_back(Address::wildcard(Family::v4, where.port));
  if (family != Family::v4) out.push_back(Address::wildcard(Family::v6, where.port));
  return out;
}

// Listens on all of them, but for those that this host cannot do (IPv6 switched off).
Result<std::vector<Fd>> listen_on_all(const std::vector<Address>& addresses) {
  std::vector<Fd> out;
  std::optional<Error> failure;
  for (const Address& address : addresses) {
    Result<Fd> fd = listen_on(address);
    if (fd) {
      out.push_back(std::move(*fd));
    } else if (fd.error().code == hktInvalidUsage) {
      return std::move(fd.error());
    } else {
      failure = std::move(fd.error());
    }
  }
  if (out.empty() && failure) return *std::move(failure);
  return out;
}

}  // namespace

Result<std::unique_ptr<Store>> host_tcp_store(const HostPort& where, const TcpMember& me, Deadline deadline) {
  std::vector<Fd> listeners;
  if (me.nranks > 1) {
    HKT_ASSIGN(const Family family, socket_family());
    HKT_ASSIGN(const std::vector<Address> addresses, listening_addresses(where, family, me));
    // A former job may be closing the port right now, or a rank that tries to connect may hold it for a moment.
    const Deadline patience = earlier(deadline, Deadline::in_ms(500));
    Result<std::vector<Fd>> made = listen_on_all(addresses);
    while (!made && made.error().code == hktInvalidUsage && !patience.passed()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      made = listen_on_all(addresses);
    }
    if (!made) {
      if (made.error().code != hktInvalidUsage) return std::move(made.error());
      // Another rank 0 of Hocket at this place gets to know this one; any other program ends it here.
      Result<std::unique_ptr<Store>> other = join_tcp_store(where, me, earlier(deadline, Deadline::in_ms(500)));
      if (other) return other;
      return error(hktInvalidUsage, "rank 0 of %d: %s", me.nranks, made.error().text.c_str());
    }
    listeners = std::move(*made);
  }
  Result<std::pair<Fd, Fd>> pair = socket_pair();
  if (!pair) return std::move(pair.error());
  std::vector<Fd> members;
  members.push_back(std::move(pair->second));
  TcpServer::Options options;
  options.nonce = me.nonce;
  options.nranks = static_cast<uint32_t>(me.nranks);
  HKT_ASSIGN(std::unique_ptr<TcpServer> server, TcpServer::start(std::move(listeners), std::move(members), options));
  HKT_TRY(greet(pair->first.get(), Address(), me, deadline));
  return std::unique_ptr<Store>(std::make_unique<TcpStore>(std::move(pair->first), me, deadline, std::move(server)));
}

Result<std::unique_ptr<Store>> join_tcp_store(const HostPort& where, const TcpMember& me, Deadline deadline) {
  HKT_ASSIGN(const Family family, socket_family());
  return join([&]() { return resolve(where, family); }, me, deadline);
}

Result<std::unique_ptr<Store>> join_tcp_store(const std::vector<Address>& where, const TcpMember& me,
                                              Deadline deadline) {
  return join([&]() -> Result<std::vector<Address>> { return where; }, me, deadline);
}

}  // namespace hocket
