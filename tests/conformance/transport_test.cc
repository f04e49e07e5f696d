// The conformance suite: what every transport must do, over every fabric.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>

#include "conformance/fabric.h"

namespace hocket::test {
namespace {

constexpr RingGeometry kSmall{4, 256, 2};
constexpr uint32_t kSignature = 0x51617;

// Byte i of message `number` of a link named `link`.
unsigned char byte_of(uint64_t link, uint64_t number, uint64_t i) {
  return static_cast<unsigned char>((link * 131 + number * 31 + i * 7 + (i >> 8)) & 0xff);
}

void push(Link& link, uint64_t name, uint64_t bytes, uint32_t signature = kSignature) {
  unsigned char* to = link.push_begin(bytes);
  for (uint64_t i = 0; i < bytes; ++i) to[i] = byte_of(name, link.count(), i);
  link.push(bytes, signature);
}

// Pops what pop_ready() has said is there; false if its bytes are wrong.
bool pop(Link& link, uint64_t name, uint64_t bytes) {
  const unsigned char* from = link.pop_begin(bytes);
  bool right = true;
  for (uint64_t i = 0; i < bytes; ++i) right = right && from[i] == byte_of(name, link.count(), i);
  link.pop();
  return right;
}

bool wait_push(Rank& rank, Link& link) {
  return wait_until(rank, [&] { return link.push_ready(); });
}
bool wait_pop(Rank& rank, Link& link, uint32_t signature = kSignature) {
  return wait_until(rank, [&] { return link.pop_ready(signature); });
}

Link open_send(Transport& t, int peer, uint16_t tag = 0) {
  Result<Link> link = t.open_send(peer, tag);
  EXPECT_TRUE(link.ok()) << link.error().text;
  return link.ok() ? *link : Link();
}
Link open_recv(Transport& t, int peer, uint16_t tag = 0) {
  Result<Link> link = t.open_recv(peer, tag);
  EXPECT_TRUE(link.ok()) << link.error().text;
  return link.ok() ? *link : Link();
}

// One side keeps moving data while the other one works alone: `background` makes progress until the scope ends.
class Progress {
 public:
  explicit Progress(Transport& transport)
      : thread_([this, &transport] {
          while (!stop_) {
            transport.progress();
            std::this_thread::sleep_for(std::chrono::microseconds(200));
          }
        }) {}
  ~Progress() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_P(TransportTest, GeometryIsWhatWasAskedFor) {
  make(2, kSmall);
  ASSERT_EQ(ranks_.size(), 2u);
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(at(r).geometry() == kSmall);
    EXPECT_NE(std::string(at(r).name()), "");
    EXPECT_TRUE(at(r).flushed());
    EXPECT_FALSE(at(r).fault().has_value());
  }
}

TEST_P(TransportTest, RefusesLinksThatDoNotExist) {
  make(2, kSmall);
  ASSERT_EQ(ranks_.size(), 2u);
  for (const int peer : {-1, 0, 2}) {
    EXPECT_FALSE(at(0).open_send(peer, 0).ok()) << peer;
    EXPECT_FALSE(at(0).open_recv(peer, 0).ok()) << peer;
  }
}

TEST_P(TransportTest, KeepsOrder) {
  make(2, kSmall);
  ASSERT_EQ(ranks_.size(), 2u);
  constexpr int kMessages = 3000;
  each([&](int r) {
    Link link = r == 0 ? open_send(at(0), 1) : open_recv(at(1), 0);
    for (int i = 0; i < kMessages; ++i) {
      const uint64_t bytes = static_cast<uint64_t>(i) % 257;
      ASSERT_TRUE(r == 0 ? wait_push(rank(0), link) : wait_pop(rank(1), link)) << "rank " << r << " message " << i;
      if (r == 0)
        push(link, 1, bytes);
      else
        ASSERT_TRUE(pop(link, 1, bytes)) << "message " << i << " of " << bytes << " bytes";
    }
    ASSERT_TRUE(wait_until(rank(r), [&] { return at(r).flushed(); }));
  });
}

TEST_P(TransportTest, CarriesEverySize) {
  const RingGeometry geometry{8, 64 * 1024, 1};
  make(2, geometry);
  ASSERT_EQ(ranks_.size(), 2u);
  const std::vector<uint64_t> sizes{
      0, 1, 7, 8, 55, 56, 57, 63, 64, 65, 4095, 4096, 4097, geometry.slot_bytes - 1, geometry.slot_bytes, 1, 0};
  each([&](int r) {
    Link link = r == 0 ? open_send(at(0), 1) : open_recv(at(1), 0);
    ASSERT_EQ(link.slot_bytes(), geometry.slot_bytes);
    for (int round = 0; round < 5; ++round)
      for (const uint64_t bytes : sizes) {
        ASSERT_TRUE(r == 0 ? wait_push(rank(0), link) : wait_pop(rank(1), link)) << "rank " << r << " bytes " << bytes;
        if (r == 0)
          push(link, 2, bytes);
        else
          ASSERT_TRUE(pop(link, 2, bytes)) << bytes << " bytes, round " << round;
      }
    ASSERT_TRUE(wait_until(rank(r), [&] { return at(r).flushed(); }));
  });
}

TEST_P(TransportTest, PushesBackAndReturnsCredit) {
  for (const uint32_t ack : {1u, 2u, 4u}) {
    const RingGeometry geometry{4, 128, ack};
    make(2, geometry);
    ASSERT_EQ(ranks_.size(), 2u);
    Link send = open_send(at(0), 1), recv = open_recv(at(1), 0);
    const Progress consumer(at(1));
    uint64_t pushed = 0;
    const auto fill = [&] {
      while (pushed < 1000 && wait_until(rank(0), [&] { return send.push_ready(); }, Deadline::in_ms(100))) {
        push(send, 3, 100);
        ++pushed;
      }
    };
    fill();
    EXPECT_GE(pushed, geometry.depth - ack + 1);
    EXPECT_LE(pushed, fabric_->most_in_flight(geometry));
    // What was pushed arrives without further help, in order, unharmed by what was pushed behind it.
    const uint64_t first = pushed;
    for (uint64_t i = 0; i < first; ++i) {
      ASSERT_TRUE(wait_until(rank(0), [&] { return recv.pop_ready(kSignature); })) << i;
      ASSERT_TRUE(pop(recv, 3, 100)) << i;
    }
    fill();
    EXPECT_GE(pushed - first, geometry.depth - ack + 1) << "credit has not come back";
    EXPECT_LE(pushed - first, fabric_->most_in_flight(geometry));
  }
}

TEST_P(TransportTest, OneFullLinkDoesNotStopAnother) {
  make(3, kSmall);
  ASSERT_EQ(ranks_.size(), 3u);
  Link full = open_send(at(0), 1, 0);
  Link unread = open_recv(at(1), 0, 0);
  {
    const Progress consumer(at(1));
    while (wait_until(rank(0), [&] { return full.push_ready(); }, Deadline::in_ms(100))) push(full, 4, 200);
  }
  // Another tag of the same pair, the same tag of another pair, and the way back.
  struct Way {
    int from, to;
    uint16_t tag;
  };
  for (const Way way : {Way{0, 1, 1}, Way{0, 2, 0}, Way{1, 0, 0}, Way{2, 1, 0}}) {
    each([&](int r) {
      if (r != way.from && r != way.to) return;
      Link link = r == way.from ? open_send(at(r), way.to, way.tag) : open_recv(at(r), way.from, way.tag);
      for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(r == way.from ? wait_push(rank(r), link) : wait_pop(rank(r), link))
            << way.from << " -> " << way.to << " tag " << way.tag << " message " << i;
        if (r == way.from)
          push(link, 5, 60);
        else
          ASSERT_TRUE(pop(link, 5, 60));
      }
      ASSERT_TRUE(wait_until(rank(r), [&] { return r == 0 || at(r).flushed(); }));
    });
  }
  EXPECT_TRUE(unread.pop_ready(kSignature));
}

TEST_P(TransportTest, TellsAMessageOfAnotherCall) {
  make(2, kSmall);
  ASSERT_EQ(ranks_.size(), 2u);
  constexpr uint32_t kOther = 0xdeadbeef;
  Link send = open_send(at(0), 1), recv = open_recv(at(1), 0);
  uint32_t theirs = 0;
  EXPECT_FALSE(recv.pop_ready(kSignature));
  EXPECT_FALSE(recv.pop_mismatch(kSignature, &theirs)) << "nothing has arrived";
  ASSERT_TRUE(wait_push(rank(0), send));
  push(send, 6, 16, kOther);
  const Progress producer(at(0));
  ASSERT_TRUE(wait_until(rank(1), [&] { return recv.pop_mismatch(kSignature, &theirs); }));
  EXPECT_EQ(theirs, kOther);
  EXPECT_FALSE(recv.pop_ready(kSignature));
  EXPECT_FALSE(recv.pop_mismatch(kOther, &theirs)) << "it is the one that is waited for";
  ASSERT_TRUE(recv.pop_ready(kOther));
  EXPECT_TRUE(pop(recv, 6, 16));
  EXPECT_FALSE(recv.pop_mismatch(kSignature, &theirs)) << "the next one has not arrived";
}

TEST_P(TransportTest, SequenceWraps) {
  for (const uint64_t start :
       {(uint64_t{1} << 32) - 6, (uint64_t{1} << 32) - 1, (uint64_t{1} << 33) - 7, UINT64_MAX / 2 - 5}) {
    make(2, kSmall);
    ASSERT_EQ(ranks_.size(), 2u);
    Link ends[2] = {open_send(at(0), 1), open_recv(at(1), 0)};
    fabric_->start_at(ends[0], ends[1], start);
    each([&](int r) {
      Link& link = ends[r];
      for (uint64_t i = 0; i < 20; ++i) {
        ASSERT_TRUE(r == 0 ? wait_push(rank(0), link) : wait_pop(rank(1), link))
            << "rank " << r << " message " << start + i;
        ASSERT_EQ(link.count(), start + i);
        if (r == 0)
          push(link, 7, 40 + i);
        else
          ASSERT_TRUE(pop(link, 7, 40 + i)) << "message " << start + i;
      }
      ASSERT_TRUE(wait_until(rank(r), [&] { return at(r).flushed(); }));
    });
  }
}

TEST_P(TransportTest, FlushedMessagesArriveWithoutTheirSender) {
  make(2, RingGeometry{8, 4096, 1});
  ASSERT_EQ(ranks_.size(), 2u);
  Link send = open_send(at(0), 1), recv = open_recv(at(1), 0);
  {
    const Progress consumer(at(1));
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(wait_push(rank(0), send));
      push(send, 8, 4096);
    }
    ASSERT_TRUE(wait_until(rank(0), [&] { return at(0).flushed(); }));
  }
  for (int i = 0; i < 8; ++i) {  // rank 0 does nothing any more
    ASSERT_TRUE(wait_pop(rank(1), recv)) << i;
    ASSERT_TRUE(pop(recv, 8, 4096)) << i;
  }
}

// All links of all pairs at once, both directions, several tags, in random order; sleeps when nothing can be done.
void exchange_all(Rank& rank, int me, int n, uint16_t tags, uint64_t seed) {
  constexpr uint64_t kMessages = 60;
  struct End {
    Link link;
    bool sends;
    uint64_t name;
    std::mt19937_64 sizes;  // both ends draw the same lengths
    uint64_t left = kMessages;
  };
  std::vector<End> ends;
  for (int peer = 0; peer < n; ++peer)
    for (uint16_t tag = 0; peer != me && tag < tags; ++tag)
      for (const bool sends : {true, false}) {
        const auto [from, to] = sends ? std::pair(me, peer) : std::pair(peer, me);
        const uint64_t name = (static_cast<uint64_t>(from) * n + to) * tags + tag;
        ends.push_back({sends ? open_send(*rank.transport, peer, tag) : open_recv(*rank.transport, peer, tag), sends,
                        name, std::mt19937_64(seed * 1000 + name)});
      }
  std::mt19937_64 random(seed * 77 + static_cast<uint64_t>(me));
  size_t open = ends.size();
  const auto possible = [&](End& e) {
    return e.left > 0 && (e.sends ? e.link.push_ready() : e.link.pop_ready(kSignature));
  };
  while (open > 0) {
    ASSERT_TRUE(wait_until(rank, [&] { return std::any_of(ends.begin(), ends.end(), possible); }))
        << "rank " << me << " is stuck, seed " << seed;
    End& e = ends[random() % ends.size()];
    for (uint64_t burst = random() % 4 + 1; burst > 0 && possible(e); --burst) {
      const uint64_t bytes = e.sizes() % (e.link.slot_bytes() + 1);
      if (e.sends)
        push(e.link, e.name, bytes);
      else
        ASSERT_TRUE(pop(e.link, e.name, bytes)) << "rank " << me << " link " << e.name << " seed " << seed;
      if (--e.left == 0) --open;
    }
  }
  ASSERT_TRUE(wait_until(rank, [&] { return rank.transport->flushed(); }));
}

TEST_P(TransportTest, RandomInterleavings) {
  for (const int n : {2, 3, 5})
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const RingGeometry geometry{seed == 1 ? 2u : 8u, 256, seed == 3 ? 4u : 1u};
      make(n, geometry, 3);
      ASSERT_EQ(ranks_.size(), static_cast<size_t>(n));
      each([&](int r) { exchange_all(rank(r), r, n, 3, seed); });
      if (HasFatalFailure()) return;
    }
}

// Each round trip sleeps at both ends after a random number of polls: a lost wake-up would cost the whole nap.
TEST_P(TransportTest, NoWakeUpIsLost) {
  make(2, RingGeometry{2, 64, 1});
  ASSERT_EQ(ranks_.size(), 2u);
  const int rounds = rank(0).nap_ms < 100 ? 300 : 3000;  // where naps are short anyway, little can be seen
  std::atomic<int> slow{0};
  each([&](int r) {
    Link send = open_send(at(r), 1 - r), recv = open_recv(at(r), 1 - r);
    std::mt19937 random(static_cast<unsigned>(r));
    const auto wait = [&](const std::function<bool()>& ready) {
      const int64_t start = now_ns();
      const bool ok = wait_until(rank(r), ready, Deadline::in_ms(60'000), static_cast<int>(random() % 300));
      if (now_ns() - start > int64_t{4000} * 1'000'000) ++slow;
      return ok;
    };
    for (int i = 0; i < rounds && slow == 0; ++i) {
      if (r == 0) {
        ASSERT_TRUE(wait([&] { return send.push_ready(); }));
        push(send, 9, 8);
      }
      ASSERT_TRUE(wait([&] { return recv.pop_ready(kSignature); })) << i;
      ASSERT_TRUE(pop(recv, r == 0 ? 10 : 9, 8)) << i;
      if (r == 1) {
        ASSERT_TRUE(wait([&] { return send.push_ready(); }));
        push(send, 10, 8);
      }
    }
    ASSERT_TRUE(wait_until(rank(r), [&] { return at(r).flushed(); }));
  });
  EXPECT_EQ(slow, 0) << "a rank slept through its wake-up";
}

CallRecord record(uint64_t seq) {
  CallRecord call;
  call.seq = seq;
  call.count = seq * 3 + 1;
  call.collective = static_cast<uint32_t>(seq % 3);
  call.type = static_cast<uint32_t>(seq % 7);
  call.op = static_cast<uint32_t>(seq % 5);
  call.root = static_cast<uint32_t>(seq % 11);
  call.signature = static_cast<uint32_t>(seq | 1);
  return call;
}

TEST_P(TransportTest, PeersReadTheLast64Calls) {
  make(3, kSmall);
  ASSERT_EQ(ranks_.size(), 3u);
  // A link between them: transports that connect on demand have done so.
  each([&](int r) {
    std::vector<Link> sends, recvs;
    for (int peer = 0; peer < 3; ++peer)
      if (peer != r) {
        sends.push_back(open_send(at(r), peer));
        recvs.push_back(open_recv(at(r), peer));
        push(sends.back(), 1, 0);
      }
    for (Link& link : recvs) ASSERT_TRUE(wait_pop(rank(r), link));
    ASSERT_TRUE(wait_until(rank(r), [&] { return at(r).flushed(); }));
  });
  EXPECT_FALSE(at(0).announced(1, 0).has_value());
  EXPECT_FALSE(at(0).announced(1, 1).has_value());
  for (uint64_t seq = 1; seq <= 100; ++seq) at(1).announce(record(seq));
  const Progress announcer(at(1));
  for (const int reader : {0, 2}) {
    ASSERT_TRUE(wait_until(rank(reader), [&] { return call_of(at(reader), 1, 0).seq == 100; }));
    for (const uint64_t seq : {uint64_t{37}, uint64_t{64}, uint64_t{100}}) {
      const CallRecord call = call_of(at(reader), 1, seq);
      EXPECT_TRUE(same_call(call, record(seq))) << seq << ", found " << call.seq;
      EXPECT_EQ(call.signature, record(seq).signature);
    }
    EXPECT_FALSE(at(reader).announced(1, 36).has_value()) << "overwritten by call 100";
    EXPECT_FALSE(at(reader).announced(1, 101).has_value());
    EXPECT_FALSE(at(reader).announced(reader == 0 ? 2 : 0, 0).has_value());
    EXPECT_FALSE(at(reader).announced(reader, 0).has_value());
  }
  for (const uint64_t seq : {uint64_t{37}, uint64_t{100}}) EXPECT_TRUE(same_call(call_of(at(1), 1, seq), record(seq)));
  EXPECT_EQ(call_of(at(1), 1, 0).seq, 100u) << "its own";
}

TEST_P(TransportTest, AnnouncedCallsAreNeverTorn) {
  make(2, kSmall);
  ASSERT_EQ(ranks_.size(), 2u);
  constexpr int kEnough = 100;
  const Deadline deadline = Deadline::in_ms(20'000);
  std::atomic<int> seen{0};  // different records that the reader has caught while the writer went on
  each([&](int r) {
    if (r == 0) {
      for (uint64_t seq = 1; seen < kEnough && !deadline.passed(); ++seq) {
        at(0).announce(record(seq));
        if (seq % 64 == 0) at(0).progress();
        if (seq % 1024 == 0) std::this_thread::yield();
      }
      return;
    }
    uint64_t last = 0;
    while (seen < kEnough && !deadline.passed()) {
      at(1).progress();
      for (const uint64_t seq : {uint64_t{0}, last - 60, last - 50}) {  // the latest, and two about to be overwritten
        const auto call = last < 64 && seq != 0 ? std::nullopt : at(1).announced(0, seq);
        if (!call) continue;
        ASSERT_TRUE(same_call(*call, record(call->seq)) && call->signature == record(call->seq).signature) << call->seq;
        ASSERT_TRUE(seq == 0 ? call->seq >= last : call->seq == seq);
        if (seq != 0 || call->seq == last) continue;
        last = call->seq;
        ++seen;
      }
    }
  });
  EXPECT_GE(seen, kEnough);
}

TEST_P(TransportTest, ARaisedFaultReachesAll) {
  make(3, kSmall);
  ASSERT_EQ(ranks_.size(), 3u);
  std::atomic<int> asleep{0};
  each([&](int r) {
    if (r == 1) {
      while (asleep != 2) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // most likely they do sleep now
      at(1).raise(Fault{hktMismatch, 2, 42, "rank 2 called broadcast where rank 0 called all_reduce"});
    } else {
      ++asleep;
    }
    const int64_t start = now_ns();
    ASSERT_TRUE(wait_until(rank(r), [&] { return at(r).fault().has_value(); })) << "rank " << r;
    EXPECT_LT(now_ns() - start, int64_t{4000} * 1'000'000) << "rank " << r << " slept through it";
    const Fault fault = fault_of(at(r));
    EXPECT_EQ(fault.code, hktMismatch) << "rank " << r;
    EXPECT_EQ(fault.rank, 2) << "rank " << r;
    EXPECT_EQ(fault.call, 42u) << "rank " << r;
    EXPECT_EQ(fault.text, "rank 2 called broadcast where rank 0 called all_reduce") << "rank " << r;
  });
  // The first one stays.
  at(0).raise(Fault{hktAborted, 0, 0, "another one"});
  for (int r = 0; r < 3; ++r) EXPECT_EQ(fault_of(at(r)).code, hktMismatch) << "rank " << r;
}

TEST_P(TransportTest, LongFaultTextsAreCut) {
  make(2, kSmall);
  ASSERT_EQ(ranks_.size(), 2u);
  const std::string text(1000, 'x');
  at(0).raise(Fault{hktSystemError, 0, 0, text});
  const Progress raiser(at(0));
  ASSERT_TRUE(wait_until(rank(1), [&] { return at(1).fault().has_value(); }));
  const std::string got = fault_of(at(1)).text;
  EXPECT_GE(got.size(), 190u);
  EXPECT_EQ(got, text.substr(0, got.size()));
}

TEST_P(TransportTest, RaiseFromAnotherThread) {
  make(2, kSmall);
  ASSERT_EQ(ranks_.size(), 2u);
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    at(0).raise(Fault{hktAborted, 0, 0, "aborted"});
  });
  each([&](int r) {
    EXPECT_TRUE(wait_until(rank(r), [&] { return at(r).fault().has_value(); })) << "rank " << r;
    EXPECT_EQ(fault_of(at(r)).code, hktAborted) << "rank " << r;
  });
  aborter.join();
}

// A rank destroys its transport after its last call while others still work: they get all that it had sent, and no
// fault.
TEST_P(TransportTest, LeavingInGoodOrderIsNoFault) {
  make(3, kSmall);
  ASSERT_EQ(ranks_.size(), 3u);
  each([&](int r) {
    if (r == 0) {
      Link send = open_send(at(0), 1);
      for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(wait_push(rank(0), send));
        push(send, 11, 200);
      }
      ASSERT_TRUE(wait_until(rank(0), [&] { return at(0).flushed(); }));
      rank(0).bell = nullptr;
      rank(0).transport.reset();
      return;
    }
    const int peer = 3 - r;
    Link send = open_send(at(r), peer), recv = open_recv(at(r), peer);
    if (r == 1) {
      Link last = open_recv(at(1), 0);
      for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(wait_pop(rank(1), last)) << i;
        ASSERT_TRUE(pop(last, 11, 200)) << i;
      }
    }
    // Rank 2 has no link with rank 0, and a transport may tell only of those that it has talked to.
    const Deadline deadline = Deadline::in_ms(20'000);
    while (r == 1 && !at(1).left(0)) {
      ASSERT_FALSE(deadline.passed());
      at(1).progress();
      ASSERT_FALSE(at(1).fault().has_value()) << fault_of(at(1)).text;
    }
    for (int i = 0; i < 20; ++i) {  // the others go on
      ASSERT_TRUE(wait_push(rank(r), send));
      push(send, 12, 30);
      ASSERT_TRUE(wait_pop(rank(r), recv)) << i;
      ASSERT_TRUE(pop(recv, 12, 30));
      ASSERT_FALSE(at(r).fault().has_value()) << fault_of(at(r)).text;
      ASSERT_FALSE(at(r).left(peer));
    }
    ASSERT_TRUE(wait_until(rank(r), [&] { return at(r).flushed(); }));
  });
}

TEST_P(MortalTransportTest, AKilledRankIsNamedByAll) {
  make(4, kSmall);
  ASSERT_EQ(ranks_.size(), 4u);
  each([&](int r) {  // all pairs have talked
    std::vector<Link> recvs;
    for (int peer = 0; peer < 4; ++peer)
      if (peer != r) {
        Link send = open_send(at(r), peer);
        push(send, 1, 8);
        recvs.push_back(open_recv(at(r), peer));
      }
    for (Link& link : recvs) ASSERT_TRUE(wait_pop(rank(r), link));
    ASSERT_TRUE(wait_until(rank(r), [&] { return at(r).flushed(); }));
  });
  fabric_->kill(2);
  each([&](int r) {
    if (r == 2) return;
    ASSERT_TRUE(wait_until(rank(r), [&] { return at(r).fault().has_value(); })) << "rank " << r;
    EXPECT_EQ(fault_of(at(r)).code, hktRemoteError) << "rank " << r;
    EXPECT_EQ(fault_of(at(r)).rank, 2) << "rank " << r;
    EXPECT_NE(fault_of(at(r)).text.find("rank 2"), std::string::npos) << fault_of(at(r)).text;
  });
}

}  // namespace
}  // namespace hocket::test
