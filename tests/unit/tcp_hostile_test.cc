// TCP and those who mean no good or know no better: strays at the listener, and peers that break the rules.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "conformance/tcp_ranks.h"

namespace hocket::test {
namespace {

using tcp::FaultHead;
using tcp::Header;
using tcp::Hello;
using tcp::Kind;
using tcp::TcpTransport;

// --- strays

Fd visit(TcpTransport& t) {
  Result<Fd> fd = connect_to(address_of(t), Deadline::in_ms(2000));
  EXPECT_TRUE(fd.ok()) << fd.error().text;
  return fd.ok() ? std::move(*fd) : Fd();
}
void say(const Fd& fd, const void* bytes, size_t n) {
  const Status s = send_all(fd.get(), bytes, n, Deadline::in_ms(2000));
  EXPECT_TRUE(s.ok()) << s.error().text;
}
// The other side has closed, without a byte.
bool dropped(const Fd& fd) {
  char byte;
  const ssize_t n = recv(fd.get(), &byte, 1, MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN);
}

TEST(TcpStrays, NeitherHangNorHarmNorGetAnAnswer) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  std::vector<Fd> strays;
  for (int i = 0; i < 5; ++i) strays.push_back(visit(*ranks[0]));
  std::mt19937 random(1);
  unsigned char noise[4096];
  for (unsigned char& b : noise) b = static_cast<unsigned char>(random());
  say(strays[0], noise, sizeof noise);
  const std::string http = "GET / HTTP/1.1\r\nHost: hocket.example.org\r\nUser-Agent: curl/8\r\n\r\n";
  say(strays[1], http.data(), http.size());
  Hello wrong;
  wrong.nonce = kNonce;
  wrong.rank = 1;
  wrong.size = 2;
  say(strays[2], &wrong, sizeof wrong);
  strays[3].reset();  // a port scan
  const Fd& idle = strays[4];
  meet(ranks, 0, 1);  // the ranks find each other all the same
  ASSERT_TRUE(pump_until(ranks, [&] { return dropped(strays[0]) && dropped(strays[1]) && dropped(strays[2]); }));
  EXPECT_FALSE(dropped(idle)) << "it may still say hello";
  ASSERT_TRUE(pump_until(ranks, [&] { return dropped(idle); }, Deadline::in_ms(4000)));
  EXPECT_FALSE(has_fault(*ranks[0])) << text_of(*ranks[0]);
}

TEST(TcpStrays, AreNeverMoreThanAFixedNumber) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  std::vector<Fd> strays;
  for (size_t i = 0; i < tcp::Port::kMaxStrays + 22; ++i) {
    strays.push_back(visit(*ranks[0]));
    ranks[0]->fault();
  }
  const auto gone = [&] { return std::count_if(strays.begin(), strays.end(), dropped); };
  EXPECT_TRUE(pump_until(ranks, [&] { return gone() >= 20; }, Deadline::in_ms(1000)));
  EXPECT_TRUE(dropped(strays.front())) << "the oldest go first";
  meet(ranks, 1, 0);
  EXPECT_FALSE(has_fault(*ranks[0]));
}

// --- a peer that knows the nonce and breaks the rules

// Rank 0 of 2, and a hand-made rank 1 that is connected to it.
struct Impostor {
  explicit Impostor(const TcpSetup& setup = {}) : ranks(make_tcp_ranks(2, setup, kNonce)) {
    ranks[1].reset();
    fd = visit(*ranks[0]);
    hello.nonce = kNonce;
    hello.rank = 1;
    hello.size = 2;
    hello.epoch = 7;
    hello.depth = setup.geometry.depth;
    hello.slot_bytes = setup.geometry.slot_bytes;
    hello.ack_batch = setup.geometry.ack_batch;
    hello.tags = setup.tags;
  }
  void connect() {
    say(fd, &hello, sizeof hello);
    std::thread answer([&] {
      Hello theirs;
      const Status s = recv_all(fd.get(), &theirs, sizeof theirs, Deadline::in_ms(2000));
      EXPECT_TRUE(s.ok() && theirs.rank == 0 && theirs.nonce == kNonce);
      frame(header(Kind::go));
    });
    EXPECT_TRUE(pump_until(ranks, [&] { return ranks[0]->connected() == 1; }));
    answer.join();
  }
  Header header(Kind kind) const {
    Header h;
    h.epoch = 7;
    h.kind = kind;
    h.sequence = kind == Kind::data ? 1 : 0;
    return h;
  }
  void frame(const Header& h, const std::string& payload = "") {
    say(fd, &h, sizeof h);
    if (!payload.empty()) say(fd, payload.data(), payload.size());
  }
  TcpRanks ranks;
  Fd fd;
  Hello hello;
};

// Who comes to tell of a fault, and tells none, is dropped; one that is whole counts, however it is cut.
TEST(TcpHostile, OnlyAWholeFaultIsHeardOfFromATeller) {
  const FaultHead good{hktTimeout, 0, 5};
  const std::string text = "call 5 timed out";
  const auto payload = [&](const FaultHead& head) {
    return std::string(reinterpret_cast<const char*>(&head), sizeof head) + text;
  };
  struct Case {
    const char* name;
    std::function<void(Header&, FaultHead&)> change;
    bool heard;
  };
  const std::vector<Case> cases = {
      {"as it should be", [](Header&, FaultHead&) {}, true},
      {"another kind of frame", [](Header& h, FaultHead&) { h.kind = Kind::announce; }, false},
      {"another epoch", [](Header& h, FaultHead&) { h.epoch = 8; }, false},
      {"no room for a head", [](Header& h, FaultHead&) { h.length = sizeof(FaultHead) - 1; }, false},
      {"a length of all ones", [](Header& h, FaultHead&) { h.length = UINT64_MAX; }, false},
      {"longer than a fault", [](Header& h, FaultHead&) { h.length = tcp::kMaxControl + 1; }, false},
      {"success", [](Header&, FaultHead& f) { f.code = hktSuccess; }, false},
      {"an unknown code", [](Header&, FaultHead& f) { f.code = 1000; }, false},
      {"a rank that does not exist", [](Header&, FaultHead& f) { f.rank = 2; }, false}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Impostor i;
    i.hello.purpose = static_cast<uint32_t>(tcp::Purpose::tell);
    Header h = i.header(Kind::fault);
    FaultHead head = good;
    h.length = sizeof head + text.size();
    c.change(h, head);
    say(i.fd, &i.hello, sizeof i.hello);
    const std::string rest = payload(head);
    say(i.fd, &h, sizeof h);
    for (const char byte : rest) {
      (void)send(i.fd.get(), &byte, 1, MSG_NOSIGNAL);  // it may have been dropped
      if (!has_fault(*i.ranks[0])) i.ranks[0]->progress();
      if (!c.heard && dropped(i.fd)) break;
    }
    if (c.heard) {
      ASSERT_TRUE(pump_until(i.ranks, [&] { return has_fault(*i.ranks[0]); }));
      EXPECT_EQ(i.ranks[0]->fault()->code, hktTimeout);
      EXPECT_EQ(text_of(*i.ranks[0]), text);
      continue;
    }
    EXPECT_TRUE(pump_until(i.ranks, [&] { return dropped(i.fd); }));
    EXPECT_FALSE(has_fault(*i.ranks[0])) << text_of(*i.ranks[0]);
  }
}

TEST(TcpHostile, EveryBrokenRuleIsAFaultThatNamesThePeer) {
  struct Case {
    const char* name;
    std::function<void(Impostor&)> act;
    const char* text;
  };
  const auto change = [](Kind kind, const std::function<void(Header&)>& f, size_t payload = 0) {
    return [=](Impostor& i) {
      Header h = i.header(kind);
      h.length = payload;
      f(h);
      i.frame(h, std::string(payload, '\x7f'));
    };
  };
  const std::vector<Case> cases = {
      {"length beyond 32 bits", change(Kind::data, [](Header& h) { h.length = (uint64_t{1} << 32) + 8; }),
       "4294967304 bytes"},
      {"length of all ones", change(Kind::data, [](Header& h) { h.length = UINT64_MAX; }),
       "18446744073709551615 bytes"},
      {"length one too long", change(Kind::data, [](Header& h) { h.length = 64 * 1024 + 1; }), "65537 bytes"},
      {"no such tag", change(Kind::data, [](Header& h) { h.tag = 4; }), "link 4 of 4"},
      {"a message left out", change(Kind::data, [](Header& h) { h.sequence = 2; }), "message 2 of link 0, expected 1"},
      {"another epoch", change(Kind::data, [](Header& h) { h.epoch = 8; }), "epoch 8, expected 7"},
      {"a byte that is not zero", change(Kind::data, [](Header& h) { h.zero = 1; }), "a frame for"},
      {"no such kind", change(Kind::data, [](Header& h) { h.kind = static_cast<Kind>(77); }), "kind 77"},
      {"a second go", change(Kind::go, [](Header&) {}), "kind 5"},
      {"credit for nothing", change(Kind::ack, [](Header& h) { h.call = 1; }), "credit for link 0"},
      {"credit with a payload", change(Kind::ack, [](Header& h) { h.length = 8; }), "kind 2 with 8 bytes"},
      {"announcement too short",
       change(
           Kind::announce, [](Header&) {}, 39),
       "kind 3 with 39 bytes"},
      {"announcement of call 0",
       [](Impostor& i) {
         Header h = i.header(Kind::announce);
         h.length = sizeof(CallRecord);
         i.frame(h, std::string(sizeof(CallRecord), '\0'));
       },
       "call 0 announced"},
      {"fault without a head",
       change(
           Kind::fault, [](Header&) {}, 15),
       "kind 4 with 15 bytes"},
      {"fault with a novel",
       change(
           Kind::fault, [](Header&) {}, tcp::kMaxControl + 1),
       "kind 4 with 217 bytes"},
      {"fault with a strange code",
       change(
           Kind::fault, [](Header&) {}, 20),
       "a fault with code"},
      {"more than the credit",
       [](Impostor& i) {
         for (uint32_t n = 1; n <= 9; ++n) {
           Header h = i.header(Kind::data);
           h.sequence = n;
           i.frame(h);
         }
       },
       "beyond its credit"},
      {"silence and death", [](Impostor& i) { i.fd.reset(); }, "probably died"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Impostor i;
    i.connect();
    EXPECT_FALSE(has_fault(*i.ranks[0]));
    c.act(i);
    ASSERT_TRUE(pump_until(i.ranks, [&] { return has_fault(*i.ranks[0]); }));
    EXPECT_EQ(i.ranks[0]->fault()->rank, 1);
    EXPECT_EQ(i.ranks[0]->fault()->code, hktRemoteError);
    EXPECT_HAS(text_of(*i.ranks[0]), "rank 1 (127.0.0.1");
    EXPECT_HAS(text_of(*i.ranks[0]), c.text);
    EXPECT_EQ(i.ranks[0]->connected(), 0u);
  }
}

TEST(TcpHostile, TextOfAFaultIsOneHarmlessLine) {
  Impostor i;
  i.connect();
  Header h = i.header(Kind::fault);
  const FaultHead head{hktTimeout, 1, 3};
  const std::string text = "two\nlines\x1b[31m";
  h.length = sizeof head + text.size();
  i.frame(h, std::string(reinterpret_cast<const char*>(&head), sizeof head) + text);
  ASSERT_TRUE(pump_until(i.ranks, [&] { return has_fault(*i.ranks[0]); }));
  EXPECT_EQ(i.ranks[0]->fault()->code, hktTimeout);
  for (const char c : text_of(*i.ranks[0])) EXPECT_GE(c, ' ');
}

TEST(TcpHostile, RandomFramesNeverCrash) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    Impostor i;
    i.connect();
    std::mt19937_64 random(seed);
    std::string stream;
    for (int n = 0; n < 40; ++n) {
      Header h = i.header(static_cast<Kind>(random() % 8));
      h.tag = static_cast<uint16_t>(random() % 5);
      h.length = random() % 3 == 0 ? random() : random() % 300;
      h.call = random() % 3 == 0 ? random() : random() % 10;
      h.sequence = static_cast<uint32_t>(random() % 4);
      stream.append(reinterpret_cast<const char*>(&h), sizeof h);
      for (uint64_t k = h.length < 300 ? h.length : 0; k > 0; --k) stream += static_cast<char>(random());
    }
    // All of it, in pieces of random length; rank 0 may hang up in between.
    size_t at = 0;
    while (at < stream.size()) {
      const size_t n = std::min<size_t>(stream.size() - at, random() % 200 + 1);
      if (send(i.fd.get(), stream.data() + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
      at += n;
      i.ranks[0]->progress();
    }
    i.fd.reset();
    ASSERT_TRUE(pump_until(i.ranks, [&] { return has_fault(*i.ranks[0]); })) << "seed " << seed;
    EXPECT_EQ(i.ranks[0]->fault()->rank, i.ranks[0]->fault()->code == hktRemoteError ? 1 : i.ranks[0]->fault()->rank);
  }
}

TEST(TcpHostile, MatesWithOtherSettingsAreToldApart) {
  const std::vector<std::pair<const char*, std::function<void(Hello&)>>> changes = {
      {"version 1 ", [](Hello& h) { h.version = 1; }},
      {"version 3 ", [](Hello& h) { h.version = 3; }},
      {"set up differently", [](Hello& h) { h.size = 3; }},
      {"set up differently", [](Hello& h) { h.epoch = 8; }},
      {"set up differently", [](Hello& h) { h.slot_bytes *= 2; }},
      {"set up differently", [](Hello& h) { h.tags = 1; }}};
  for (const auto& [text, change] : changes) {
    Impostor i;
    change(i.hello);
    say(i.fd, &i.hello, sizeof i.hello);
    ASSERT_TRUE(pump_until(i.ranks, [&] { return has_fault(*i.ranks[0]); }));
    EXPECT_EQ(i.ranks[0]->fault()->code, hktInvalidUsage);
    EXPECT_HAS(text_of(*i.ranks[0]), text);
    Hello answer;
    EXPECT_TRUE(recv_all(i.fd.get(), &answer, sizeof answer, Deadline::in_ms(1000)).ok()) << "they should see it, too";
  }
}

}  // namespace
}  // namespace hocket::test
