// Faults over TCP: they reach all ranks, connected or not, and those that come when the others have left.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "conformance/tcp_ranks.h"

namespace hocket::test {
namespace {

using tcp::TcpTestAccess;
using tcp::TcpTransport;

TEST(TcpFaults, FloodAlongAChain) {
  TcpRanks ranks = make_tcp_ranks(4);
  ASSERT_EQ(ranks.size(), 4u);
  for (int r = 0; r < 3; ++r) meet(ranks, r, r + 1);
  for (auto& t : ranks) EXPECT_LE(t->connected(), 2u);
  ranks[0]->raise(Fault{hktMismatch, 0, 5, "call 5 does not match"});
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[3]); }));
  EXPECT_EQ(ranks[3]->fault()->code, hktMismatch);
  EXPECT_EQ(ranks[3]->fault()->call, 5u);
  EXPECT_EQ(text_of(*ranks[3]), "call 5 does not match");
}

TEST(TcpFaults, ReachPeersThatConnectLaterAndArriveBeforeTheGoodbye) {
  TcpRanks ranks = make_tcp_ranks(3);
  ASSERT_EQ(ranks.size(), 3u);
  meet(ranks, 0, 1);
  ranks[0]->raise(Fault{hktAborted, 0, 0, "aborted"});
  (void)send_end(*ranks[2], 0);
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[2]); }));
  EXPECT_EQ(ranks[2]->fault()->code, hktAborted);
  ranks[0].reset();
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[1]) && ranks[1]->left(0); }));
  EXPECT_EQ(ranks[1]->fault()->code, hktAborted) << text_of(*ranks[1]);
}

// Rank 1 dies, `survivor` hears of it and leaves; only then `late`, which has met neither, needs the survivor.
void comes_late(int survivor, int late, const SharedSecret& secret = {}) {
  SCOPED_TRACE("rank " + std::to_string(survivor) + " leaves, rank " + std::to_string(late) + " comes");
  TcpSetup setup;
  setup.secret = secret;
  TcpRanks ranks = make_tcp_ranks(4, setup);
  ASSERT_EQ(ranks.size(), 4u);
  TcpTransport& comes = *ranks[static_cast<size_t>(late)];
  auto& leaves = ranks[static_cast<size_t>(survivor)];
  meet(ranks, survivor, 1);
  ASSERT_EQ(comes.connected(), 0u);
  TcpTestAccess::kill(*ranks[1]);
  ranks[1].reset();
  while (!has_fault(*leaves)) {
  }
  const std::string why = text_of(*leaves);
  leaves->raise(*leaves->fault());
  leaves.reset();
  (void)recv_end(comes, survivor);
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(comes); }));
  EXPECT_EQ(comes.fault()->rank, 1);
  EXPECT_EQ(text_of(comes), why);
}

TEST(TcpFaults, ReachARankThatComesWhenThoseWhoKnowHaveLeft) {
  comes_late(0, 2);
  comes_late(2, 0);
  comes_late(2, 3);
  comes_late(3, 2);
}

// A rank leaves in the middle of a handshake: connected as the other side sees it, not yet as it sees it itself.
TEST(TcpFaults, ReachARankWhoseConnectionWasNotYetOneHere) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  (void)recv_end(*ranks[1], 0);
  while (ranks[1]->progress(), ranks[1]->connected() == 0) ranks[0]->progress();
  ASSERT_EQ(ranks[0]->connected(), 0u);
  ranks[0]->raise(Fault{hktAborted, 0, 0, "aborted"});
  ranks[0].reset();
  while (ranks[1]->connected() != 0) ranks[1]->progress();  // fault() would look at the port first
  EXPECT_EQ(text_of(*ranks[1]), "aborted");
}

// Who tells of a fault cannot wait for the other's answer: what it says proves itself.
TEST(TcpFaults, ReachARankThatComesLateInAJobWithASecret) {
  const auto secret = Secret::make("the secret of a test", "this test");
  ASSERT_TRUE(secret.ok()) << secret.error().text;
  comes_late(0, 2, secret.value());
  comes_late(2, 0, secret.value());
}

// Of those that are not connected: all, at once, whatever they wait for.
TEST(TcpFaults, ReachRanksThatAreNotConnected) {
  TcpRanks ranks = make_tcp_ranks(70);
  ASSERT_EQ(ranks.size(), 70u);
  meet(ranks, 3, 40);
  ranks[3]->raise(Fault{hktAborted, 3, 0, "aborted"});
  ASSERT_TRUE(pump_until(
      ranks, [&] { return std::all_of(ranks.begin(), ranks.end(), [](auto& t) { return has_fault(*t); }); }));
  for (auto& t : ranks) EXPECT_EQ(text_of(*t), "aborted");
  ranks.clear();
}

TEST(TcpFaults, AreRaisedByOtherThreadsInTheMiddleOfTraffic) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  std::atomic<int> exchanged{0};
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      TcpTransport& t = *ranks[static_cast<size_t>(r)];
      Link send = send_end(t, 1 - r), recv = recv_end(t, 1 - r);
      const Deadline deadline = Deadline::in_ms(20'000);
      for (uint64_t seq = 1; !t.fault() && !deadline.passed(); ++seq) {
        CallRecord call;
        call.seq = seq;
        t.announce(call);
        if (send.push_ready()) push(send, 1, seq % 5000);
        t.progress();
        if (recv.pop_ready(kTcpSignature)) {
          recv.pop();
          ++exchanged;
        }
      }
      const auto fault = t.fault();
      ASSERT_TRUE(fault.has_value());
      EXPECT_EQ(fault->code, hktAborted);
      const Deadline flush = Deadline::in_ms(2000);
      while (!t.flushed() && !flush.passed()) t.progress();
    });
  while (exchanged < 200) std::this_thread::yield();
  std::thread aborter([&] { ranks[0]->raise(Fault{hktAborted, 0, 0, "aborted by another thread"}); });
  aborter.join();
  for (auto& t : threads) t.join();
}

TEST(TcpFaults, WakeTheOwnThreadThatSleeps) {
  TcpRanks ranks = make_tcp_ranks(2);
  ASSERT_EQ(ranks.size(), 2u);
  meet(ranks, 0, 1);
  (void)has_fault(*ranks[0]);
  std::vector<pollfd> fds;
  ranks[0]->poll_set(fds);
  EXPECT_EQ(poll(fds.data(), fds.size(), 0), 0) << "nothing to do yet";
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ranks[0]->raise(Fault{hktAborted, 0, 0, "aborted"});
  });
  EXPECT_GT(poll(fds.data(), fds.size(), 10'000), 0);
  aborter.join();
  EXPECT_TRUE(has_fault(*ranks[0]));
  fds.clear();
  ranks[0]->poll_set(fds);
  EXPECT_EQ(poll(fds.data(), fds.size(), 0), 0) << "seen: the next sleep is not disturbed";
}

}  // namespace
}  // namespace hocket::test
