// The model behind the selection: what follows from what, not how long anything takes.
#include "select/predict.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "select/explain.h"
#include "select/fit.h"
#include "select/forecast.h"
#include "select/select.h"

namespace hocket::select {
namespace {

Facts machine(uint32_t nranks, uint32_t cpus) {
  Facts f;
  f.nranks = nranks;
  f.cpus = cpus;
  f.oversubscribed = nranks > cpus;
  f.slot_bytes = 128 * 1024;
  f.cache_bytes = 32 << 20;
  return f;
}

std::string best(Collective collective, const Facts& facts, const Costs& costs, uint64_t bytes) {
  return Forecast(collective, facts, costs).ranking(bytes).front().planner->name;
}

uint64_t ps_of(const char* planner, const Facts& facts, const Costs& costs, uint64_t bytes) {
  return Predictor::make(*find_planner(Collective::all_reduce, planner), facts, costs)->ps(bytes);
}

TEST(Predict, AnExchangeCostsWhatTheModelSays) {
  Costs c;
  const Facts two = machine(2, 2);
  // No bytes: both push, see it a line later, and pop: two steps (push; pop and store) of a message each.
  const uint64_t call = ps_of("one_shot", two, c, 0);
  EXPECT_GE(call, 2 * (c.step + c.message));
  EXPECT_LE(call, 2 * (c.step + c.message) + c.cross + c.line);
  // Each of two hops has to be waited for.
  EXPECT_GT(ps_of("two_shot", two, c, 64), ps_of("one_shot", two, c, 64) + c.line / 2);
}

TEST(Predict, OnlyRatiosMatter) {
  for (const uint32_t n : {2u, 5u, 8u}) {
    Costs doubled;
    for (const CostField& f : kCostFields) doubled.*f.field *= 2;
    doubled.cache_kib = Costs{}.cache_kib;
    doubled.outer_kib = Costs{}.outer_kib;
    for (const CatalogEntry& e : catalog()) {
      const Result<Predictor> once = Predictor::make(e, machine(n, 2), Costs{});
      const Result<Predictor> twice = Predictor::make(e, machine(n, 2), doubled);
      ASSERT_TRUE(once.ok() && twice.ok());
      for (const uint64_t bytes : {64u, 8192u, 1u << 20}) {
        const auto a = static_cast<double>(once.value().ps(bytes)), b = static_cast<double>(twice.value().ps(bytes));
        EXPECT_NEAR(b / a, 2, 0.01) << e.name << " of " << n << " ranks, " << bytes << " bytes";
      }
    }
  }
}

TEST(Predict, EveryPlanEnds) {
  for (const uint32_t n : {2u, 3u, 7u, 16u}) {
    for (const uint32_t cpus : {1u, 2u, 16u}) {
      for (const uint32_t hosts : {1u, n}) {
        Facts f = machine(n, cpus);
        f.hosts = hosts;
        for (const CatalogEntry& e : catalog()) {
          for (const Way way : {Way::copying, Way::reading}) {
            const Result<Predictor> p = Predictor::make(e, f, Costs{}, way);
            ASSERT_TRUE(p.ok()) << p.error().text;
            for (const uint64_t bytes : {0u, 4096u, 4u << 20}) {
              EXPECT_NE(p.value().ps(bytes), Predictor::kNever) << e.name;
              EXPECT_GT(p.value().ps(bytes), 0u) << e.name;
            }
          }
        }
      }
    }
  }
}

TEST(Forecast, MoreBytesNeverTakeLess) {
  for (const uint32_t n : {2u, 4u, 8u}) {
    for (uint32_t c = 0; c < kCollectives; ++c) {
      const Forecast forecast(static_cast<Collective>(c), machine(n, 2), Costs{});
      std::map<std::string, uint64_t> before;
      for (uint32_t b = 0; b < kBuckets; ++b) {
        const std::vector<Ranked> ranking = forecast.ranking(bucket_bytes(b));
        for (size_t i = 0; i < ranking.size(); ++i) {
          if (i > 0) {
            EXPECT_LE(ranking[i - 1].ps, ranking[i].ps);
          }
          EXPECT_GE(ranking[i].ps, before[ranking[i].planner->name]) << ranking[i].planner->name << " bucket " << b;
          before[ranking[i].planner->name] = ranking[i].ps;
        }
      }
    }
  }
}

TEST(Forecast, KnowsWhatItShould) {
  const Costs c;
  // One hop where only hops count.
  for (const Facts& f : {machine(4, 2), machine(8, 2)}) EXPECT_EQ(best(Collective::all_reduce, f, c, 64), "one_shot");
  // Where bytes count nobody sends his whole input to everybody.
  for (const Facts& f : {machine(4, 4), machine(8, 8), machine(8, 2)})
    EXPECT_GT(2 * ps_of("one_shot", f, c, 4 << 20), 3 * ps_of("two_shot", f, c, 4 << 20));
  // Few sends for a root that has to pay for each; a long pipeline for much data.
  Facts tcp = machine(8, 8);
  tcp.hosts = 8;
  EXPECT_EQ(best(Collective::broadcast, machine(8, 8), c, 16 << 20), "chain");
  // Turns that cost a lot: few hops, and few bytes if it must be.
  Costs slow = c;
  slow.turn *= 100;
  EXPECT_EQ(best(Collective::all_reduce, machine(8, 2), slow, 4096), "one_shot");
  // Messages that cost a lot: as few as there can be.
  Costs dear = c;
  dear.socket *= 100;
  EXPECT_EQ(best(Collective::all_reduce, tcp, dear, 64), "recursive_doubling");
}

// What a read message costs decides whether any is, and where nobody may read nothing is.
TEST(Forecast, ReadsWhereThatCostsLess) {
  Costs cheap, dear;
  cheap.fetch = cheap.fetch_kib = 1000;
  dear.fetch_kib = 100 * dear.fetch_kib;
  for (const uint32_t n : {2u, 4u}) {
    Facts f = machine(n, n);  // a CPU each
    for (const bool readable : {false, true}) {
      f.readable = readable;
      for (const Collective of : {Collective::broadcast, Collective::all_gather, Collective::all_to_all}) {
        for (const Costs& costs : {cheap, dear}) {
          for (const char* algo : {"", "direct,binomial"}) {
            auto table = build(f, costs, algo);
            ASSERT_TRUE(table.ok()) << table.error().text;
            EXPECT_EQ(lookup(*table, of, 4 << 20).read, readable && costs == cheap) << collective_name(of) << algo;
            EXPECT_FALSE(lookup(*table, of, 4096).read) << "messages too small for it";
          }
        }
      }
    }
  }
}

TEST(Forecast, IsThereForOneMachine) {
  EXPECT_TRUE(has_forecast(machine(2, 2)));
  EXPECT_FALSE(has_forecast(machine(1, 2)));
  EXPECT_FALSE(has_forecast(machine(64, 64)));
  Facts apart = machine(4, 2);
  apart.machines = 2;
  EXPECT_FALSE(has_forecast(apart));
}

TEST(Explain, NoPlanUndercutsTheLowerBound) {
  for (const uint32_t cpus : {1u, 2u, 8u}) {
    for (const uint32_t n : {2u, 3u, 8u}) {
      for (const uint32_t hosts : {1u, n}) {
        Facts f = machine(n, cpus);
        f.hosts = hosts;
        for (uint32_t c = 0; c < kCollectives; ++c) {
          const auto of = static_cast<Collective>(c);
          const Forecast forecast(of, f, Costs{});
          for (const uint64_t bytes : {64u, 16u << 10, 1u << 20, 64u << 20})
            EXPECT_LE(lower_bound(of, f, Costs{}, bytes), forecast.ranking(bytes).front().ps)
                << collective_name(of) << " " << bytes << " bytes, " << n << " ranks, " << cpus << " CPUs, " << hosts
                << " hosts";
        }
      }
    }
  }
}

TEST(Explain, SaysWhatIsChosenAndWhatElseThereIs) {
  Grounds g{machine(8, 2), Costs{}, "", HKT_DETERMINISM_R1};
  const Result<Explanation> free = explain(g, Collective::all_reduce, 1 << 20);
  ASSERT_TRUE(free.ok());
  EXPECT_EQ(free.value().chosen, free.value().ranking.front().planner);
  EXPECT_FALSE(free.value().forced);
  EXPECT_GE(free.value().ranking.size(), 10u) << "every planner of all-reduce";
  EXPECT_EQ(sentence(free.value()).rfind(free.value().chosen->name, 0), 0u);
  EXPECT_NE(sentence(free.value()).find("lower bound"), std::string::npos);
  g.algo = "one_shot,chain";
  const Result<Explanation> forced = explain(g, Collective::all_reduce, 1 << 20);
  ASSERT_TRUE(forced.ok());
  EXPECT_STREQ(forced.value().chosen->name, "one_shot");
  EXPECT_TRUE(forced.value().forced);
  EXPECT_FALSE(explain(g, Collective::all_gather, 1 << 20).value().forced) << "has no planner of these names";
  g.algo = "";
  g.determinism = HKT_DETERMINISM_R3;
  const Result<Explanation> canonical = explain(g, Collective::all_reduce, 1 << 20);
  for (const Ranked& r : canonical.value().ranking) EXPECT_TRUE(r.planner->folds_canonically);
  g.facts.machines = 2;
  EXPECT_NE(sentence(explain(g, Collective::all_reduce, 1 << 20).value()).find("by rule"), std::string::npos);
  g.algo = "rin";
  EXPECT_FALSE(explain(g, Collective::all_reduce, 1 << 20).ok());
}

TEST(Fit, FindsCostsThatExplainWhatWasMeasured) {
  // What a machine with other costs would measure.
  Costs truth;
  truth.step *= 3;
  truth.turn /= 4;
  truth.push *= 2;
  std::vector<Timing> timings;
  for (const Collective of : {Collective::all_reduce, Collective::all_gather})
    for (const uint32_t n : {2u, 8u})
      for (const uint64_t bytes : {64u, 4096u, 262'144u})
        for (const CatalogEntry& e : catalog()) {
          if (e.collective != of) continue;
          const uint64_t ps = Predictor::make(e, machine(n, 2), truth)->ps(bytes);
          timings.push_back({&e, machine(n, 2), bytes, static_cast<double>(ps) / 1e6});
        }
  EXPECT_LT(misfit(timings, truth), 0.001);
  const double before = misfit(timings, Costs{});
  const Costs found = fit(timings, Costs{}, 300, {});
  EXPECT_LT(misfit(timings, found), before / 3);
  EXPECT_EQ(found, fit(timings, Costs{}, 300, {})) << "the same search every time";
}

TEST(Select, EveryRankChoosesTheSame) {
  for (const uint32_t n : {2u, 4u, 8u}) {
    Table one = std::move(build(machine(n, 2), Costs{}, "").value());
    Table other = std::move(build(machine(n, 2), Costs{}, "").value());
    for (int c = kCollectives - 1; c >= 0; --c) (void)other.row(static_cast<Collective>(c));  // in another order
    for (uint32_t c = 0; c < kCollectives; ++c)
      for (uint32_t b = 0; b < kBuckets; ++b) {
        const auto of = static_cast<Collective>(c);
        EXPECT_EQ(one.row(of)[b].planner, other.row(of)[b].planner);
        EXPECT_EQ(one.row(of)[b].in_rank_order, other.row(of)[b].in_rank_order);
      }
  }
}

TEST(Select, BetweenEqualsTheRuleDecides) {
  const Facts f = machine(2, 2);
  EXPECT_EQ(ps_of("one_shot", f, Costs{}, 64), ps_of("recursive_doubling", f, Costs{}, 64));
  EXPECT_STREQ(lookup(*build(f, Costs{}, ""), Collective::all_reduce, 64).planner->name, "one_shot");
}

TEST(Select, CostsDecide) {
  Costs dear;
  dear.turn *= 100;
  const Facts f = machine(8, 2);
  const auto chosen = [&](const Costs& c) {
    return std::string(lookup(*build(f, c, ""), Collective::all_reduce, 4096).planner->name);
  };
  EXPECT_NE(chosen(Costs{}), chosen(dear));
}

}  // namespace
}  // namespace hocket::select
