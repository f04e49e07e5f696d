// Times of plans whose closed form is known, exactly; and what only a simulation shows: depth, incast, two levels,
// deadlock.
#include "schedule/simulate.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "algorithms/all_gather_direct.h"
#include "algorithms/all_gather_ring.h"
#include "algorithms/all_to_all_bruck.h"
#include "algorithms/all_to_all_direct.h"
#include "algorithms/binomial.h"
#include "algorithms/broadcast_circulant.h"
#include "algorithms/catalog.h"
#include "algorithms/chain.h"
#include "algorithms/circulant.h"
#include "algorithms/dissemination.h"
#include "algorithms/double_tree.h"
#include "algorithms/gather_binomial.h"
#include "algorithms/gather_flat.h"
#include "algorithms/gather_reduce.h"
#include "algorithms/halving_doubling.h"
#include "algorithms/math.h"
#include "algorithms/nhr.h"
#include "algorithms/one_shot.h"
#include "algorithms/recursive_doubling.h"
#include "algorithms/reduce_binomial.h"
#include "algorithms/ring.h"
#include "algorithms/scatter_all_gather.h"
#include "algorithms/scatter_binomial.h"
#include "algorithms/two_shot.h"
#include "schedule/collective.h"

namespace hocket {
namespace {

constexpr double kAlpha = 2.5, kBeta = 0.001, kGamma = 0.0003, kCopy = 0.0001;

NetworkModel uniform(double gamma = kGamma, double copy = kCopy) {
  NetworkModel net;
  net.alpha_us = {kAlpha, std::numeric_limits<double>::max()};  // a message between hosts would show
  net.beta_us_per_byte = {kBeta, 0};
  net.gamma_us_per_byte = gamma;
  net.copy_us_per_byte = copy;
  return net;
}

template <class Planner>
SimReport time_of(const Planner& planner, const NetworkModel& net, const SimCall& call) {
  Result<SimReport> r = simulate(PlannerSource<Planner>(planner), net, call);
  if (!r.ok()) throw std::runtime_error(r.error().text);
  return std::move(*r);
}

SimCall bytes(uint64_t n) {
  SimCall call;
  call.bytes = n;
  return call;
}

double nearly(double expected) { return 1e-9 * std::max(1.0, expected); }

TEST(ClosedForm, Ring) {
  for (const uint32_t n : {2u, 3u, 8u, 37u}) {
    const double m = 640;  // bytes of a chunk
    const SimReport r = time_of(Ring{n}, uniform(), bytes(640 * n));
    const double expected = 2 * (n - 1) * (kAlpha + m * kBeta) + (n - 1) * m * kGamma + (n - 1) * m * kCopy;
    EXPECT_NEAR(r.time_us, expected, nearly(expected)) << n;
    for (const double finish : r.finish_us) EXPECT_NEAR(finish, expected, nearly(expected));
    EXPECT_EQ(r.messages[0], uint64_t{n} * 2 * (n - 1));
    EXPECT_EQ(r.bytes[0], uint64_t{n} * 2 * (n - 1) * 640);
    EXPECT_EQ(r.messages[1] + r.bytes[1], 0u);
  }
}

TEST(ClosedForm, RecursiveDoubling) {
  const double m = 1024;
  for (const uint32_t n : {2u, 4u, 64u}) {
    const double expected = floor_log2(n) * (kAlpha + m * kBeta + m * kGamma);
    EXPECT_NEAR(time_of(RecursiveDoubling{n}, uniform(), bytes(1024)).time_us, expected, nearly(expected)) << n;
  }
  // The first two thirds of 3 * 2^k ranks pair up, and only in the last exchange meet a rank without a pair. That one
  // is a hop ahead: its message comes together with the one of the hop before and takes its turn at the port, while the
  // fold of that one goes on. Then the result returns to the folded ranks.
  for (const uint32_t n : {3u, 6u, 48u}) {
    const uint32_t hops = floor_log2(n) + 1;
    const double expected = hops * (kAlpha + m * kBeta) + m * kBeta + (hops - 1) * m * kGamma + m * kCopy;
    EXPECT_NEAR(time_of(RecursiveDoubling{n}, uniform(), bytes(1024)).time_us, expected, nearly(expected)) << n;
  }
}

TEST(ClosedForm, Chain) {
  for (const uint32_t n : {2u, 3u, 9u})
    for (const uint32_t rounds : {1u, 2u, 40u}) {
      SimCall call = bytes(uint64_t{4096} * rounds);
      call.slot_bytes = 4096;
      call.depth = 64;
      const SimReport r = time_of(Chain{n, n / 2}, uniform(0, 0), call);
      ASSERT_EQ(r.rounds, rounds);
      const double expected = (n - 1) * (kAlpha + 4096 * kBeta) + (rounds - 1) * 4096 * kBeta;
      EXPECT_NEAR(r.time_us, expected, nearly(expected)) << n << " " << rounds;
    }
}

// The least depth costs a round trip per round: room is known to be free alpha after the pop.
TEST(ClosedForm, ChainOfDepthOne) {
  SimCall call = bytes(4096 * 10);
  call.slot_bytes = 4096;
  call.depth = 1;
  const SimReport r = time_of(Chain{2, 0}, uniform(0, 0), call);
  const double expected = 10 * (kAlpha + 4096 * kBeta) + 9 * kAlpha;
  EXPECT_NEAR(r.time_us, expected, nearly(expected));
}

TEST(ClosedForm, OneShot) {
  for (const uint32_t n : {2u, 3u, 16u}) {
    const double m = 256;
    const SimReport r = time_of(OneShot{n}, uniform(), bytes(256));
    const double expected = kAlpha + (n - 1) * m * kBeta + (n - 1) * m * kGamma;
    EXPECT_NEAR(r.time_us, expected, nearly(expected)) << n;
    EXPECT_EQ(r.messages[0], uint64_t{n} * (n - 1));
  }
}

TEST(ClosedForm, TwoShot) {
  for (const uint32_t n : {2u, 3u, 16u}) {
    const double m = 512;
    const SimReport r = time_of(TwoShot{n}, uniform(kGamma, 0), bytes(512 * n));
    const double expected = 2 * (kAlpha + (n - 1) * m * kBeta) + (n - 1) * m * kGamma;
    EXPECT_NEAR(r.time_us, expected, nearly(expected)) << n;
  }
}

TEST(ClosedForm, LogarithmicHops) {
  NetworkModel net;
  net.alpha_us = {1, 1};
  for (uint32_t n = 2; n <= 70; ++n) {
    EXPECT_EQ(time_of(Dissemination{n}, net, bytes(0)).time_us, ceil_log2(n)) << n;
    EXPECT_EQ(time_of(Binomial{n, n / 3}, net, bytes(64)).time_us, floor_log2(n)) << n;
    EXPECT_LE(time_of(DoubleTree{n}, net, bytes(256)).time_us, 2 * ceil_log2(n)) << n;
  }
}

TEST(ClosedForm, AloneOnlyCopies) {
  EXPECT_NEAR(time_of(Ring{1}, uniform(), bytes(4096)).time_us, 4096 * kCopy, 1e-9);
  EXPECT_EQ(time_of(Dissemination{1}, uniform(), bytes(0)).time_us, 0);
}

// Children of a star that send at the same moment share the root's port.
TEST(Model, IncastIsSerialised) {
  Plan plan;
  plan.info = {"star", Collective::broadcast, 4, 0, {1, 1, 0}, 1};
  plan.ranks.resize(4);
  for (uint32_t r = 1; r < 4; ++r) {
    plan.ranks[0].in.push_back({r, 0, 0});
    plan.ranks[r].out.push_back({0, 0, 0});
    plan.ranks[r].steps = {Step{}.load(Buf::out, 0).push(0)};
    plan.ranks[r].first_dep = {0};
    plan.ranks[r].lanes = {{0, 1}};
  }
  for (uint32_t k = 0; k < 3; ++k) {
    plan.ranks[0].steps.push_back(Step{}.pop(k).store(Buf::out, 0));
    plan.ranks[0].first_dep.push_back(0);
  }
  plan.ranks[0].lanes = {{0, 3}};
  Result<SimReport> r = simulate(PlanSource(plan), uniform(0, 0), bytes(1000 * 4));
  ASSERT_TRUE(r.ok()) << r.error().text;
  EXPECT_NEAR(r->time_us, kAlpha + 3 * 4000 * kBeta, 1e-9);
}

TEST(Model, RoundsFollowOneAnotherThroughTheTree) {
  SimCall call = bytes(8u << 20);
  call.slot_bytes = 64 << 10;
  const double tree = time_of(DoubleTree{64}, uniform(0, 0), call).time_us;
  const double vector = static_cast<double>(call.bytes) * kBeta;
  EXPECT_GT(tree, vector);        // every rank receives that much at least
  EXPECT_LT(tree, 2.5 * vector);  // one after the other would be 12 hops of it
}

TEST(Model, TwoLevelsCountAndCharge) {
  NetworkModel net;
  net.group = 4;
  net.alpha_us = {1, 100};
  net.beta_us_per_byte = {0.001, 0.01};
  // Exchanges at distance 1 and 2 stay on the host, at 4 and 8 they do not.
  const SimReport rd = time_of(RecursiveDoubling{16}, net, bytes(1000 * 4));
  EXPECT_NEAR(rd.time_us, 2 * (1 + 4000 * 0.001) + 2 * (100 + 4000 * 0.01), 1e-9);
  EXPECT_EQ(rd.messages[0], 32u);
  EXPECT_EQ(rd.messages[1], 32u);
  EXPECT_EQ(rd.bytes[1], 32u * 4000);
  // A ring of 16 crosses between hosts 4 times per hop, and every chunk does: the slow hops set the pace.
  const SimReport ring = time_of(Ring{16}, net, bytes(16 * 640));
  EXPECT_EQ(ring.messages[1], 4u * 30);
  const double hop = 100 + 640 * 0.01;
  EXPECT_GT(ring.time_us, 7 * hop);
  EXPECT_LT(ring.time_us, 30 * hop);
  net.group = 16;
  EXPECT_NEAR(time_of(Ring{16}, net, bytes(16 * 640)).time_us, 30 * (1 + 640 * 0.001), 1e-9);
}

TEST(Model, ArraysAndStepsOnDemandTakeTheSameTime) {
  SimCall call;
  call.slot_bytes = 1024;
  NetworkModel net = uniform();
  net.group = 3;
  net.alpha_us[1] = 20;
  net.beta_us_per_byte[1] = 0.01;
  for (const CatalogEntry& e : catalog())
    for (const uint32_t n : {1u, 2u, 7u, 12u}) {
      call.bytes = e.collective == Collective::barrier ? 0 : 84 * 1200;  // divides into blocks for these n
      Result<SimReport> lazy = simulate(*e.source(n, 0), net, call);
      Result<SimReport> arrays = simulate(e.plan(n, 0), net, call);
      ASSERT_TRUE(lazy.ok()) << lazy.error().text;
      ASSERT_TRUE(arrays.ok()) << arrays.error().text;
      EXPECT_EQ(lazy->finish_us, arrays->finish_us) << e.name << " " << n;
    }
}

// Blocks are cut into rounds, and what is sent is what the planner declares.
TEST(Model, BlocksCountAsDeclared) {
  for (const CatalogEntry& e : catalog()) {
    if (layout(e.collective) != Layout::blocks) continue;
    for (const uint32_t n : {1u, 2u, 7u, 12u}) {
      SimCall call = bytes(uint64_t{n} * 1200);
      Cost all;
      for (uint32_t r = 0; r < n; ++r) {
        const Cost c = e.rank_plan(n, 0, r).cost;
        all.messages += c.messages;
        all.blocks += c.blocks;
      }
      for (const uint64_t slot : {0u, 1024u}) {
        call.slot_bytes = slot;
        Result<SimReport> r = simulate(*e.source(n, 0), uniform(), call);
        ASSERT_TRUE(r.ok()) << r.error().text;
        const uint64_t per_message = e.info(n, 0).message_blocks, lines = per_message ? 16 / per_message : 16;
        EXPECT_EQ(r->rounds, slot == 0 ? 1 : (1200 + lines * 64 - 1) / (lines * 64)) << e.name << " " << n;
        EXPECT_EQ(r->messages[0], uint64_t{all.messages} * r->rounds) << e.name << " " << n;
        EXPECT_EQ(r->bytes[0], uint64_t{all.blocks} * 1200) << e.name << " " << n;
      }
    }
  }
}

TEST(ClosedForm, HopsOfLogarithmicPlans) {
  NetworkModel net;
  net.alpha_us = {1, 1};
  for (const uint32_t n : {1u, 2u, 3u, 5u, 8u, 37u, 64u}) {
    const double hops = ceil_log2(n);
    EXPECT_EQ(time_of(AllGatherCirculant{n}, net, bytes(64 * n)).time_us, hops) << n;
    EXPECT_EQ(time_of(ReduceScatterCirculant{n}, net, bytes(64 * n)).time_us, hops) << n;
    EXPECT_EQ(time_of(Circulant{n}, net, bytes(64 * n)).time_us, 2 * hops) << n;
    EXPECT_EQ(time_of(GatherReduce{n}, net, bytes(64)).time_us, hops) << n;
    // Every second column waits, then every far link.
    const double pat4 = hops <= 3 ? hops : (1 << (ceil_log2(n) - 3)) + 2;
    EXPECT_EQ(time_of(AllGatherNhr{n}, net, bytes(64 * n)).time_us, hops) << n;
    EXPECT_EQ(time_of(AllGatherPat4{n}, net, bytes(64 * n)).time_us, pat4) << n;
    EXPECT_EQ(time_of(AllGatherPat1{n}, net, bytes(64 * n)).time_us, n / 2) << n;
    EXPECT_EQ(time_of(ReduceScatterNhr{n}, net, bytes(64 * n)).time_us, hops) << n;
    EXPECT_EQ(time_of(ReduceScatterPat4{n}, net, bytes(64 * n)).time_us, pat4) << n;
    EXPECT_EQ(time_of(ReduceScatterPat1{n}, net, bytes(64 * n)).time_us, n / 2) << n;
    EXPECT_EQ(time_of(Nhr{n}, net, bytes(64 * n)).time_us, 2 * hops) << n;
    const double exchanges = 2 * floor_log2(n) + (std::has_single_bit(n) ? 0 : 2);
    EXPECT_EQ(time_of(HalvingDoubling{n}, net, bytes(64 * n)).time_us, exchanges) << n;
    EXPECT_EQ(time_of(Swing{n}, net, bytes(64 * n)).time_us, exchanges) << n;
    EXPECT_EQ(time_of(AllToAllBruck{n}, net, bytes(64 * n)).time_us, hops) << n;
    EXPECT_LE(time_of(GatherBinomial{n, n / 3}, net, bytes(64 * n)).time_us, hops) << n;
    EXPECT_LE(time_of(ScatterBinomial{n, n / 3}, net, bytes(64 * n)).time_us, hops) << n;
    EXPECT_LE(time_of(ReduceBinomial{n, n / 3}, net, bytes(64)).time_us, hops) << n;
    EXPECT_LE(time_of(ScatterAllGather{n, n / 3}, net, bytes(64 * n)).time_us, 2 * hops) << n;
  }
}

// Every rank's port sends n-1 blocks, one after another, and so does the one that receives them.
TEST(ClosedForm, AllAtOnceIsBoundByThePorts) {
  for (const uint32_t n : {2u, 3u, 8u, 37u}) {
    const double expected = kAlpha + (n - 1) * 640 * kBeta;
    EXPECT_NEAR(time_of(AllGatherDirect{n}, uniform(0, 0), bytes(640 * n)).time_us, expected, nearly(expected)) << n;
    EXPECT_NEAR(time_of(AllToAllDirect{n}, uniform(0, 0), bytes(640 * n)).time_us, expected, nearly(expected)) << n;
    EXPECT_NEAR(time_of(GatherFlat{n, 0}, uniform(0, 0), bytes(640 * n)).time_us, expected, nearly(expected)) << n;
  }
}

// C blocks in C - 1 + log2 n hops: no broadcast of C blocks has fewer.
TEST(ClosedForm, CirculantBroadcastNeverWaits) {
  NetworkModel net;
  net.beta_us_per_byte = {1.0 / 64, 0};
  for (const uint32_t n : {2u, 3u, 5u, 8u, 13u, 37u, 64u, 100u, 200u}) {
    const BroadcastCirculant planner{n, n / 3};
    const uint32_t blocks = planner.chunks(Buf::out);
    EXPECT_EQ(time_of(planner, net, bytes(64 * blocks)).time_us, blocks - 1 + ceil_log2(n)) << n;
  }
}

TEST(Model, ManyRanks) {
  NetworkModel net;
  net.alpha_us = {1, 1};
  EXPECT_EQ(time_of(RecursiveDoubling{4096}, net, bytes(64)).time_us, 12);
  EXPECT_EQ(time_of(Dissemination{20'000}, net, bytes(0)).time_us, 15);
}

// A chain whose ranks wait, by a dependency, for the round before in another lane.
TEST(Model, DependenciesAreWaitedFor) {
  Plan plan;
  plan.info = {"pair", Collective::broadcast, 2, 0, {1, 1, 0}, 1};
  plan.ranks.resize(2);
  RankPlan& a = plan.ranks[0];
  a.out = {{1, 0, 0}};
  a.in = {{1, 1, 0}};
  a.steps = {Step{}.load(Buf::in, 0).store(Buf::out, 0).push(0).after(1), Step{}.pop(0).blocks(0)};
  a.first_dep = {0, 1};
  a.deps = {{1, 1, 0}};  // lane 1, one round ago
  a.lanes = {{0, 1}, {1, 1}};
  a.cost = {1, 1};
  RankPlan& b = plan.ranks[1];
  b.in = {{0, 0, 0}};
  b.out = {{0, 1, 0}};
  b.steps = {Step{}.pop(0).store(Buf::out, 0), Step{}.push(0).blocks(0)};
  b.first_dep = {0, 0};
  b.lanes = {{0, 2}};
  b.cost = {1, 0};
  SimCall call = bytes(5 * 4096);
  call.slot_bytes = 4096;
  Result<SimReport> r = simulate(plan, uniform(0, 0), call);
  ASSERT_TRUE(r.ok()) << r.error().text;
  EXPECT_NEAR(r->time_us, 5 * (2 * kAlpha + 4096 * kBeta), 1e-9);
}

std::string refusal(const StepSource& source, const NetworkModel& net, const SimCall& call) {
  const Result<SimReport> r = simulate(source, net, call);
  return r.ok() ? "accepted" : r.error().text;
}

TEST(Refuses, WhatCannotBeTimed) {
  const PlannerSource<Ring> ring(Ring{4});
  SimCall call = bytes(4 * 640);
  call.depth = 1;  // every rank of the ring must take and give at once
  EXPECT_NE(refusal(ring, uniform(), call).find("rank 0 lane 0 step 1 round 0 waits for room in a link"),
            std::string::npos)
      << refusal(ring, uniform(), call);
  call.depth = 0;
  EXPECT_NE(refusal(ring, uniform(), call).find("depth 0"), std::string::npos);
  EXPECT_NE(refusal(PlannerSource<AllGatherRing>(AllGatherRing{3}), uniform(), bytes(16)).find("not 3 equal blocks"),
            std::string::npos);
  EXPECT_NE(refusal(ring, uniform(), bytes(3)).find("no multiple of the element size 4"), std::string::npos);
  call = bytes(64);
  call.elem_size = 3;
  EXPECT_NE(refusal(ring, uniform(), call).find("element size 3"), std::string::npos);
  NetworkModel net = uniform();
  net.gamma_us_per_byte = -1;
  EXPECT_NE(refusal(ring, net, bytes(64)).find("-1"), std::string::npos);
  net.gamma_us_per_byte = std::nan("");
  EXPECT_NE(refusal(ring, net, bytes(64)).find("nan"), std::string::npos);
  call = bytes(64);
  call.slot_bytes = 63;
  EXPECT_NE(refusal(ring, uniform(), call).find("slots of 63 bytes are too small"), std::string::npos);
  call = bytes(64);
  call.max_steps = 27;
  EXPECT_NE(refusal(ring, uniform(), call).find("28 steps"), std::string::npos) << refusal(ring, uniform(), call);
  EXPECT_NE(refusal(PlannerSource<OneShot>(OneShot{5000}), uniform(), bytes(64)).find("links"), std::string::npos);
}

TEST(Refuses, TablesThatDoNotFit) {
  Plan plan = full_plan(Ring{3});
  plan.ranks[1].out[0].tag = 2;
  EXPECT_NE(refusal(PlanSource(plan), uniform(), bytes(64)).find("not in the tables of both ranks"), std::string::npos);
  plan = full_plan(Ring{3});
  plan.ranks[1].steps[0] = Step{}.load(Buf::in, 0).push(1);
  EXPECT_NE(refusal(PlanSource(plan), uniform(), bytes(64)).find("pushes"), std::string::npos);
}

}  // namespace
}  // namespace hocket
