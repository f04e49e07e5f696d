// The job's secret at the ports of ranks: those who have it meet, nobody else is heard.
#include <poll.h>

#include <cstring>
#include <string>

#include "base/proof.h"
#include "conformance/tcp_ranks.h"
#include "transport/tcp/wire.h"

namespace hocket::test {
namespace {

SharedSecret secret_of(const std::string& bytes) {
  auto made = Secret::make(bytes, "this test");
  EXPECT_TRUE(made.ok()) << made.error().text;
  return made.ok() ? *made : nullptr;
}

// Ranks of one job with a secret each.
TcpRanks make_ranks(const std::vector<SharedSecret>& secrets, uint64_t nonce) {
  TcpRanks ranks;
  std::vector<std::string> contacts;
  const auto n = static_cast<int>(secrets.size());
  for (int r = 0; r < n; ++r) {
    TcpSetup setup;
    setup.secret = secrets[static_cast<size_t>(r)];
    auto t = tcp::TcpTransport::listen(tcp_config(r, n, nonce, setup));
    EXPECT_TRUE(t.ok()) << t.error().text;
    if (!t) return {};
    ranks.push_back(std::move(*t));
    contacts.push_back(ranks.back()->contact());
  }
  for (auto& t : ranks) EXPECT_TRUE(t->set_contacts(contacts).ok());
  return ranks;
}

tcp::Hello hello(uint32_t rank, uint64_t nonce, tcp::Purpose purpose) {
  tcp::Hello h;
  h.nonce = nonce;
  h.rank = rank;
  h.size = 3;
  h.epoch = 7;
  h.depth = 8;
  h.slot_bytes = 64 * 1024;
  h.ack_batch = 4;
  h.tags = 4;
  h.purpose = static_cast<uint32_t>(purpose);
  return h;
}

std::string bytes_of(const tcp::Hello& h) { return {reinterpret_cast<const char*>(&h), sizeof h}; }

TEST(TcpSecret, RanksWithOneSecretMeet) {
  const SharedSecret secret = secret_of("the secret of a test");
  TcpRanks ranks = make_ranks({secret, secret, secret}, kNonce);
  ASSERT_EQ(ranks.size(), 3u);
  meet(ranks, 0, 1);
  meet(ranks, 2, 0);
  meet(ranks, 1, 2);
  for (auto& t : ranks) EXPECT_FALSE(has_fault(*t)) << text_of(*t);
}

// Longer than a stranger may take for a hello.
constexpr int64_t kLongNs = tcp::Port::kStrayNs + 100'000'000;
void pump_alone(tcp::TcpTransport& t) {
  const int64_t until = now_ns() + kLongNs;
  while (now_ns() < until) t.progress();
}

TEST(TcpSecret, ARankThatComputesForLongIsReachedAllTheSame) {
  const SharedSecret secret = secret_of("the secret of a test");
  TcpRanks ranks = make_ranks({secret, secret, secret}, kNonce);
  ASSERT_EQ(ranks.size(), 3u);
  Link send = send_end(*ranks[1], 0);
  push(send, 5);
  pump_alone(*ranks[1]);
  Link recv = recv_end(*ranks[0], 1);
  ASSERT_TRUE(pump_until(ranks, [&] { return recv.pop_ready(kTcpSignature) || has_fault(*ranks[1]); }));
  for (auto& t : ranks) EXPECT_FALSE(has_fault(*t)) << text_of(*t);
}

// The one that connects may begin to compute at any point of the proof, and the other one, which waits, lets go of it.
TEST(TcpSecret, ARankThatComputesInTheMiddleOfItsProofIsMetAllTheSame) {
  const SharedSecret secret = secret_of("the secret of a test");
  struct Job {
    TcpRanks ranks;
    Link send, recv;
  };
  std::vector<Job> jobs;
  for (const size_t rounds : {0, 1, 2, 3, 4}) {
    Job job{make_ranks({secret, secret, secret}, kNonce), {}, {}};
    ASSERT_EQ(job.ranks.size(), 3u);
    job.recv = recv_end(*job.ranks[0], 1);
    job.send = send_end(*job.ranks[1], 0);
    push(job.send, 5);
    for (size_t i = 0; i < rounds; ++i) {
      job.ranks[1]->progress();
      job.ranks[0]->progress();
    }
    jobs.push_back(std::move(job));
  }
  const int64_t until = now_ns() + kLongNs;
  while (now_ns() < until)
    for (Job& job : jobs) job.ranks[0]->progress();
  for (size_t i = 0; i < jobs.size(); ++i) {
    Job& job = jobs[i];
    SCOPED_TRACE(i);
    ASSERT_TRUE(pump_until(job.ranks, [&] { return job.recv.pop_ready(kTcpSignature) || has_fault(*job.ranks[1]); }));
    for (auto& t : job.ranks) EXPECT_FALSE(has_fault(*t)) << text_of(*t);
  }
}

// A lower rank that waits for a higher one watches it; that is no death of either.
TEST(TcpSecret, AWatchOfARankThatComputesForLongIsNoDeath) {
  const SharedSecret secret = secret_of("the secret of a test");
  TcpRanks ranks = make_ranks({secret, secret, secret}, kNonce);
  ASSERT_EQ(ranks.size(), 3u);
  Link recv = recv_end(*ranks[0], 1);
  pump_alone(*ranks[0]);
  pump_alone(*ranks[1]);
  pump_alone(*ranks[0]);
  Link send = send_end(*ranks[1], 0);
  push(send, 5);
  ASSERT_TRUE(pump_until(ranks, [&] { return recv.pop_ready(kTcpSignature) || has_fault(*ranks[0]); }));
  for (auto& t : ranks) EXPECT_FALSE(has_fault(*t)) << text_of(*t);
}

TEST(TcpSecret, ARankThatComputesInTheMiddleOfItsWatchBlamesNobody) {
  const SharedSecret secret = secret_of("the secret of a test");
  std::vector<TcpRanks> jobs;
  std::vector<Link> links;
  for (int i = 0; i < 7; ++i) {
    jobs.push_back(make_ranks({secret, secret, secret}, kNonce));
    ASSERT_EQ(jobs.back().size(), 3u);
    links.push_back(recv_end(*jobs.back()[0], 1));
  }
  pump_alone(*jobs[0][0]);  // long enough for a watch to begin at the next look
  for (size_t i = 0; i < jobs.size(); ++i)
    for (size_t round = 0; round < i; ++round)
      for (const size_t r : {0, 1}) EXPECT_FALSE(has_fault(*jobs[i][r]));
  const int64_t until = now_ns() + kLongNs;
  while (now_ns() < until)
    for (TcpRanks& ranks : jobs) EXPECT_FALSE(has_fault(*ranks[1]));
  // Longer than the end of a watch may be explained by a connection.
  const int64_t after = now_ns() + tcp::Connector::kEndedNs + 100'000'000;
  while (now_ns() < after)
    for (TcpRanks& ranks : jobs)
      for (const size_t r : {0, 1}) has_fault(*ranks[r]);
  for (size_t i = 0; i < jobs.size(); ++i) {
    SCOPED_TRACE(i);
    Link send = send_end(*jobs[i][1], 0);
    push(send, 5);
    ASSERT_TRUE(pump_until(jobs[i], [&] { return links[i].pop_ready(kTcpSignature) || has_fault(*jobs[i][0]); }));
    for (auto& t : jobs[i]) EXPECT_FALSE(has_fault(*t)) << text_of(*t);
  }
}

TEST(TcpSecret, AWatchedRankThatEndsIsNamed) {
  const SharedSecret secret = secret_of("the secret of a test");
  TcpRanks ranks = make_ranks({secret, secret, secret}, kNonce);
  ASSERT_EQ(ranks.size(), 3u);
  (void)recv_end(*ranks[0], 1);
  pump_alone(*ranks[0]);
  ranks[1].reset();
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[0]); }));
  EXPECT_EQ(ranks[0]->fault()->rank, 1);
}

// Rank 2 connects to rank 0, as the higher rank does.
void expect_refused(const std::vector<SharedSecret>& secrets, const std::string& why) {
  TcpRanks ranks = make_ranks(secrets, kNonce);
  ASSERT_EQ(ranks.size(), 3u);
  meet(ranks, 0, 1);
  (void)send_end(*ranks[2], 0);
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[2]); }));
  EXPECT_HAS(text_of(*ranks[2]), why);
  EXPECT_EQ(text_of(*ranks[2]).find("secret of"), std::string::npos);
  EXPECT_EQ(ranks[0]->connected(), 1u);
}

TEST(TcpSecret, ARankWithoutItIsRefusedAndToldWhy) {
  const SharedSecret secret = secret_of("the secret of a test");
  expect_refused({secret, secret, nullptr}, "has a job secret, and this process has none: give all ranks the same");
}

TEST(TcpSecret, ARankWithAnotherOneRefuses) {
  const SharedSecret secret = secret_of("the secret of a test"), other = secret_of("the secret of another");
  expect_refused({secret, secret, other}, "has another job secret than this process: give all ranks the same");
}

TEST(TcpSecret, ARankThatAloneHasOneIsRefusedAndToldWhy) {
  expect_refused({nullptr, nullptr, secret_of("the secret of a test")},
                 "this process has a job secret, and rank 0 (127.0.0.1:");
}

TEST(TcpSecret, WhoOnlyKnowsTheNonceIsNotHeard) {
  const SharedSecret secret = secret_of("the secret of a test"), other = secret_of("the secret of another");
  TcpRanks ranks = make_ranks({secret, secret, secret}, kNonce);
  ASSERT_EQ(ranks.size(), 3u);
  meet(ranks, 0, 1);
  const auto say = [&](const std::string& bytes) {
    auto fd = connect_to(address_of(*ranks[0]), Deadline::in_ms(5000));
    EXPECT_TRUE(fd.ok());
    EXPECT_TRUE(send_all(fd->get(), bytes.data(), bytes.size(), Deadline::in_ms(5000)).ok());
    return std::move(*fd);
  };
  tcp::Header header;
  header.epoch = 7;
  header.kind = tcp::Kind::fault;
  header.length = sizeof(tcp::FaultHead);
  tcp::FaultHead fault;
  fault.code = hktAborted;
  const std::string told = bytes_of(hello(2, kNonce, tcp::Purpose::tell)) +
                           std::string(reinterpret_cast<const char*>(&header), sizeof header) +
                           std::string(reinterpret_cast<const char*>(&fault), sizeof fault);
  std::vector<Fd> liars;
  liars.push_back(say(told));                 // as without a secret
  liars.push_back(say(*seal(*other, told)));  // sealed with another one
  std::string changed = *seal(*secret, told);
  changed.back() = static_cast<char>(changed.back() ^ 1);
  liars.push_back(say(changed));                                                          // changed on the way
  liars.push_back(say(*seal(*secret, bytes_of(hello(2, kNonce, tcp::Purpose::carry)))));  // no fault
  liars.push_back(say(*seal(*secret, "short")));
  for (const Fd& liar : liars) {
    ASSERT_TRUE(pump_until(ranks, [&] {
      pollfd p{liar.get(), POLLIN, 0};
      char bytes[64];
      return poll(&p, 1, 0) == 1 && recv(liar.get(), bytes, sizeof bytes, MSG_DONTWAIT) == 0;
    }));
    EXPECT_FALSE(has_fault(*ranks[0])) << text_of(*ranks[0]);
  }
  const Fd honest = say(*seal(*secret, told));
  ASSERT_TRUE(pump_until(ranks, [&] { return has_fault(*ranks[0]); }));
  EXPECT_EQ(ranks[0]->fault()->code, hktAborted);
}

}  // namespace
}  // namespace hocket::test
