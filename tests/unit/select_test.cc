// The table of choices: every one can be run, and operations that are not commutative have theirs.
#include "select/select.h"

#include <gtest/gtest.h>

#include "schedule/collective.h"
#include "schedule/shape.h"

namespace hocket::select {
namespace {

Facts facts(uint32_t nranks, uint32_t hosts, uint32_t slot_bytes) {
  Facts f;
  f.nranks = nranks;
  f.hosts = hosts;
  f.machines = hosts;
  f.oversubscribed = nranks % 2 == 0;
  f.cpus = f.oversubscribed ? (nranks + 1) / 2 : nranks;
  f.slot_bytes = slot_bytes;
  f.cache_bytes = 1 << 20;
  return f;
}

TEST(Select, EveryChoiceCanBeRun) {
  for (const uint32_t n : {1u, 2u, 3u, 5u, 8u, 16u, 17u, 64u, 100u, 1000u, 65'536u}) {
    for (const uint32_t hosts : {1u, 2u, n}) {
      if (hosts > n) continue;
      for (const uint32_t slot_bytes : {256u, 4096u, 128u * 1024}) {
        Result<select::Table> table = build(facts(n, hosts, slot_bytes), Costs{}, "");
        ASSERT_TRUE(table.ok()) << table.error().text;
        for (uint32_t c = 0; c < kCollectives; ++c) {
          for (uint32_t b = 0; b < kBuckets; ++b) {
            const CatalogEntry& planner = *table->row(static_cast<Collective>(c))[b].planner;
            const PlanInfo info = planner.info(n, 0);
            EXPECT_EQ(static_cast<uint32_t>(planner.collective), c);
            EXPECT_LE(n, planner.max_ranks) << planner.name;
            EXPECT_LE(info.message_blocks, slot_bytes / kChunkAlign)
                << collective_name(planner.collective) << " " << planner.name << " of " << n << " ranks";
          }
        }
      }
    }
  }
}

TEST(Select, SmallBlocksTakeFewHopsWhereSlotsHaveRoom) {
  const auto planner = [](uint32_t slot_bytes) {
    return std::string(
        lookup(*build(facts(64, 64, slot_bytes), Costs{}, ""), Collective::all_to_all, 4096).planner->name);
  };
  EXPECT_EQ(planner(128 * 1024), "bruck");
  EXPECT_EQ(planner(256), "pairwise");
}

TEST(Select, WhatIsNotCommutativeIsFoldedInTheOrderOfRanks) {
  for (const uint32_t n : {1u, 2u, 5u, 16u, 17u, 100u}) {
    for (const uint32_t hosts : {1u, n}) {
      Result<select::Table> table = build(facts(n, hosts, 4096), Costs{}, "");
      ASSERT_TRUE(table.ok()) << table.error().text;
      for (uint32_t c = 0; c < kCollectives; ++c) {
        for (const Choice& choice : table->row(static_cast<Collective>(c))) {
          ASSERT_EQ(choice.in_rank_order != nullptr, reduces(static_cast<Collective>(c)));
          if (choice.in_rank_order == nullptr) continue;
          EXPECT_TRUE(choice.in_rank_order->folds_in_rank_order) << choice.in_rank_order->name;
          EXPECT_EQ(static_cast<uint32_t>(choice.in_rank_order->collective), c);
          if (choice.planner->folds_in_rank_order) {
            EXPECT_EQ(choice.in_rank_order, choice.planner);
          }
        }
      }
    }
  }
}

TEST(Select, ClassesThatNeedTheCanonicalFoldGetIt) {
  for (const hktDeterminism_t determinism : {HKT_DETERMINISM_R2, HKT_DETERMINISM_R3}) {
    for (const uint32_t n : {1u, 2u, 3u, 5u, 16u, 17u, 100u, 32'768u}) {
      for (const uint32_t hosts : {1u, n}) {
        Result<select::Table> table = build(facts(n, hosts, 4096), Costs{}, "", determinism);
        ASSERT_TRUE(table.ok()) << table.error().text;
        for (uint32_t c = 0; c < kCollectives; ++c) {
          for (const Choice& choice : table->row(static_cast<Collective>(c))) {
            if (!reduces(static_cast<Collective>(c))) continue;
            EXPECT_TRUE(choice.planner->folds_canonically) << choice.planner->name;
            EXPECT_EQ(choice.in_rank_order, choice.planner);
            EXPECT_LE(n, choice.planner->max_ranks);
          }
        }
      }
    }
  }
  // Over a network, few messages for small vectors, as long as slots have a line for each of the vectors in them.
  const auto small = [](uint32_t n, uint32_t hosts, uint32_t slot) {
    return std::string(
        lookup(*build(facts(n, hosts, slot), Costs{}, "", HKT_DETERMINISM_R3), Collective::all_reduce, 4096)
            .planner->name);
  };
  EXPECT_EQ(small(6, 6, 4096), "one_shot");
  EXPECT_EQ(small(7, 7, 4096), "gather_reduce");
  EXPECT_EQ(small(7, 1, 4096), "two_shot");
  EXPECT_EQ(small(128, 128, 4096), "gather_reduce");
  EXPECT_EQ(small(256, 256, 4096), "one_shot");
  // The class before and the one of integers are left as they are.
  for (const hktDeterminism_t determinism : {HKT_DETERMINISM_R1, HKT_DETERMINISM_R4})
    EXPECT_STREQ(
        lookup(*build(facts(8, 8, 4096), Costs{}, "", determinism), Collective::all_reduce, 64 << 20).planner->name,
        "ring");
}

TEST(Select, APlannerWithoutTheClassIsRefused) {
  Result<select::Table> ring = build(facts(4, 1, 4096), Costs{}, "ring", HKT_DETERMINISM_R2);
  ASSERT_FALSE(ring.ok());
  EXPECT_EQ(ring.error().text,
            "HOCKET_ALGO: the bits of all_reduce by ring depend on size and placement, which determinism R2 does not "
            "allow; these have the class: one_shot, gather_reduce, two_shot");
  // One that folds in the order of ranks, but rounds on the way.
  EXPECT_FALSE(build(facts(4, 1, 4096), Costs{}, "recursive_doubling", HKT_DETERMINISM_R3).ok());
  EXPECT_TRUE(build(facts(4, 1, 4096), Costs{}, "two_shot,flat,dissemination", HKT_DETERMINISM_R3).ok());
  EXPECT_TRUE(build(facts(4, 1, 4096), Costs{}, "ring", HKT_DETERMINISM_R4).ok());
}

TEST(Select, APlannerThatIsAskedForIsNotReplaced) {
  const auto choice = [](const char* algo, Collective collective) {
    Result<select::Table> table = build(facts(4, 1, 4096), Costs{}, algo);
    EXPECT_TRUE(table.ok()) << table.error().text;
    return lookup(*table, collective, 1 << 20);
  };
  EXPECT_STREQ(choice("ring", Collective::all_reduce).planner->name, "ring");
  EXPECT_EQ(choice("ring", Collective::all_reduce).in_rank_order, nullptr);
  EXPECT_EQ(choice("ring", Collective::reduce_scatter).in_rank_order, nullptr);
  EXPECT_STREQ(choice("ring", Collective::reduce).in_rank_order->name, "flat") << "has no ring";
  EXPECT_STREQ(choice("one_shot", Collective::all_reduce).in_rank_order->name, "one_shot");
  Result<select::Table> unknown = build(facts(4, 1, 4096), Costs{}, "rin");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().text.find("'rin'"), std::string::npos);
}

}  // namespace
}  // namespace hocket::select
