// Messages over several connections of a pair: when they are made, what goes by them, and what of it a peer may not do.
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "conformance/tcp_ranks.h"

namespace hocket::test {
namespace {

using tcp::Header;
using tcp::Kind;
using tcp::Place;
using tcp::TcpTestAccess;

constexpr tcp::Striping kStriping{3, 1000, 400};

TcpSetup striped() {
  TcpSetup setup;
  setup.geometry = RingGeometry{4, 4096, 1};
  setup.striping = kStriping;
  return setup;
}

unsigned char byte_of(uint64_t number, uint64_t i) { return static_cast<unsigned char>(number * 31 + i * 7 + i / 256); }
void push_message(Link& link, uint64_t bytes) {
  unsigned char* const to = link.push_begin(bytes);
  for (uint64_t i = 0; i < bytes; ++i) to[i] = byte_of(link.count(), i);
  link.push(bytes, kTcpSignature);
}
bool pop_message(Link& link, uint64_t bytes) {
  const unsigned char* const from = link.pop_begin(bytes);
  bool right = true;
  for (uint64_t i = 0; i < bytes; ++i) right = right && from[i] == byte_of(link.count(), i);
  link.pop();
  return right;
}

// Both ranks have all their connections.
void widen(TcpRanks& ranks, Link& send, Link& recv) {
  const auto wide = [&] { return ranks[0]->sockets(1) == 3 && ranks[1]->sockets(0) == 3; };
  push_message(send, 4096);
  ASSERT_TRUE(pump_until(ranks, [&] { return wide() && recv.pop_ready(kTcpSignature); }));
  ASSERT_TRUE(pop_message(recv, 4096));
}

TEST(TcpStripes, FurtherConnectionsAreMadeWhenLargeMessagesFlow) {
  for (const int from : {0, 1}) {  // by the higher rank, whoever sends
    const auto me = static_cast<size_t>(from);
    TcpRanks ranks = make_tcp_ranks(2, striped());
    ASSERT_EQ(ranks.size(), 2u);
    Link send = send_end(*ranks[me], 1 - from), recv = recv_end(*ranks[1 - me], from);
    for (const uint64_t bytes : {8, 999}) {
      push_message(send, bytes);
      ASSERT_TRUE(pump_until(ranks, [&] { return recv.pop_ready(kTcpSignature); }));
      ASSERT_TRUE(pop_message(recv, bytes));
    }
    for (int i = 0; i < 5000; ++i)
      for (auto& t : ranks) t->progress();
    EXPECT_EQ(ranks[0]->sockets(1), 1u);
    push_message(send, 1000);
    ASSERT_TRUE(pump_until(ranks, [&] { return ranks[0]->sockets(1) == 3 && ranks[1]->sockets(0) == 3; }));
    ASSERT_TRUE(pump_until(ranks, [&] { return recv.pop_ready(kTcpSignature); }));
    ASSERT_TRUE(pop_message(recv, 1000));
    EXPECT_FALSE(has_fault(*ranks[0]) || has_fault(*ranks[1]));
  }
}

// Sizes around the first that is cut and around its parts, on all links of several communicators, both ways at once,
// with small ones between them.
TEST(TcpStripes, EverySizeComesWholeAndInOrder) {
  const std::vector<uint64_t> sizes{999, 1000, 1001, 0, 1199, 1200, 1201, 8, 1599, 1600, 1601, 4095, 4096, 57};
  std::vector<TcpRanks> worlds;
  for (int w = 0; w < 2; ++w) worlds.push_back(make_tcp_ranks(2, striped()));
  struct Way {
    Link send, recv;
    uint64_t sent = 0, received = 0;
  };
  std::vector<Way> ways;
  for (TcpRanks& ranks : worlds) {
    ASSERT_EQ(ranks.size(), 2u);
    for (uint16_t tag = 0; tag < 4; ++tag)
      for (const int from : {0, 1}) {
        const auto me = static_cast<size_t>(from);
        ways.push_back({send_end(*ranks[me], 1 - from, tag), recv_end(*ranks[1 - me], from, tag)});
      }
  }
  constexpr uint64_t kMessages = 300;
  std::mt19937 random(3);
  const auto size = [&](const Way& w, uint64_t i) {
    return sizes[(i * 5 + (i / 14) + (w.send.id() & 3)) % sizes.size()];
  };
  bool right = true;
  const auto step = [&] {
    bool done = true;
    for (Way& w : ways) {
      if (w.sent < kMessages && random() % 2 == 0 && w.send.push_ready()) push_message(w.send, size(w, w.sent++));
      if (random() % 2 == 0 && w.recv.pop_ready(kTcpSignature))
        right = pop_message(w.recv, size(w, w.received++)) && right;
      done = done && w.received == kMessages;
    }
    for (TcpRanks& ranks : worlds)
      for (auto& t : ranks)  // which looks for who connects, too
        if (random() % 8 == 0 && has_fault(*t)) {
          ADD_FAILURE() << text_of(*t);
          right = false;
        }
    for (auto& t : worlds[0]) t->progress();
    return done || !right;
  };
  ASSERT_TRUE(pump_until(worlds[1], step));
  EXPECT_TRUE(right);
  for (TcpRanks& ranks : worlds) {
    EXPECT_EQ(ranks[0]->sockets(1), 3u);
    EXPECT_FALSE(has_fault(*ranks[0]) || has_fault(*ranks[1]));
  }
}

// What is lent is sent from where it is, in parts, and copied when its buffer has to go back.
TEST(TcpStripes, APayloadThatIsLentMayBeReclaimedInTheMiddle) {
  TcpSetup setup = striped();
  setup.geometry = RingGeometry{4, 4 << 20, 1};
  setup.striping = {3, 1 << 20, 64 << 10};
  TcpRanks ranks = make_tcp_ranks(2, setup);
  ASSERT_EQ(ranks.size(), 2u);
  Link send = send_end(*ranks[1], 0), recv = recv_end(*ranks[0], 1);
  constexpr uint64_t kBytes = 4 << 20;
  std::vector<unsigned char> payload(kBytes);
  bool left = false;
  for (int round = 0; round < 8; ++round) {
    for (uint64_t i = 0; i < kBytes; ++i) payload[i] = byte_of(static_cast<uint64_t>(round), i);
    ASSERT_TRUE(pump_until(ranks, [&] { return send.push_ready(); }));
    for (const size_t i : {0, 1}) {  // so that sockets are full in the middle
      const int small = 64 * 1024;
      if (ranks[0]->sockets(1) == 3)
        setsockopt(TcpTestAccess::share(*ranks[1], 0, i), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    }
    send.lend(payload.data(), kBytes, kTcpSignature);
    EXPECT_FALSE(has_fault(*ranks[0]) || has_fault(*ranks[1]));
    for (int i = 0; i < round * 3; ++i) {
      ranks[1]->progress();
      if (i % 2 == 0) ranks[0]->progress();
    }
    left = left || !ranks[1]->flushed();
    ranks[1]->reclaim();
    std::fill(payload.begin(), payload.end(), 0x55);
    ASSERT_TRUE(pump_until(ranks, [&] { return recv.pop_ready(kTcpSignature); }));
    ASSERT_TRUE(pop_message(recv, kBytes)) << "round " << round;
  }
  EXPECT_EQ(ranks[0]->sockets(1), 3u);
  EXPECT_TRUE(left) << "all was sent before it was reclaimed, and nothing is shown";
}

// Every connection of a pair proves it.
TEST(TcpStripes, AJobWithASecretHasThemToo) {
  auto secret = Secret::make("the secret of a test", "this test");
  ASSERT_TRUE(secret.ok()) << secret.error().text;
  TcpSetup setup = striped();
  setup.secret = *secret;
  TcpRanks ranks = make_tcp_ranks(2, setup);
  ASSERT_EQ(ranks.size(), 2u);
  Link send = send_end(*ranks[1], 0), recv = recv_end(*ranks[0], 1);
  widen(ranks, send, recv);
  for (int i = 0; i < 20; ++i) {
    push_message(send, 4096);
    ASSERT_TRUE(pump_until(ranks, [&] { return recv.pop_ready(kTcpSignature); }));
    ASSERT_TRUE(pop_message(recv, 4096));
  }
  EXPECT_FALSE(has_fault(*ranks[0]) || has_fault(*ranks[1]));
}

// The sender has left before the receiver knows of the second connection: it reads the first one to its end, and what
// is missing is there all the same.
TEST(TcpStripes, WhatCameByAConnectionThatIsYetToBeTakenIsNotLost) {
  TcpSetup setup = striped();
  setup.striping.sockets = 2;
  TcpRanks ranks = make_tcp_ranks(2, setup);
  ASSERT_EQ(ranks.size(), 2u);
  Link send = send_end(*ranks[1], 0), recv = recv_end(*ranks[0], 1);
  push_message(send, 4096);
  const Deadline deadline = Deadline::in_ms(10'000);
  while (!deadline.passed() && ranks[1]->sockets(0) != 2) {
    ranks[0]->progress();
    ranks[1]->progress();
  }
  ASSERT_EQ(ranks[1]->sockets(0), 2u);
  ASSERT_EQ(ranks[0]->sockets(1), 1u);
  push_message(send, 4096);
  ranks[1].reset();
  while (!deadline.passed() && TcpTestAccess::receive(*ranks[0], 1)) {
  }
  EXPECT_FALSE(has_fault(*ranks[0])) << text_of(*ranks[0]);
  EXPECT_TRUE(ranks[0]->left(1));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(recv.pop_ready(kTcpSignature)) << i;
    EXPECT_TRUE(pop_message(recv, 4096)) << i;
  }
}

// Neither waits for the other to make room.
TEST(TcpStripes, BothMayLeaveWithFullConnections) {
  TcpSetup setup = striped();
  setup.geometry = RingGeometry{4, 4 << 20, 1};
  setup.striping = {3, 1 << 20, 64 << 10};
  TcpRanks ranks = make_tcp_ranks(2, setup);
  ASSERT_EQ(ranks.size(), 2u);
  Link there = send_end(*ranks[1], 0), here = recv_end(*ranks[0], 1), back = send_end(*ranks[0], 1);
  push_message(there, 4 << 20);
  ASSERT_TRUE(pump_until(
      ranks, [&] { return ranks[0]->sockets(1) == 3 && ranks[1]->sockets(0) == 3 && here.pop_ready(kTcpSignature); }));
  const int small = 64 * 1024;
  for (const int r : {0, 1}) {
    tcp::TcpTransport& t = *ranks[static_cast<size_t>(r)];
    for (const int fd :
         {TcpTestAccess::socket(t, 1 - r), TcpTestAccess::share(t, 1 - r, 0), TcpTestAccess::share(t, 1 - r, 1)})
      for (const int buffer : {SO_SNDBUF, SO_RCVBUF}) setsockopt(fd, SOL_SOCKET, buffer, &small, sizeof small);
  }
  for (int i = 0; i < 3; ++i) {
    push_message(there, 4 << 20);
    push_message(back, 4 << 20);
  }
  EXPECT_FALSE(ranks[0]->flushed() || ranks[1]->flushed());
  const int64_t start = now_ns();
  std::thread other([&] { ranks[1].reset(); });
  ranks[0].reset();
  other.join();
  EXPECT_LT(now_ns() - start, 4'000'000'000);  // of the 5 s after which a rank leaves in any case
}

TEST(TcpStripes, TheEndOfOneConnectionIsAFaultOfThePeer) {
  for (const size_t which : {0, 1}) {
    TcpRanks ranks = make_tcp_ranks(2, striped());
    ASSERT_EQ(ranks.size(), 2u);
    Link send = send_end(*ranks[1], 0), recv = recv_end(*ranks[0], 1);
    widen(ranks, send, recv);
    push_message(send, 4096);
    shutdown(TcpTestAccess::share(*ranks[1], 0, which), SHUT_RDWR);
    ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[0]) && has_fault(*ranks[1]); }));
    EXPECT_EQ(ranks[0]->fault()->rank, 1);
    EXPECT_EQ(ranks[0]->fault()->code, hktRemoteError);
    EXPECT_HAS(text_of(*ranks[0]), "the connection to rank 1");
    EXPECT_EQ(ranks[0]->connected(), 0u);
  }
}

TEST(TcpStripes, WhoeverLeavesLosesNothingOfWhatIsOnItsWay) {
  for (int round = 0; round < 20; ++round) {
    TcpRanks ranks = make_tcp_ranks(2, striped());
    ASSERT_EQ(ranks.size(), 2u);
    Link send = send_end(*ranks[1], 0), recv = recv_end(*ranks[0], 1);
    if (round % 2 == 0) widen(ranks, send, recv);  // else connections are being made when it leaves
    if (round % 2 != 0) meet(ranks, 0, 1);
    for (int i = 0; i < 3; ++i) push_message(send, 4096);
    for (int i = 0; i < round; ++i) ranks[0]->progress();
    for (int i = 0; round % 2 != 0 && i < round; ++i) ranks[1]->progress();
    const int64_t start = now_ns();
    ranks[1].reset();
    EXPECT_LT(now_ns() - start, 2'000'000'000);
    ASSERT_TRUE(pump_until(ranks, [&] { return ranks[0]->left(1) && ranks[0]->connected() == 0; })) << round;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(recv.pop_ready(kTcpSignature)) << round << ": " << i;
      EXPECT_TRUE(pop_message(recv, 4096)) << round << ": " << i;
    }
    EXPECT_FALSE(has_fault(*ranks[0])) << text_of(*ranks[0]);
  }
}

TEST(TcpStripes, EveryBrokenRuleIsAFaultThatNamesThePeer) {
  const auto part = [](uint32_t sequence, Place place, size_t bytes) {
    Header h;
    h.epoch = 7;
    h.kind = Kind::part;
    h.sequence = sequence;
    h.call = std::bit_cast<uint64_t>(place);
    h.length = bytes;
    h.signature = 5;
    return h;
  };
  struct Case {
    const char* name;
    std::vector<Header> frames;
    const char* text;
  };
  // One message has passed on link 0.
  Header other = part(2, {0, 2000}, 400), data = part(2, {}, 0), announce = part(0, {}, sizeof(CallRecord)), bye = data;
  other.signature = 6;
  data.kind = Kind::data;
  announce.kind = Kind::announce;
  bye.kind = Kind::goodbye;
  const std::vector<Case> cases = {
      {"beyond the message", {part(2, {1700, 2000}, 400)}, "400 bytes at 1700 of a message of 2000"},
      {"beyond the slot", {part(2, {0, 4097}, 400)}, "a message of 4097, at most 4096 fit"},
      {"an offset that wraps", {part(2, {0xffffff00, 2000}, 400)}, "of a message of 2000"},
      {"nothing", {part(2, {0, 2000}, 0)}, "0 bytes at 0"},
      {"without credit", {part(6, {0, 2000}, 400)}, "no credit for"},
      {"of one that has been popped", {part(1, {0, 2000}, 400)}, "no credit for"},
      {"more than there is", {part(2, {0, 500}, 400), part(2, {50, 500}, 400)}, "do not fit together"},
      {"two lengths", {part(2, {0, 2000}, 400), part(2, {400, 2001}, 400)}, "do not fit together"},
      {"two calls", {part(2, {0, 2000}, 400), other}, "do not fit together"},
      {"a whole message", {data}, "where only parts go"},
      {"an announcement", {announce}, "where only parts go"},
      {"after a goodbye", {bye, part(2, {0, 2000}, 400)}, "after a goodbye"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    TcpRanks ranks = make_tcp_ranks(2, striped());
    ASSERT_EQ(ranks.size(), 2u);
    Link send = send_end(*ranks[1], 0), recv = recv_end(*ranks[0], 1);
    widen(ranks, send, recv);
    recv = Link();
    const int fd = TcpTestAccess::share(*ranks[1], 0, 0);
    for (const Header& h : c.frames) {
      const std::string payload(h.length, 'x');
      ASSERT_TRUE(send_all(fd, &h, sizeof h, Deadline::in_ms(1000)).ok());
      ASSERT_TRUE(send_all(fd, payload.data(), payload.size(), Deadline::in_ms(1000)).ok());
    }
    ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[0]); }));
    EXPECT_EQ(ranks[0]->fault()->rank, 1);
    EXPECT_HAS(text_of(*ranks[0]), c.text);
  }
}

}  // namespace
}  // namespace hocket::test
