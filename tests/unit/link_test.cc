// Link and Doorbell alone, over plain memory.
#include "transport/link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "transport/call_table.h"
#include "transport/fault_board.h"
#include "transport/geometry.h"

namespace hocket {

struct LinkTestAccess {
  static void start_at(Link& link, uint64_t count) {
    link.count_ = link.limit_ = count;
    link.credit_->store(count, std::memory_order_release);
  }
};

namespace {

class Ring {
 public:
  explicit Ring(const RingGeometry& geometry) : geometry_(geometry), lines_(geometry.bytes() / 64) {
    setup_.ring = reinterpret_cast<unsigned char*>(lines_.data());
    setup_.geometry = geometry;
  }
  Link::Setup& setup() { return setup_; }
  Link end() const { return Link(setup_); }

 private:
  struct alignas(64) Line {
    unsigned char bytes[64] = {};
  };
  RingGeometry geometry_;
  std::vector<Line> lines_;
  Link::Setup setup_;
};

constexpr uint32_t kSignature = 77;

// A message that stays in its producer's memory: read from there, which the producer waits for.
TEST(Link, AMessageMayStayInMemoryThatTheConsumerReads) {
  const RingGeometry geometry{8, 8192, 4};
  const std::vector<unsigned char> payload(8192, 0x5a);
  for (const int32_t process : {Link::kThisProcess, static_cast<int32_t>(getpid())}) {
    Ring ring(geometry);
    const Regions regions(2);
    Regions theirs(2);
    ring.setup().own = regions.own();
    ring.setup().theirs = theirs.of(1);
    EXPECT_FALSE(ring.end().readable());
    ring.setup().process = process;
    Link producer = ring.end(), consumer = ring.end();
    ASSERT_TRUE(producer.readable());
    producer.push_at(MessagePlace::unmapped(payload.data()), payload.size(), kSignature);
    EXPECT_FALSE(producer.passed());
    ASSERT_TRUE(consumer.pop_ready(kSignature));
    EXPECT_TRUE(consumer.stays(payload.size()));
    const unsigned char* const at = consumer.pop_begin(payload.size());
    EXPECT_EQ(at, payload.data());
    EXPECT_EQ(consumer.fetched(payload.size()), process != Link::kThisProcess);
    if (consumer.fetched(payload.size())) {
      std::vector<unsigned char> part(100);
      consumer.fetch(part.data(), at + 5000, part.size());
      EXPECT_EQ(part, std::vector<unsigned char>(100, 0x5a));
    }
    EXPECT_FALSE(producer.passed());
    consumer.pop(payload.size());
    EXPECT_TRUE(producer.passed()) << "at once, not with the next batch";
    // The next one is in its slot again.
    producer.push(payload.size(), kSignature);
    EXPECT_FALSE(consumer.stays(payload.size()));
    EXPECT_FALSE(consumer.fetched(payload.size()));
    EXPECT_NE(consumer.pop_begin(payload.size()), payload.data());
  }
}

TEST(RingGeometry, SlotsDoNotOverlapAndFitTheRing) {
  const RingGeometry g{8, 256, 2};
  EXPECT_EQ(g.bytes(), RingGeometry::kFirstSlot + 8 * g.stride());
  EXPECT_EQ(g.stride() % 64, 0u);
  EXPECT_GE(g.stride(), RingGeometry::kHeader + g.slot_bytes);
  EXPECT_EQ(RingGeometry::kHeader, sizeof(uint64_t) + RingGeometry::kInline)
      << "an inline message fills the header line";
}

TEST(RingGeometry, NonsenseIsRefused) {
  EXPECT_TRUE(check_geometry({8, 256, 2}).ok());
  EXPECT_TRUE(check_geometry({1, 64, 1}).ok());
  for (const RingGeometry& g :
       {RingGeometry{0, 256, 1}, RingGeometry{6, 256, 1}, RingGeometry{8, 0, 1}, RingGeometry{8, 100, 1},
        RingGeometry{8, 256, 0}, RingGeometry{8, 256, 9}, RingGeometry{1u << 31, 256, 1}})
    EXPECT_FALSE(check_geometry(g).ok()) << g.depth << " " << g.slot_bytes << " " << g.ack_batch;
}

TEST(Link, ADefaultLinkIsNotValid) {
  EXPECT_FALSE(Link().valid());
  Ring ring({2, 64, 1});
  EXPECT_TRUE(ring.end().valid());
  EXPECT_EQ(ring.end().slot_bytes(), 64u);
}

TEST(Link, SmallMessagesTravelInTheHeaderLine) {
  Ring ring({2, 128, 1});
  const Link link = ring.end();
  const unsigned char* slot = ring.setup().ring + RingGeometry::kFirstSlot;
  EXPECT_EQ(link.push_begin(0), slot + 8);
  EXPECT_EQ(link.push_begin(56), slot + 8);
  EXPECT_EQ(link.push_begin(57), slot + 64);
  EXPECT_EQ(link.push_begin(128), slot + 64);
  for (const uint64_t bytes : {0, 1, 56, 57, 128}) EXPECT_EQ(link.pop_begin(bytes), link.push_begin(bytes));
}

// The number of messages in flight that a producer may count on, for every ack batch; credit comes in batches.
TEST(Link, DepthAndCredit) {
  for (const uint32_t ack : {1u, 2u, 3u, 4u}) {
    Ring ring({4, 64, ack});
    Link send = ring.end(), recv = ring.end();
    uint64_t pushed = 0, popped = 0;
    for (int round = 0; round < 50; ++round) {
      while (send.push_ready()) {
        send.push(8, kSignature);
        ++pushed;
      }
      EXPECT_EQ(pushed, popped / ack * ack + 4) << "ack batch " << ack;
      EXPECT_GE(pushed - popped, 4 - ack + 1);
      ASSERT_TRUE(recv.pop_ready(kSignature));
      recv.pop();
      ++popped;
    }
  }
}

TEST(Link, ReadyStaysReady) {
  Ring ring({2, 64, 1});
  Link send = ring.end(), recv = ring.end();
  EXPECT_TRUE(send.push_ready());
  EXPECT_TRUE(send.push_ready());
  EXPECT_FALSE(recv.pop_ready(kSignature));
  send.push(0, kSignature);
  EXPECT_TRUE(recv.pop_ready(kSignature));
  EXPECT_TRUE(recv.pop_ready(kSignature));
  recv.pop();
  EXPECT_FALSE(recv.pop_ready(kSignature));
}

TEST(Link, TheOldMessageOfASlotIsNotTheNewOne) {
  Ring ring({2, 64, 1});
  Link send = ring.end(), recv = ring.end();
  uint32_t theirs = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(recv.pop_ready(kSignature)) << i;
    EXPECT_FALSE(recv.pop_mismatch(kSignature + 1, &theirs)) << i << ": what lies there is two messages old";
    send.push(0, kSignature);
    EXPECT_TRUE(recv.pop_mismatch(kSignature + 1, &theirs)) << i;
    EXPECT_EQ(theirs, kSignature);
    EXPECT_FALSE(recv.pop_mismatch(kSignature, &theirs));
    ASSERT_TRUE(recv.pop_ready(kSignature)) << i;
    recv.pop();
  }
}

TEST(Link, SequenceWraps) {
  for (const uint64_t start : {(uint64_t{1} << 32) - 3, (uint64_t{1} << 32) - 2, (uint64_t{1} << 40) - 1}) {
    Ring ring({4, 64, 2});
    Link send = ring.end(), recv = ring.end();
    LinkTestAccess::start_at(send, start);
    LinkTestAccess::start_at(recv, start);
    for (uint64_t i = 0; i < 12; ++i) {
      ASSERT_TRUE(send.push_ready()) << i;
      std::memcpy(send.push_begin(8), &i, 8);
      send.push(8, kSignature);
      ASSERT_TRUE(recv.pop_ready(kSignature)) << i;
      uint64_t got = 0;
      std::memcpy(&got, recv.pop_begin(8), 8);
      EXPECT_EQ(got, i);
      recv.pop();
      EXPECT_EQ(recv.count(), start + i + 1);
    }
    EXPECT_FALSE(recv.pop_ready(kSignature));
  }
}

TEST(Link, RingsOnlyASleeper) {
  Doorbell producer, consumer;
  Ring ring({4, 64, 2});
  ring.setup().far_bell = &consumer;
  Link send = ring.end();
  ring.setup().far_bell = &producer;
  Link recv = ring.end();
  send.push(0, kSignature);
  EXPECT_EQ(consumer.word, 0u) << "nobody sleeps";
  const uint32_t armed = consumer.arm(Fence::full);
  send.push(0, kSignature);
  EXPECT_NE(consumer.word, armed);
  consumer.disarm();
  producer.arm(Fence::full);
  recv.pop();
  EXPECT_EQ(producer.word, 0u) << "the batch of credit is not full";
  recv.pop();
  EXPECT_EQ(producer.word, 1u);
}

class CountingPump final : public Pump {
 public:
  void pushed(Link& link, uint32_t bytes, const void* lent) override {
    pushes.push_back({link.id(), link.count(), bytes, lent});
  }
  void popped(Link& link) override { pops.push_back({link.id(), link.count(), 0}); }
  struct Event {
    uint32_t id;
    uint64_t count;
    uint32_t bytes;
    const void* lent = nullptr;
    bool operator==(const Event& o) const {
      return id == o.id && count == o.count && bytes == o.bytes && lent == o.lent;
    }
  };
  std::vector<Event> pushes, pops;
};

TEST(Link, APumpHearsOfEachMessageAndEachCredit) {
  CountingPump pump;
  Ring ring({4, 128, 2});
  ring.setup().pump = &pump;
  ring.setup().id = 5;
  Link send = ring.end(), recv = ring.end();
  for (const uint64_t bytes : {0, 56}) send.push(bytes, kSignature);
  const char mine[100] = "";
  send.lend(mine, sizeof mine, kSignature);
  EXPECT_EQ(pump.pushes, (std::vector<CountingPump::Event>{{5, 1, 0}, {5, 2, 56}, {5, 3, 100, mine}}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(recv.pop_ready(kSignature));
    recv.pop();
  }
  EXPECT_EQ(pump.pops, (std::vector<CountingPump::Event>{{5, 2, 0}}));
}

TEST(Link, TwoThreads) {
  Ring ring({4, 512, 2});
  Link send = ring.end(), recv = ring.end();
  constexpr uint64_t kMessages = 20'000;
  std::thread producer([&] {
    for (uint64_t i = 0; i < kMessages; ++i) {
      while (!send.push_ready()) std::this_thread::yield();
      const uint64_t bytes = i % 513;
      std::memset(send.push_begin(bytes), static_cast<int>(i & 0xff), bytes);
      send.push(bytes, kSignature);
    }
  });
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kMessages; ++i) {
    while (!recv.pop_ready(kSignature)) std::this_thread::yield();
    const uint64_t bytes = i % 513;
    const unsigned char* from = recv.pop_begin(bytes);
    for (uint64_t k = 0; k < bytes; ++k) wrong += from[k] != (i & 0xff);
    recv.pop();
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(Doorbell, ARingBetweenArmAndSleepIsNotLost) {
  Doorbell bell;
  const uint32_t armed = bell.arm(Fence::full);
  bell.ring(Fence::full);
  const int64_t start = now_ns();
  bell.sleep(armed, 20'000'000'000);
  EXPECT_LT(now_ns() - start, 10'000'000'000);
}

// The race that a doorbell is about, without sleeping: if the sleeper has not seen the condition, its bell must have
// been rung. Two threads meet in each round as exactly as they can; a missing fence shows on x86 within some thousand
// rounds.
void race(Fence fence) {
  Doorbell bell;
  std::atomic<uint32_t> condition{0};
  std::atomic<uint32_t> started[2] = {}, ended{0};
  std::atomic<bool> stop{false};
  const auto meet = [&](int me, uint32_t round) {
    started[me].store(round, std::memory_order_release);
    while (started[1 - me].load(std::memory_order_acquire) < round)
      if (stop.load(std::memory_order_relaxed)) return false;
    return true;
  };
  std::thread ringer([&] {
    for (uint32_t round = 1; meet(1, round); ++round) {
      condition.store(round, std::memory_order_release);
      bell.ring(fence);
      ended.store(round, std::memory_order_release);
    }
  });
  const Deadline deadline = Deadline::in_ms(500);
  uint32_t lost = 0;
  for (uint32_t round = 1; round < 200'000 && !deadline.passed() && meet(0, round); ++round) {
    const uint32_t armed = bell.arm(fence);
    const bool seen = condition.load(std::memory_order_acquire) == round;
    while (ended.load(std::memory_order_acquire) != round) {
    }
    lost += !seen && bell.word.load() == armed;
    bell.disarm();
  }
  stop = true;
  ringer.join();
  EXPECT_EQ(lost, 0u);
}

TEST(Doorbell, SleeperOrRingerSeesTheOther) {
  race(Fence::full);
  if (register_asymmetric_fence()) race(Fence::asymmetric);  // else nobody uses it
}

TEST(Doorbell, SleepEndsAtItsTimeout) {
  Doorbell bell;
  const uint32_t armed = bell.arm(Fence::full);
  const int64_t start = now_ns();
  bell.sleep(armed, 20'000'000);
  EXPECT_GE(now_ns() - start, 15'000'000);
}

TEST(CallTable, KeepsTheLast64) {
  auto table = std::make_unique<CallTable>();
  EXPECT_FALSE(table->read(0).has_value());
  EXPECT_FALSE(table->read(1).has_value());
  CallRecord call;
  for (call.seq = 1; call.seq <= 200; ++call.seq) {
    call.count = call.seq * 10;
    table->write(call);
  }
  EXPECT_EQ(table->read(0).value_or(CallRecord{}).seq, 200u);
  EXPECT_EQ(table->read(137).value_or(CallRecord{}).count, 1370u);
  EXPECT_FALSE(table->read(136).has_value());
  EXPECT_FALSE(table->read(201).has_value());
}

TEST(FaultBoard, TheFirstWins) {
  FaultBoard board;
  EXPECT_FALSE(board.read().has_value());
  EXPECT_TRUE(board.post({hktTimeout, 3, 9, std::string(500, 'a')}));
  EXPECT_FALSE(board.post({hktAborted, 1, 2, "late"}));
  const Fault fault = board.read().value_or(Fault{});
  EXPECT_EQ(fault.code, hktTimeout);
  EXPECT_EQ(fault.rank, 3);
  EXPECT_EQ(fault.call, 9u);
  EXPECT_EQ(fault.text, std::string(FaultBoard::kText, 'a'));
}

TEST(FaultBoard, OneOfManyThreadsWinsAndIsReadWhole) {
  for (int round = 0; round < 500; ++round) {
    FaultBoard board;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&board, t] {
        board.post({hktRemoteError, t, 0, std::string(100, static_cast<char>('a' + t))});
        const std::optional<Fault> fault = board.read();
        ASSERT_TRUE(fault.has_value()) << "whoever has posted finds a fault, its own or the first one";
        EXPECT_EQ(fault->text, std::string(100, static_cast<char>('a' + fault->rank)));
      });
    for (std::thread& t : threads) t.join();
  }
}

}  // namespace
}  // namespace hocket
