// TCP beyond the conformance suite: the wire, connecting, peers that die or leave, faults that spread.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "conformance/tcp_ranks.h"

namespace hocket::test {
namespace {

using tcp::Connector;
using tcp::Header;
using tcp::Hello;
using tcp::Kind;
using tcp::TcpTestAccess;
using tcp::TcpTransport;

// --- wire

TEST(TcpWire, HelloAndHeaderAreWhatVersionTwoSays) {
  Hello hello;
  hello.nonce = kNonce;
  hello.rank = 0x01020304;
  hello.size = 0x05060708;
  unsigned char bytes[sizeof(Hello)];
  std::memcpy(bytes, &hello, sizeof hello);
  const unsigned char head[] = {0xf0, 0x5b, 'H',  'O',  'C',  'K',  'E',  'T',  2, 0, 0, 0, 0, 0, 0, 0,
                                0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 4, 3, 2, 1, 8, 7, 6, 5};
  EXPECT_EQ(std::memcmp(bytes, head, sizeof head), 0);
  Header h;
  h.length = 0x0102030405060708;
  h.tag = 0x0a0b;
  h.kind = Kind::goodbye;
  std::memcpy(bytes, &h, sizeof h);
  EXPECT_EQ(bytes[0], 8);
  EXPECT_EQ(bytes[28], 0x0b);
  EXPECT_EQ(bytes[30], 6);
}

TEST(TcpContacts, OnlyWellFormedOnesAreTaken) {
  const std::string address = Address::loopback(Family::v4, 4711).encode(),
                    v6 = Address::loopback(Family::v6, 4712).encode();
  const auto with_count = [](int n, const std::string& rest) { return std::string(1, static_cast<char>(n)) + rest; };
  EXPECT_TRUE(Connector::parse_contact("").ok()) << "a rank without TCP";
  auto good = Connector::parse_contact(with_count(2, address + v6));
  ASSERT_TRUE(good.ok());
  ASSERT_EQ(good->size(), 2u);
  EXPECT_EQ((*good)[1].text(), "[::1]:4712");
  std::vector<std::string> bad = {with_count(0, ""),
                                  with_count(1, ""),
                                  with_count(2, address),
                                  with_count(1, address + "x"),
                                  with_count(255, address),
                                  with_count(1, Address::loopback(Family::v4, 0).encode()),
                                  with_count(1, "\xff" + address.substr(1))};
  for (size_t n = 1; n < 1 + address.size() + v6.size(); ++n) bad.push_back(with_count(2, address + v6).substr(0, n));
  std::string many;
  for (size_t i = 0; i <= tcp::Port::kMaxAddresses; ++i) many += address;
  bad.push_back(with_count(static_cast<int>(tcp::Port::kMaxAddresses) + 1, many));
  for (const std::string& bytes : bad)
    EXPECT_FALSE(Connector::parse_contact(bytes).ok()) << testing::PrintToString(bytes);

  TcpRanks ranks = make_tcp_ranks(1);
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_FALSE(ranks[0]->set_contacts({ranks[0]->contact(), ranks[0]->contact()}).ok());
  const Status s = ranks[0]->set_contacts({"\x03garbage"});
  ASSERT_FALSE(s.ok());
  EXPECT_HAS(s.error().text, "rank 0");
}

TEST(TcpContacts, ListensOnWhatItWasGivenOnly) {
  auto t = TcpTransport::listen(tcp_config(0, 2, kNonce, TcpSetup{}));
  ASSERT_TRUE(t.ok());
  auto addresses = Connector::parse_contact((*t)->contact());
  ASSERT_TRUE(addresses.ok());
  ASSERT_EQ(addresses->size(), 1u);
  EXPECT_EQ(addresses->front().host(), "127.0.0.1");
  TcpSetup none;
  none.addresses.clear();
  auto refused = TcpTransport::listen(tcp_config(0, 2, kNonce, none));
  ASSERT_FALSE(refused.ok());
  EXPECT_HAS(refused.error().text, "no network address");
}

// --- outbox and inbox, on two ends of a small pipe

struct NoControl final : tcp::Inbox::Sink {
  Status control(const Header& h, const unsigned char*) override {
    kinds.push_back(h.kind);
    return {};
  }
  std::vector<Kind> kinds;
};

TEST(TcpBoxes, MessagesSurviveEverySplitOfTheStream) {
  const RingGeometry geometry{8, 32 * 1024, 1};
  const tcp::Limits limits{geometry, 3, 7};
  auto pair = socket_pair();
  ASSERT_TRUE(pair.ok());
  const int small = 2048;  // the kernel has a minimum of its own, below one message
  setsockopt(pair->first.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  tcp::CallLog calls;
  tcp::Outbox out(limits, calls);
  tcp::Inbox in(limits);
  tcp::Inbox::Stream stream(tcp::Inbox::Stream::Kind::first);
  auto stage = std::make_unique<tcp::Stage>();
  NoControl sink;
  Link send[3], recv[3];
  for (uint16_t tag = 0; tag < 3; ++tag) {
    Link::Setup s;
    s.geometry = geometry;
    s.ring = *out.open(tag);
    send[tag] = Link(s);
    s.ring = *in.open(tag);
    recv[tag] = Link(s);
  }
  std::mt19937 random(5);
  std::vector<std::pair<uint16_t, uint64_t>> sent;  // in order
  const auto size = [](uint64_t i) { return i % 5 == 0 ? 32 * 1024 - i : (i * 37) % 700; };
  size_t received = 0;
  uint64_t number[3] = {0, 0, 0};
  std::vector<std::unique_ptr<std::vector<char>>> lent;  // payloads that out may still send from
  uint64_t reclaimed = 0;                                // messages that were unsent when their payloads changed
  while (received < 3000) {
    const auto tag = static_cast<uint16_t>(random() % 3);
    if (sent.size() < 3000 && send[tag].push_ready()) {
      const uint64_t bytes = size(sent.size());
      const void* from = nullptr;
      if (random() % 2 == 0) {
        lent.push_back(std::make_unique<std::vector<char>>(bytes + 1, static_cast<char>(sent.size() & 0xff)));
        from = lent.back()->data();
      } else {
        std::memset(send[tag].push_begin(bytes), static_cast<int>(sent.size() & 0xff), bytes);
      }
      send[tag].push(bytes, static_cast<uint32_t>(sent.size() + 1));
      out.push(tag, static_cast<uint32_t>(bytes), from);
      sent.emplace_back(tag, bytes);
      if (sent.size() % 50 == 0) {
        CallRecord call;
        call.seq = sent.size() / 50;
        calls.write(call);
      }
      if (random() % 2 == 0) out.credit(tag, sent.size());
    }
    ASSERT_TRUE(out.flush(pair->first.get()).ok());
    if (random() % 50 == 0) {  // in the middle of messages, too
      reclaimed += out.unsent();
      out.reclaim();
      for (const auto& payload : lent) std::fill(payload->begin(), payload->end(), '?');
      lent.clear();
    }
    auto got = in.receive(pair->second.get(), stream, *stage, sink);
    ASSERT_TRUE(got.ok()) << got.error().text;
    while (received < sent.size()) {
      const auto [t, bytes] = sent[received];
      if (!recv[t].pop_ready(static_cast<uint32_t>(received + 1))) break;
      const unsigned char* p = recv[t].pop_begin(bytes);
      ASSERT_TRUE(std::all_of(p, p + bytes, [&](unsigned char c) { return c == (received & 0xff); }))
          << "message " << received;
      recv[t].pop();
      ASSERT_TRUE(out.acked(t, ++number[t]).ok());
      ++received;
    }
  }
  EXPECT_EQ(std::count(sink.kinds.begin(), sink.kinds.end(), Kind::announce), 60);
  EXPECT_EQ(out.unsent(), 0u);
  EXPECT_GT(reclaimed, 0u);
  EXPECT_FALSE(out.acked(0, number[0] - 1).ok()) << "credit does not go back";
  EXPECT_FALSE(out.acked(0, number[0] + 1).ok()) << "credit for what was not sent";
}

// --- connecting

std::string contact_of(const std::vector<Address>& addresses) {
  std::string bytes(1, static_cast<char>(addresses.size()));
  for (const Address& a : addresses) bytes += a.encode();
  return bytes;
}

TEST(TcpConnect, TriesAllAddressesOfARank) {
  TcpRanks ranks = make_tcp_ranks(3);
  ASSERT_EQ(ranks.size(), 3u);
  std::vector<std::string> contacts;
  for (auto& t : ranks) contacts.push_back(t->contact());
  // For rank 0: nobody there, another rank of this job, then the right one. The first two answer at once.
  Address nobody;
  {
    auto closed = listen_on(Address::loopback(Family::v4, 0));
    ASSERT_TRUE(closed.ok());
    nobody = *local_address(closed->get());
  }
  auto dialler = TcpTransport::listen(tcp_config(2, 3, kNonce, TcpSetup{}));
  auto target = TcpTransport::listen(tcp_config(0, 3, kNonce, TcpSetup{}));
  auto other = TcpTransport::listen(tcp_config(1, 3, kNonce, TcpSetup{}));
  ASSERT_TRUE(dialler.ok() && target.ok() && other.ok());
  contacts[0] = contact_of({nobody, address_of(**other), address_of(**target)});
  for (auto* t : {&dialler, &target, &other}) ASSERT_TRUE((**t)->set_contacts(contacts).ok());
  TcpRanks all;
  all.push_back(std::move(*target));
  all.push_back(std::move(*other));
  all.push_back(std::move(*dialler));
  meet(all, 2, 0);
  EXPECT_EQ(all[1]->connected(), 0u);
}

TEST(TcpConnect, ARankThatCannotBeReachedIsNamedWithTheReasons) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  const std::string where = address_of(*ranks[0]).text();
  ranks[0].reset();
  (void)send_end(*ranks[1], 0);
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[1]); }));
  EXPECT_EQ(ranks[1]->fault()->rank, 0);
  EXPECT_HAS(text_of(*ranks[1]), "rank 0 cannot be reached");
  EXPECT_HAS(text_of(*ranks[1]), where);
  EXPECT_HAS(text_of(*ranks[1]), "refused");
}

TEST(TcpConnect, AHigherRankThatEndedBeforeItConnectedIsNamed) {
  for (const bool at_once : {true, false}) {  // dead when the watch begins, or later
    TcpRanks ranks = make_tcp_ranks(2);
    ASSERT_EQ(ranks.size(), 2u);
    if (at_once) ranks[1].reset();
    (void)recv_end(*ranks[0], 1);
    const int64_t start = now_ns();
    while (now_ns() - start < 1'300'000'000) {
      (void)ranks[0]->fault();
      if (ranks[1] != nullptr) ranks[1]->progress();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (!at_once) {
      EXPECT_FALSE(has_fault(*ranks[0])) << "it is only late: " << text_of(*ranks[0]);
      ranks[1].reset();
    }
    ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[0]); }, Deadline::in_ms(2000)));
    EXPECT_EQ(ranks[0]->fault()->rank, 1);
    EXPECT_EQ(ranks[0]->fault()->code, hktRemoteError);
  }
}

TEST(TcpConnect, ALateHigherRankIsWatchedAndWelcome) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  Link recv = recv_end(*ranks[0], 1);
  const int64_t start = now_ns();
  while (now_ns() - start < 1'200'000'000) {
    (void)ranks[0]->fault();
    ranks[1]->progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  Link send = send_end(*ranks[1], 0);
  push(send, 9);
  ASSERT_TRUE(pump_until(ranks, [&] { return recv.pop_ready(kTcpSignature); }));
  EXPECT_FALSE(has_fault(*ranks[0])) << text_of(*ranks[0]);
}

// Lets this process open no more descriptors until the scope ends.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(Fd(dup(0)).get());  // the lowest free one
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(TcpConnect, OutOfDescriptorsSaysSoAtBothEnds) {
  {
    TcpRanks ranks = make_tcp_ranks(2);
    ASSERT_EQ(ranks.size(), 2u);
    const NoDescriptors none;
    auto link = ranks[1]->open_send(0, 0);
    ASSERT_FALSE(link.ok());
    EXPECT_EQ(link.error().code, hktSystemError);
    EXPECT_HAS(link.error().text, "ulimit -n");
  }
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  (void)send_end(*ranks[1], 0);
  (void)recv_end(*ranks[0], 1);  // a rank that expects nobody leaves a stranger where he is
  const NoDescriptors none;
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[0]); }));
  EXPECT_EQ(ranks[0]->fault()->rank, 0);
  EXPECT_HAS(text_of(*ranks[0]), "ulimit -n");
}

TEST(TcpLinks, WhatCannotBeOpenedIsRefused) {
  auto early = TcpTransport::listen(tcp_config(0, 2, kNonce, TcpSetup{}));
  ASSERT_TRUE(early.ok());
  EXPECT_FALSE((*early)->open_send(1, 0).ok()) << "no contacts yet";
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  (void)send_end(*ranks[0], 1, 2);
  EXPECT_FALSE(ranks[0]->open_send(1, 2).ok()) << "twice";
  EXPECT_FALSE(ranks[0]->open_send(1, 4).ok()) << "no such tag";
  EXPECT_TRUE(ranks[0]->open_recv(1, 2).ok());
  ASSERT_TRUE((*early)->set_contacts({(*early)->contact(), ""}).ok());
  auto silent = (*early)->open_send(1, 0);
  ASSERT_FALSE(silent.ok());
  EXPECT_HAS(silent.error().text, "rank 1 has no TCP address");
}

// --- death and departure

TEST(TcpDeath, AKilledProcessIsNamedWithinASecond) {
  TcpRanks ranks = make_tcp_ranks(3);
  ASSERT_EQ(ranks.size(), 3u);
  const pid_t child = fork();
  if (child == 0) {  // rank 2, until it is killed
    Link send = *ranks[2]->open_send(0, 0);
    (void)*ranks[2]->open_recv(1, 0);
    push(send, 1);
    for (;;) ranks[2]->progress();
  }
  ranks[2].reset();  // this process's copies of its descriptors
  Link recv = recv_end(*ranks[0], 2), send = send_end(*ranks[1], 2);
  push(send, 1);
  ASSERT_TRUE(pump_until(ranks, [&] { return recv.pop_ready(kTcpSignature) && ranks[1]->flushed(); }));
  EXPECT_FALSE(has_fault(*ranks[0]) || has_fault(*ranks[1]));
  const int64_t start = now_ns();
  kill(child, SIGKILL);
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[0]) && has_fault(*ranks[1]); }));
  EXPECT_LT(now_ns() - start, 1'000'000'000);
  waitpid(child, nullptr, 0);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks[static_cast<size_t>(r)]->fault()->rank, 2);
    EXPECT_EQ(ranks[static_cast<size_t>(r)]->fault()->code, hktRemoteError);
    EXPECT_HAS(text_of(*ranks[static_cast<size_t>(r)]), "rank 2");
  }
}

TEST(TcpDeath, TheLastMessagesOfADeadRankAreDelivered) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  meet(ranks, 0, 1);
  Link send = send_end(*ranks[1], 0), recv = recv_end(*ranks[0], 1);
  for (unsigned char i = 0; i < 8; ++i) push(send, i);
  TcpTestAccess::kill(*ranks[1]);
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[0]); }));
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(recv.pop_ready(kTcpSignature)) << i;
    EXPECT_EQ(*recv.pop_begin(8), i);
    recv.pop();
  }
}

TEST(TcpDeath, AForkedChildDisturbsNobody) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  meet(ranks, 0, 1);
  const pid_t child = fork();
  if (child == 0) {
    ranks.clear();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  for (int i = 0; i < 200; ++i)
    for (auto& t : ranks) t->progress();
  EXPECT_FALSE(has_fault(*ranks[0]) || has_fault(*ranks[1]));
  EXPECT_FALSE(ranks[0]->left(1));
  Link send = send_end(*ranks[1], 0), recv = recv_end(*ranks[0], 1);
  push(send, 1);
  EXPECT_TRUE(pump_until(ranks, [&] { return recv.pop_ready(kTcpSignature); }));
}

TEST(TcpGoodbye, IsNoFaultUntilSomethingIsSentThere) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  meet(ranks, 0, 1);
  Link send = send_end(*ranks[1], 0), recv = recv_end(*ranks[0], 1);
  Link back = send_end(*ranks[0], 1);
  for (unsigned char i = 0; i < 5; ++i) push(send, i);
  EXPECT_FALSE(ranks[0]->left(1));
  const int64_t start = now_ns();
  ranks[1].reset();
  EXPECT_LT(now_ns() - start, 2'000'000'000) << "all was read by the kernel of rank 0: nothing to wait for";
  ASSERT_TRUE(pump_until(ranks, [&] { return ranks[0]->left(1) && ranks[0]->connected() == 0; }));
  EXPECT_FALSE(has_fault(*ranks[0])) << text_of(*ranks[0]);
  for (int i = 0; i < 5; ++i) {  // credit for it goes nowhere, and that is all right
    ASSERT_TRUE(recv.pop_ready(kTcpSignature)) << i;
    recv.pop();
    ranks[0]->progress();
  }
  EXPECT_FALSE(has_fault(*ranks[0])) << text_of(*ranks[0]);
  EXPECT_TRUE(ranks[0]->flushed());
  push(back, 1);
  EXPECT_FALSE(ranks[0]->flushed());
  ASSERT_TRUE(has_fault(*ranks[0]));
  EXPECT_EQ(ranks[0]->fault()->rank, 1);
  EXPECT_HAS(text_of(*ranks[0]), "has destroyed its communicator");
}

// The receiver reads late and returns credit while the sender is leaving: an impatient sender's kernel would answer
// that credit with a reset and throw away what has not arrived.
TEST(TcpGoodbye, WhatAPeerSentBeforeItLeftCanBeOpenedLater) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  meet(ranks, 0, 1);
  Link send = send_end(*ranks[0], 1, 1);
  push(send, 42);
  ASSERT_TRUE(pump_until(ranks, [&] { return ranks[0]->flushed(); }));
  std::thread leaving([&] { ranks[0].reset(); });
  const Deadline deadline = Deadline::in_ms(5000);
  while (!ranks[1]->left(0) && !deadline.passed()) ranks[1]->progress();
  leaving.join();
  ASSERT_TRUE(ranks[1]->left(0));
  ranks[1]->progress();
  EXPECT_FALSE(ranks[1]->open_recv(0, 2).ok()) << "nothing came, and nothing will";
  Link recv = recv_end(*ranks[1], 0, 1);
  ASSERT_TRUE(recv.valid() && recv.pop_ready(kTcpSignature));
  EXPECT_EQ(*recv.pop_begin(8), 42);
  recv.pop();
  EXPECT_FALSE(has_fault(*ranks[1])) << text_of(*ranks[1]);
}

TEST(TcpGoodbye, NothingThatWasSentIsLost) {
  TcpSetup setup;
  setup.geometry = RingGeometry{16, 512 * 1024, 1};
  TcpRanks ranks = make_tcp_ranks(2, setup);
  ASSERT_EQ(ranks.size(), 2u);
  meet(ranks, 0, 1);
  Link send = send_end(*ranks[0], 1), recv = recv_end(*ranks[1], 0);
  const int small = 64 * 1024;
  setsockopt(TcpTestAccess::socket(*ranks[1], 0), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  std::thread sender([&] {
    for (unsigned char i = 0; i < 16; ++i) push(send, i, 512 * 1024);
    ranks[0].reset();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (int i = 0; i < 16; ++i) {
    const Deadline deadline = Deadline::in_ms(5000);
    while (!recv.pop_ready(kTcpSignature) && !deadline.passed()) ranks[1]->progress();
    ASSERT_TRUE(recv.pop_ready(kTcpSignature)) << i << ": " << text_of(*ranks[1]);
    EXPECT_EQ(recv.pop_begin(512 * 1024)[512 * 1024 - 1], i);
    recv.pop();
  }
  sender.join();
  for (int i = 0; i < 100; ++i) ranks[1]->progress();
  EXPECT_TRUE(ranks[1]->left(0));
  EXPECT_FALSE(has_fault(*ranks[1])) << text_of(*ranks[1]);
}

// --- many connections, where epoll says which have something

TEST(TcpMany, NineRanksAllToAll) {
  constexpr int kRanks = 9;
  TcpSetup setup;
  setup.geometry = RingGeometry{4, 1024, 2};
  TcpRanks ranks = make_tcp_ranks(kRanks, setup);
  ASSERT_EQ(ranks.size(), static_cast<size_t>(kRanks));
  struct Pair {
    Link send, recv;
    int sent = 0, received = 0;
  };
  std::vector<std::vector<Pair>> pairs(kRanks, std::vector<Pair>(kRanks));
  for (int a = 0; a < kRanks; ++a)
    for (int b = 0; b < kRanks; ++b)
      if (a != b) {
        pairs[a][b].send = send_end(*ranks[static_cast<size_t>(a)], b);
        pairs[a][b].recv = recv_end(*ranks[static_cast<size_t>(b)], a);
      }
  constexpr int kMessages = 50;
  const auto step = [&] {
    bool done = true;
    for (int a = 0; a < kRanks; ++a)
      for (int b = 0; b < kRanks; ++b) {
        if (a == b) continue;
        Pair& p = pairs[a][b];
        if (p.sent < kMessages && p.send.push_ready())
          push(p.send, static_cast<unsigned char>(a * 16 + b + p.sent++), 600);
        if (p.recv.pop_ready(kTcpSignature)) {
          EXPECT_EQ(p.recv.pop_begin(600)[599], static_cast<unsigned char>(a * 16 + b + p.received));
          p.recv.pop();
          ++p.received;
        }
        done = done && p.received == kMessages;
      }
    return done;
  };
  ASSERT_TRUE(pump_until(ranks, step));
  for (auto& t : ranks) EXPECT_EQ(t->connected(), static_cast<size_t>(kRanks - 1));
  ranks[4].reset();  // one leaves, the others go on
  ASSERT_TRUE(pump_until(ranks, [&] {
    return std::all_of(ranks.begin(), ranks.end(),
                       [](auto& t) { return t == nullptr || t->connected() == kRanks - 2; });
  }));
  for (auto& t : ranks) EXPECT_FALSE(t != nullptr && has_fault(*t)) << text_of(*t);
}

}  // namespace
}  // namespace hocket::test
