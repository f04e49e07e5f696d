#include "bootstrap/tcp_store.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/proof.h"
#include "base/text.h"
#include "bootstrap/interfaces.h"
#include "bootstrap/series.h"
#include "bootstrap/tcp_protocol.h"
#include "bootstrap/tcp_server.h"
#include "bootstrap/wire.h"

namespace hocket {
namespace {

using tcp_protocol::frame;
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
    HKT_TRY(check_size(key, value));
    HKT_ASSIGN(Reply reply, call(Op::put, wire::Writer().bytes(key).bytes(value).view(), with_grace(deadline_)));
    if (reply.op == Op::done) return {};
    if (reply.op == Op::exists) return exists(key);
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
      return missing(reply, keys.size());
    }
    return nonsense();
  }

  Result<Found> exchange(std::string_view key, std::string_view value, const Series& wanted,
                         Deadline deadline) override {
    HKT_TRY(check_size(key, value));
    const auto count = static_cast<size_t>(wanted.count);
    wire::Writer body;
    body.bytes(key).bytes(value).u32(static_cast<uint32_t>(deadline.left_ms()));
    body.bytes(wanted.prefix).u32(static_cast<uint32_t>(count));
    HKT_ASSIGN(Reply reply, call(Op::exchange, body.view(), with_grace(deadline)));
    if (reply.op == Op::exists) return exists(key);
    if (reply.op == Op::missing) return missing(reply, count);
    if (reply.op != Op::series) return nonsense();
    std::optional<std::vector<std::string>> values = wire::unpack_series(reply.body, count, kMaxReply);
    if (!values) return nonsense();
    return Found{std::move(*values), {}};
  }

  Traffic traffic() const override { return traffic_; }

  void fail(const Error& failure) override {
    // Nobody is left to be told if this fails.
    (void)call(Op::fail, wire::pack_error(failure), Deadline::in_ms(kGraceMs)).ok();
  }

  Status leave(Deadline deadline) override {
    if (fd_) {
      const std::string bye = frame(Op::bye, "");
      (void)send_all(fd_.get(), bye.data(), bye.size(), Deadline::in_ms(kGraceMs)).ok();
      ++traffic_.requests;
      traffic_.sent += bye.size();
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

  static Error exists(std::string_view key) {
    return error(hktInvalidUsage, "key %s exists already", in_quotes(key).c_str());
  }

  static Status check_size(std::string_view key, std::string_view value) {
    if (key.size() <= kMaxKey && value.size() <= kMaxValue) return {};
    return error(hktInternalError, "a value of %zu bytes under %s is too long for bring-up (at most %zu)", value.size(),
                 in_quotes(key).c_str(), kMaxValue);
  }

  Result<Found> missing(const Reply& reply, size_t count) {
    Found out;
    wire::Reader in(reply.body);
    out.note = one_line(in.bytes(), 400);
    while (in.ok() && in.left() > 0) {
      const uint32_t index = in.u32();
      if (index >= count || out.missing.size() > count) return nonsense();
      out.missing.push_back(static_cast<int>(index));
    }
    if (!in.done() || out.missing.empty()) return nonsense();
    return out;
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
    ++traffic_.requests;
    traffic_.sent += request.size();
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
    traffic_.received += sizeof head + reply.body.size();
    return reply;
  }

  Fd fd_;
  TcpMember me_;
  Deadline deadline_;
  Traffic traffic_{1, tcp_protocol::kHelloSize, tcp_protocol::kWelcomeSize};
  std::unique_ptr<TcpServer> server_;  // of rank 0
};

std::string hello_of(const TcpMember& me) {
  return wire::Writer()
      .raw(tcp_protocol::kMagic)
      .u16(me.wire_version)
      .u16(0)
      .u32(static_cast<uint32_t>(me.rank))
      .u32(static_cast<uint32_t>(me.nranks))
      .u64(me.nonce)
      .take();
}

// Is what the other side says the welcome of a rendezvous server of this job?
Status check_welcome(std::string_view bytes, const Address& to, const TcpMember& me) {
  if (std::optional<Error> refusal = refusal_in(bytes, me.server)) return *std::move(refusal);
  wire::Reader in(bytes);
  if (in.raw(tcp_protocol::kMagic.size()) != tcp_protocol::kMagic) {
    return error(hktRemoteError, "what listens at %s is not Hocket", to.text().c_str());
  }
  if (const uint16_t version = in.u16(); version != me.wire_version) {
    return error(hktInvalidUsage,
                 "%s uses another version of Hocket (bring-up protocol %u, here %u): install the same version for all "
                 "ranks",
                 me.server.c_str(), version, me.wire_version);
  }
  return {};
}

// One try of all addresses at once: the first that connects and greets wins. Some may be dead ends that never answer
// (a bridge that exists on every host, an interface without a cable, another program's port): after the first failure
// the rest get `patience_ms`.
class Race {
 public:
  Race(const TcpMember& me, int patience_ms, Deadline deadline)
      : me_(me),
        hello_(hello_of(me)),
        patience_ms_(patience_ms),
        round_(earlier(deadline, Deadline::in_ms(kGreetingMs))) {}

  Result<Fd> run(const std::vector<Way>& ways) {
    for (const Way& way : ways) {
      Result<Fd> fd = start_connect(way.to, way.from.valid() ? &way.from : nullptr);
      if (fd) {
        attempts_.push_back({way.to, std::move(*fd), false, {}, {}});
      } else {
        failed(std::move(fd.error()));
      }
    }
    while (!attempts_.empty()) {
      HKT_TRY(wait());
      for (size_t i = attempts_.size(); i-- > 0;) {
        if (polled_[i].revents == 0) continue;
        Result<bool> won = advance(attempts_[i]);
        if (won && *won) {
          tell(attempts_[i]);
          return std::move(attempts_[i].fd);
        }
        if (won) continue;
        if (won.error().code == hktInvalidUsage && !me_.searches) return std::move(won.error());
        failed(std::move(won.error()));
        attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (!attempts_.empty() && round_.passed()) {
        const Attempt& silent = attempts_.front();
        return error(hktRemoteError,
                     silent.connected ? "something listens at %s, but does not greet as Hocket does%s%s"
                                      : "no answer from %s%s%s",
                     silent.to.text().c_str(), failures_.empty() ? "" : "; ", failures_.c_str());
      }
    }
    return error(last_, "%s", failures_.empty() ? "there is no address to connect to" : failures_.c_str());
  }

 private:
  struct Attempt {
    Address to;
    Fd fd;
    bool connected = false;          // and hello said, or its proof begun
    std::optional<Handshake> proof;  // before the hello
    std::string welcome;
  };

  Status wait() {
    polled_.clear();
    for (const Attempt& a : attempts_)
      polled_.push_back({a.fd.get(), static_cast<short>(a.connected ? POLLIN : POLLOUT), 0});
    if (poll(polled_.data(), polled_.size(), round_.left_ms()) < 0) {
      if (errno != EINTR) return descriptor_error("cannot poll sockets");
      for (pollfd& p : polled_) p.revents = 0;
    }
    return {};
  }

  // The first bytes of a connection always fit.
  Status say_hello(const Attempt& a) { return send_all(a.fd.get(), hello_.data(), hello_.size(), round_); }

  // True once the server has greeted.
  Result<bool> advance(Attempt& a) {
    if (!a.connected) {
      HKT_TRY(finish_connect(a.fd.get(), a.to));
      a.connected = true;
      if (me_.secret != nullptr) a.proof = Handshake::connecting(me_.secret, me_.server);
      if (!a.proof) HKT_TRY(say_hello(a));
    }
    if (a.proof) {
      HKT_ASSIGN(const bool proven, a.proof->advance(a.fd.get()));
      if (!proven) return false;
      a.proof.reset();
      HKT_TRY(say_hello(a));
    }
    char bytes[tcp_protocol::kWelcomeSize];
    const Result<size_t> got = recv_some(a.fd.get(), bytes, sizeof bytes - a.welcome.size());
    if (!got) {
      return error(hktRemoteError, "something listens at %s, but does not greet as Hocket does (%s)",
                   a.to.text().c_str(), got.error().text.c_str());
    }
    a.welcome.append(bytes, got.value());
    if (a.welcome.size() < sizeof bytes) return false;
    HKT_TRY(check_welcome(a.welcome, a.to, me_));
    return true;
  }

  void failed(Error&& why) {
    if (failures_.empty()) round_ = earlier(round_, Deadline::in_ms(patience_ms_));
    last_ = me_.searches ? hktRemoteError : why.code;  // another job's, perhaps
    if (failures_.size() < 400) failures_ += (failures_.empty() ? "" : "; ") + why.text;
  }

  void tell(const Attempt& winner) {
    std::string others;
    for (const Attempt& a : attempts_) {
      if (&a != &winner) others += "; " + a.to.text() + (a.connected ? " connected, too" : " has not answered yet");
    }
    if (!failures_.empty()) others += "; " + failures_;
    const Result<Address> mine = local_address(winner.fd.get());
    HKT_INFO(net, (LogId{me_.rank, me_.nranks}), "%s answers first at %s (from %s)%s", me_.server.c_str(),
             winner.to.text().c_str(), mine.ok() ? mine.value().host().c_str() : "?", others.c_str());
  }

  const TcpMember& me_;
  const std::string hello_;
  const int patience_ms_;
  Deadline round_;
  std::vector<Attempt> attempts_;
  std::vector<pollfd> polled_;
  std::string failures_;
  Code last_ = hktRemoteError;
};

Result<Fd> connect_until(const ContactSource& source, TcpMember me, Deadline deadline) {
  int pause_ms = 5;
  int patience_ms = 200;
  Error last;
  HKT_ASSIGN(const std::vector<Interface> interfaces, usable_interfaces());
  HKT_ASSIGN(const Bound bound, source_rule());
  const std::vector<Net> own = networks(interfaces);
  do {
    Result<Contact> contact = source();
    if (!contact) {
      last = std::move(contact.error());
    } else {
      me.nonce = contact->nonce;
      const std::vector<Way> ways = ways_to(contact->addresses, own, bound);
      if (ways.empty() && !contact->addresses.empty()) {
        return error(hktInvalidUsage,
                     "rank %d of %d cannot connect to %s: %s is of another family than the addresses that "
                     "HOCKET_SOCKET_IFNAME (or HCCL_IF_IP) leaves here",
                     me.rank, me.nranks, me.server.c_str(), contact->addresses.front().host().c_str());
      }
      Result<Fd> fd = Race(me, patience_ms, deadline).run(ways);
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
  return host_tcp_store(std::move(listeners), me, deadline);
}

Result<std::unique_ptr<Store>> host_tcp_store(std::vector<Fd> listeners, const TcpMember& me, Deadline deadline) {
  Result<std::pair<Fd, Fd>> pair = socket_pair();
  if (!pair) return std::move(pair.error());
  std::vector<Fd> members;
  members.push_back(std::move(pair->second));
  TcpServer::Options options;
  options.nonce = me.nonce;
  options.nranks = static_cast<uint32_t>(me.nranks);
  options.secret = me.secret;
  options.wire_version = me.wire_version;
  HKT_ASSIGN(std::unique_ptr<TcpServer> server, TcpServer::start(std::move(listeners), std::move(members), options));
  const std::string hello = hello_of(me);
  HKT_TRY(send_all(pair->first.get(), hello.data(), hello.size(), deadline));
  char welcome[tcp_protocol::kWelcomeSize];
  HKT_TRY(recv_all(pair->first.get(), welcome, sizeof welcome, deadline));
  HKT_TRY(check_welcome(std::string_view(welcome, sizeof welcome), Address(), me));
  return std::unique_ptr<Store>(std::make_unique<TcpStore>(std::move(pair->first), me, deadline, std::move(server)));
}

Result<std::unique_ptr<Store>> join_tcp_store(const HostPort& where, const TcpMember& me, Deadline deadline) {
  HKT_ASSIGN(const Family family, socket_family());
  const auto look_up = [&]() -> Result<Contact> {
    HKT_ASSIGN(std::vector<Address> addresses, resolve(where, family));
    return Contact{me.nonce, std::move(addresses)};
  };
  return join_tcp_store(look_up, me, deadline);
}

Result<std::unique_ptr<Store>> join_tcp_store(const ContactSource& source, const TcpMember& me, Deadline deadline) {
  HKT_ASSIGN(Fd fd, connect_until(source, me, deadline));
  return greeted_tcp_store(std::move(fd), me, deadline);
}

std::unique_ptr<Store> greeted_tcp_store(Fd fd, const TcpMember& me, Deadline deadline) {
  return std::make_unique<TcpStore>(std::move(fd), me, deadline, nullptr);
}

}  // namespace hocket
