// What loopback's faults do, beyond the conformance suite.
#include "transport/loopback/loopback_transport.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "conformance/fabric.h"

namespace hocket::test {
namespace {

using loopback::Faults;
using loopback::LoopbackFabric;

constexpr RingGeometry kGeometry{8, 64, 1};
constexpr uint32_t kSignature = 9;

struct Pair {
  explicit Pair(std::optional<Faults> faults, int n = 2) : fabric(*LoopbackFabric::create(n, kGeometry, faults)) {
    for (int r = 0; r < n; ++r) ranks.push_back({fabric->transport(r), &fabric->bell(r), Fence::full, 1});
  }
  Transport& at(size_t rank) { return *ranks[rank].transport; }
  std::shared_ptr<LoopbackFabric> fabric;
  std::vector<Rank> ranks;
};

void push(Link& link, uint64_t value) {
  std::memcpy(link.push_begin(8), &value, 8);
  link.push(8, kSignature);
}
uint64_t pop(Link& link) {
  uint64_t value = 0;
  std::memcpy(&value, link.pop_begin(8), 8);
  link.pop();
  return value;
}

TEST(Loopback, RefusesNonsense) {
  EXPECT_FALSE(LoopbackFabric::create(0, kGeometry).ok());
  EXPECT_FALSE(LoopbackFabric::create(2, {3, 64, 1}).ok());
  EXPECT_FALSE(LoopbackFabric::create(2, kGeometry, Faults{1, 2'000'000, 0}).ok());
  Pair plain(std::nullopt);
  EXPECT_FALSE(plain.fabric->drop_next(0, 1, 0).ok());
  ASSERT_TRUE(plain.at(0).open_send(1, 0).ok());
  const auto again = plain.at(0).open_send(1, 0);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().text.find("opened twice"), std::string::npos) << again.error().text;
}

TEST(Loopback, ALostMessageIsMissedForEver) {
  Pair pair(Faults{});
  Link send = *pair.at(0).open_send(1, 0), recv = *pair.at(1).open_recv(0, 0);
  push(send, 1);
  ASSERT_TRUE(pair.fabric->drop_next(0, 1, 0).ok());
  push(send, 2);
  push(send, 3);
  ASSERT_TRUE(recv.pop_ready(kSignature));
  EXPECT_EQ(pop(recv), 1u);
  // Number 3 must not be taken for number 2.
  EXPECT_FALSE(wait_until(pair.ranks[1], [&] { return recv.pop_ready(kSignature); }, Deadline::in_ms(50)));
  uint32_t theirs = 0;
  EXPECT_FALSE(recv.pop_mismatch(kSignature, &theirs));
  EXPECT_FALSE(pair.at(1).fault().has_value()) << "a loss is not a fault: the deadline finds it";
}

// The numbers of the messages of a link that a seed lets through.
std::vector<uint64_t> survivors(uint64_t seed) {
  std::vector<uint64_t> through;
  for (uint64_t i = 0; i < 200; ++i) {
    Pair pair(Faults{seed * 1000 + i, 300'000, 0});
    Link send = *pair.at(0).open_send(1, 0), recv = *pair.at(1).open_recv(0, 0);
    push(send, i);
    if (recv.pop_ready(kSignature)) through.push_back(i);
  }
  return through;
}

TEST(Loopback, LossesFollowTheSeed) {
  const auto first = survivors(1);
  EXPECT_EQ(first, survivors(1));
  EXPECT_NE(first, survivors(2));
  EXPECT_GT(first.size(), 100u);  // 140 of 200 are expected
  EXPECT_LT(first.size(), 180u);
}

TEST(Loopback, LinksOvertakeOneAnotherButAreFifosThemselves) {
  Pair pair(Faults{3, 0, 20'000'000});
  std::vector<Link> sends, recvs;
  for (uint16_t tag = 0; tag < 8; ++tag) {
    sends.push_back(*pair.at(0).open_send(1, tag));
    recvs.push_back(*pair.at(1).open_recv(0, tag));
  }
  for (uint64_t i = 0; i < 4; ++i)
    for (Link& link : sends) push(link, i);
  EXPECT_FALSE(pair.at(0).flushed());
  std::vector<size_t> order;  // links in the order in which messages came
  std::vector<uint64_t> next(8, 0);
  while (order.size() < 32) {
    ASSERT_TRUE(wait_until(
        pair.ranks[1],
        [&] {
          for (Link& link : recvs)
            if (link.pop_ready(kSignature)) return true;
          return false;
        },
        Deadline::in_ms(20'000), 1'000'000'000));
    for (size_t k = 0; k < recvs.size(); ++k)
      if (recvs[k].pop_ready(kSignature)) {
        EXPECT_EQ(pop(recvs[k]), next[k]++);
        order.push_back(k);
      }
  }
  EXPECT_TRUE(pair.at(0).flushed());
  std::vector<size_t> pushed_order;
  for (size_t i = 0; i < 32; ++i) pushed_order.push_back(i % 8);
  EXPECT_NE(order, pushed_order) << "no message has overtaken another";
}

TEST(Loopback, ABrokenLinkIsNamedByBothEndsAndCarriesNothing) {
  Pair pair(Faults{}, 3);
  Link send = *pair.at(0).open_send(1, 0), recv = *pair.at(1).open_recv(0, 0);
  push(send, 1);
  pair.fabric->break_link(0, 1);
  push(send, 2);
  ASSERT_TRUE(recv.pop_ready(kSignature)) << "it had arrived before";
  recv.pop();
  EXPECT_FALSE(recv.pop_ready(kSignature));
  EXPECT_EQ(fault_of(pair.at(0)).rank, 1);
  EXPECT_EQ(fault_of(pair.at(1)).rank, 0);
  EXPECT_EQ(fault_of(pair.at(0)).text, "link 0 -> 1 is broken");
  EXPECT_FALSE(pair.at(2).fault().has_value()) << "rank 2 does not use it";
  pair.at(1).raise(fault_of(pair.at(1)));
  EXPECT_EQ(fault_of(pair.at(2)).rank, 0);
}

TEST(Loopback, NothingComesFromAKilledRank) {
  Pair pair(Faults{});
  Link send = *pair.at(0).open_send(1, 0), recv = *pair.at(1).open_recv(0, 0);
  pair.fabric->kill(0);
  push(send, 1);
  EXPECT_FALSE(wait_until(pair.ranks[1], [&] { return recv.pop_ready(kSignature); }, Deadline::in_ms(20)));
  EXPECT_EQ(fault_of(pair.at(1)).text, "rank 0 has ended");
}

}  // namespace
}  // namespace hocket::test
