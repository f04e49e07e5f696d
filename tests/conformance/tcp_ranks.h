// TCP ranks as threads of one process, for tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "transport/tcp/peer.h"
#include "transport/tcp/tcp_transport.h"

namespace hocket::tcp {

// What friend declarations let tests do.
struct TcpTestAccess {
  // The pump's end of an unused link starts at message number `count`; call it on both ends.
  static void start_send(TcpTransport& t, int peer, uint16_t tag, uint64_t count) {
    const TurnLock lock(t.turn_);
    auto& ring = t.peers_[static_cast<size_t>(peer)]->out.rings_[tag];
    ring.pushed = ring.taken = count;
  }
  static void start_recv(TcpTransport& t, int peer, uint16_t tag, uint64_t count) {
    const TurnLock lock(t.turn_);
    t.peers_[static_cast<size_t>(peer)]->in.rings_[tag].begun = count;
  }
  // What the kernel does to the connections of a killed process.
  static void kill(TcpTransport& t) {
    const TurnLock lock(t.turn_);
    for (const auto* p : t.up_) {
      shutdown(p->fd.get(), SHUT_RDWR);
      for (const auto& share : p->shares) shutdown(share->fd.get(), SHUT_RDWR);
    }
  }
  // The connection to `peer`, to write to it what no Outbox would.
  static int socket(TcpTransport& t, int peer) {
    const TurnLock lock(t.turn_);
    return t.peers_[static_cast<size_t>(peer)]->fd.get();
  }
  // The same of a further one.
  static int share(TcpTransport& t, int peer, size_t i) {
    const TurnLock lock(t.turn_);
    return t.peers_[static_cast<size_t>(peer)]->shares.at(i)->fd.get();
  }
  // Reads what `peer` has sent and does nothing else; false once its connections have ended.
  static bool receive(TcpTransport& t, int peer) {
    const TurnLock lock(t.turn_);
    auto& p = *t.peers_[static_cast<size_t>(peer)];
    return p.state == TcpTransport::Peer::State::up && (t.receive(p, TcpTransport::Sockets::all), true);
  }
};

}  // namespace hocket::tcp

namespace hocket::test {

using TcpRanks = std::vector<std::unique_ptr<tcp::TcpTransport>>;

inline uint64_t random_nonce() { return std::random_device{}() | uint64_t{std::random_device{}()} << 32; }

inline bool has_ipv6() { return listen_on(Address::loopback(Family::v6, 0)).ok(); }

struct TcpSetup {
  RingGeometry geometry{8, 64 * 1024, 4};
  tcp::Striping striping = {};
  uint16_t tags = 4;
  std::vector<Address> addresses{Address::loopback(Family::v4, 0)};
  SharedSecret secret = {};
};

inline tcp::Config tcp_config(int rank, int nranks, uint64_t nonce, const TcpSetup& setup) {
  tcp::Config config;
  config.rank = rank;
  config.nranks = nranks;
  config.nonce = nonce;
  config.epoch = 7;
  config.geometry = setup.geometry;
  config.striping = setup.striping;
  config.tags = setup.tags;
  config.addresses = setup.addresses;
  config.secret = setup.secret;
  config.log = {rank, nranks};
  return config;
}

// Ranks that know one another's contacts; empty after a failure, which is one of the test.
inline TcpRanks make_tcp_ranks(int nranks, const TcpSetup& setup = {}, uint64_t nonce = random_nonce()) {
  TcpRanks ranks;
  std::vector<std::string> contacts;
  for (int r = 0; r < nranks; ++r) {
    auto t = tcp::TcpTransport::listen(tcp_config(r, nranks, nonce, setup));
    EXPECT_TRUE(t.ok()) << t.error().text;
    if (!t) return {};
    ranks.push_back(std::move(*t));
    contacts.push_back(ranks.back()->contact());
  }
  for (auto& t : ranks) {
    const Status s = t->set_contacts(contacts);
    EXPECT_TRUE(s.ok()) << s.error().text;
  }
  return ranks;
}

// Makes all ranks progress in turn until ready() is true.
template <class Ready>
bool pump_until(TcpRanks& ranks, Ready ready, Deadline deadline = Deadline::in_ms(10'000)) {
  while (!ready()) {
    if (deadline.passed()) return false;
    for (auto& t : ranks)
      if (t != nullptr) t->progress();
  }
  return true;
}

constexpr uint32_t kTcpSignature = 0xabcd;
constexpr uint64_t kNonce = 0x1122334455667788;

inline Link send_end(tcp::TcpTransport& t, int peer, uint16_t tag = 0) {
  Result<Link> link = t.open_send(peer, tag);
  EXPECT_TRUE(link.ok()) << link.error().text;
  return link.ok() ? *link : Link();
}
inline Link recv_end(tcp::TcpTransport& t, int peer, uint16_t tag = 0) {
  Result<Link> link = t.open_recv(peer, tag);
  EXPECT_TRUE(link.ok()) << link.error().text;
  return link.ok() ? *link : Link();
}
inline void push(Link& link, unsigned char value, uint64_t bytes = 8) {
  std::memset(link.push_begin(bytes), value, bytes);
  link.push(bytes, kTcpSignature);
}
// Rank `from` and rank `to` have exchanged a message on tag 3.
inline void meet(TcpRanks& ranks, int from, int to) {
  Link send = send_end(*ranks[static_cast<size_t>(from)], to, 3),
       recv = recv_end(*ranks[static_cast<size_t>(to)], from, 3);
  push(send, 1);
  ASSERT_TRUE(pump_until(ranks, [&] { return recv.pop_ready(kTcpSignature); }));
  recv.pop();
}
inline bool has_fault(tcp::TcpTransport& t) { return t.fault().has_value(); }
inline std::string text_of(tcp::TcpTransport& t) {
  const auto fault = t.fault();
  return fault ? fault->text : "no fault";
}
inline Address address_of(tcp::TcpTransport& t) { return tcp::Connector::parse_contact(t.contact())->front(); }

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << text

}  // namespace hocket::test
