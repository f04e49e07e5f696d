// validate, lower and the two passes on plans that are right, at the edges of what they take.
#include "schedule/verify.h"

#include <algorithm>

#include "schedule/number_run.h"
#include "schedule/plan_tools.h"

namespace hocket {
namespace {

constexpr Protocol S = Protocol::slot, M = Protocol::mapped, D = Protocol::direct;

std::string text(const Status& s) { return s.ok() ? "" : s.error().text; }
template <class T>
std::string text(const Result<T>& r) {
  return r.ok() ? "" : r.error().text;
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

DataReport report(const Plan& plan) {
  Result<DataReport> r = verify_data(plan);
  EXPECT_EQ(text(r), "") << plan.info.name;
  return r.ok() ? *r : DataReport{};
}

TEST(Validate, takes_every_planner_whole_and_rank_by_rank) {
  for (const CatalogEntry& e : catalog()) {
    for (uint32_t n = 1; n <= 33; ++n) {
      const Plan plan = e.plan(n, e.rooted ? n / 2 : 0);
      EXPECT_EQ(text(validate(plan)), "") << e.name << " " << n;
      for (uint32_t r = 0; r < n; ++r) EXPECT_EQ(text(validate(plan.info, plan.ranks[r], r)), "") << e.name << " " << n;
    }
  }
}

TEST(Validate, refuses_plans_that_do_not_hold_together) {
  const Plan good = planned("ring", 3);
  auto refused = [&](auto change, const char* why) {
    Plan p = good;
    change(p);
    EXPECT_TRUE(contains(text(validate(p)), why)) << text(validate(p));
  };
  refused([](Plan& p) { p.ranks.pop_back(); }, "for 3 ranks but holds the steps of 2");
  refused([](Plan& p) { p.ranks.clear(), p.info.nranks = 0; }, "0 ranks");
  refused([](Plan& p) { p.info.root = 1; }, "root 1");
  refused([](Plan& p) { p.info.collective = static_cast<Collective>(9); }, "unknown collective");
  refused([](Plan& p) { p.info.chunks = {3, 2, 0}; }, "the same number");
  refused([](Plan& p) { p.info.chunks = {0, 0, 0}; }, "at least 1");
  refused([](Plan& p) { p.info.chunks[2] = 4; }, "multiple");
  refused([](Plan& p) { p.info.chunks[2] = 6; }, "name none above 0");
  refused([](Plan& p) { p.info.chunks = {0xffffffff, 0xffffffff, 0xffffffff}; }, "name none above 0");
  refused([](Plan& p) { p.ranks[1].lanes[0].first = 1; }, "starts at step 1");
  refused([](Plan& p) { p.ranks[1].lanes[0].count = 4; }, "4 in its lanes");
  refused([](Plan& p) { p.ranks[1].first_dep.pop_back(); }, "with dependencies");
  refused([](Plan& p) { p.ranks[1].first_dep[2] = 1; }, "dependencies of step 2");
  refused([](Plan& p) { p.ranks[1].deps.resize(1); }, "1 dependencies");
  refused([](Plan& p) { p.ranks[0].out[0].rank = 3; }, "no such rank");
  refused([](Plan& p) { p.ranks[0].out[0].tag = kMaxTags; }, "no such tag");
  refused([](Plan& p) { p.ranks[0].in[0].spare = 1; }, "spare");
  refused([](Plan& p) { p.ranks[0].in.push_back({1, 2, 0}); }, "not in that rank's out table");
  refused([](Plan& p) { p.ranks[0].out.push_back({1, 2, 0}), p.ranks[1].in.push_back({0, 2, 0}); }, "used by no step");
  EXPECT_TRUE(contains(text(validate(good.info, good.ranks[0], 3)), "rank 3 of a plan for 3 ranks"));
}

TEST(Validate, refuses_blocks_that_are_not_those_of_the_collective) {
  auto refused = [](Plan p, auto change, const char* why) {
    change(p);
    EXPECT_TRUE(contains(text(validate(p)), why)) << text(validate(p));
  };
  const Plan gather = planned(Collective::all_gather, "circulant", 3);
  refused(gather, [](Plan& p) { p.info.chunks = {3, 3, 0}; }, "all_gather of 3 ranks has 1 and 3");
  refused(gather, [](Plan& p) { p.info.chunks = {1, 1, 0}; }, "all_gather of 3 ranks has 1 and 3");
  refused(gather, [](Plan& p) { p.info.chunks[2] = 1; }, "no multiple of the 3 size classes");
  refused(gather, [](Plan& p) { p.info.root = 1; }, "root 1");
  refused(
      planned(Collective::reduce_scatter, "ring", 3), [](Plan& p) { p.info.chunks = {1, 3, 0}; },
      "reduce_scatter of 3 ranks has 3 and 1");
  refused(planned(Collective::all_to_all, "bruck", 4), [](Plan& p) { p.info.chunks[2] = 4; }, "name none above 3");
  refused(planned(Collective::reduce, "flat", 3, 1), [](Plan& p) { p.info.root = 3; }, "root 3 of 3 ranks");
}

TEST(VerifyData, says_when_a_plan_is_too_large_for_it) {
  Plan p = planned("ring", 3);
  p.info.chunks = {0xffffffff, 0xffffffff, 0};
  EXPECT_TRUE(contains(text(verify_data(p)), "too large to verify"));
  EXPECT_TRUE(contains(text(verify_races(p, slots(2, 1), Placement::in_place)), "too large to verify"));
}

TEST(VerifyData, proves_the_determinism_classes) {
  for (uint32_t n : {3u, 4u, 7u, 12u}) {
    for (const char* name : {"one_shot", "two_shot", "recursive_doubling"}) {
      const DataReport r = report(planned(name, n));
      EXPECT_TRUE(r.rank_identical && r.chunk_identical && r.order_is_rank) << name << " " << n;
      EXPECT_EQ(r.canonical, std::string(name) != "recursive_doubling") << name << " " << n;
    }
    for (const char* name : {"ring", "double_tree"}) {
      const DataReport r = report(planned(name, n));
      EXPECT_TRUE(r.rank_identical && !r.chunk_identical && !r.order_is_rank && !r.canonical) << name << " " << n;
    }
  }
}

// A reduction to a root keeps the order of ranks where the ranks counted from the root do.
TEST(VerifyData, knows_for_which_root_the_order_is_that_of_the_ranks) {
  for (uint32_t n : {2u, 3u, 5u, 8u})
    for (uint32_t root = 0; root < n; ++root) {
      const auto in_order = [&](const char* name) {
        return report(planned(Collective::reduce, name, n, root)).order_is_rank;
      };
      EXPECT_TRUE(in_order("flat"));
      EXPECT_EQ(in_order("binomial"), root == 0) << n << " " << root;
      EXPECT_EQ(in_order("chain"), root == n - 1) << n << " " << root;
    }
}

// Which planners may take each other's place without a bit of the result changing.
TEST(VerifyData, tells_which_plans_agree_bit_by_bit) {
  for (uint32_t n = 2; n <= 9; ++n) {
    const uint64_t one = report(planned("one_shot", n)).expression;
    EXPECT_EQ(one, report(planned("two_shot", n)).expression) << n;
    EXPECT_EQ(one == report(planned("recursive_doubling", n)).expression, n == 2) << n;  // more than one rounding
  }
  EXPECT_EQ(report(planned("one_shot", 2)).expression, report(planned("ring", 2)).expression);
  // Across collectives too: what a reduce and a reduce-scatter in the order of ranks compute is what one_shot computes.
  for (uint32_t n = 2; n <= 9; ++n) {
    const uint64_t one = report(planned("one_shot", n)).expression;
    EXPECT_EQ(one, report(planned(Collective::reduce, "flat", n, n / 2)).expression);
    EXPECT_EQ(one, report(planned(Collective::reduce_scatter, "direct", n)).expression);
  }
}

TEST(VerifyData, refuses_what_a_caller_demands_and_a_plan_lacks) {
  EXPECT_EQ(text(verify_data(planned("ring", 4), DataDemands{true, false})), "");
  EXPECT_TRUE(
      contains(text(verify_data(planned("ring", 4), DataDemands{true, true})), "not folded in the order of ranks"));
  EXPECT_EQ(text(verify_data(planned("one_shot", 4), DataDemands{true, true})), "");
}

TEST(VerifyData, runs_plans_with_lanes_scratch_and_strides) {
  for (const Plan& plan : {staged_broadcast(), two_ahead(), two_shot_with_copy(), strided()}) {
    EXPECT_TRUE(report(plan).rank_identical);
    EXPECT_EQ(run_with_numbers(plan), "");
    for (Placement p : kPlacements) EXPECT_EQ(text(verify_races(plan, slots(8, 4), p)), "");
  }
}

TEST(VerifyRaces, takes_as_many_rounds_as_asked_for) {
  Plan plan = staged_broadcast();
  for (uint32_t rounds : {1u, 2u, 7u})
    EXPECT_EQ(text(verify_races(plan, slots(2, 1), Placement::in_place, {rounds})), "");
  plan.ranks[1].deps[0].lag = 2;  // shows between rounds only
  EXPECT_EQ(text(verify_races(plan, slots(2, 1), Placement::in_place, {1})), "");
  EXPECT_NE(text(verify_races(plan, slots(2, 1), Placement::in_place, {2})), "");
  EXPECT_NE(text(verify_races(plan, slots(2, 1), Placement::in_place)), "");
}

// A lane that waits for a later step of another lane in the round before last: order must come from exactly that step.
TEST(VerifyRaces, follows_dependencies_over_rounds) {
  const Program root{{}, {{1, 0, 0}}, {{Step{}.load(Buf::in, 0).store(Buf::out, 0).push(0)}}};
  const Line receive{Step{}.pop(0).store(Buf::scratch, 0), {{1, 1, 1}}};
  const Line move{Step{}.load(Buf::scratch, 0).store(Buf::scratch, 1), {{0, 0, 0}}};
  const Plan plan =
      by_hand(Collective::broadcast, 1, 2,
              {root, {{{0, 0, 0}}, {}, {{receive}, {move, Step{}.load(Buf::scratch, 1).store(Buf::out, 0)}}}});
  EXPECT_EQ(text(verify_races(plan, slots(2, 1), Placement::out_of_place)), "");
  EXPECT_EQ(run_with_numbers(plan), "");
}

TEST(Lower, knows_which_protocols_a_plan_can_use) {
  struct Case {
    const char* name;
    std::array<Protocol, kMaxTags> protocol;
    const char* error;  // null: legal
  };
  const Case cases[] = {{"ring", {S, D, S, S}, nullptr},
                        {"ring", {S, M, S, S}, nullptr},
                        {"ring", {M, S, S, S}, "pushes a fold that it stores nowhere"},
                        {"ring", {D, S, S, S}, "folds what it pops"},
                        {"one_shot", {M, S, S, S}, nullptr},
                        {"one_shot", {D, S, S, S}, "folds what it pops"},
                        {"two_shot", {M, D, S, S}, nullptr},
                        {"two_shot", {M, M, S, S}, nullptr},
                        {"recursive_doubling", {S, M, S, S}, nullptr},  // the race pass refuses it
                        {"recursive_doubling", {S, D, S, S}, "folds what it pops"},
                        {"double_tree", {S, D, S, D}, nullptr},
                        {"double_tree", {S, D, M, D}, "tag 2"},
                        {"binomial", {D, S, S, S}, nullptr},
                        {"chain", {M, S, S, S}, nullptr},
                        {"dissemination", {D, S, S, S}, nullptr},  // empty messages go any way
                        {"dissemination", {M, S, S, S}, nullptr}};
  for (const Case& c : cases) {
    const std::string got = text(lower(planned(c.name, 6), {c.protocol, 8, 4}));
    if (c.error)
      EXPECT_TRUE(contains(got, c.error)) << c.name << ": " << got;
    else
      EXPECT_EQ(got, "") << c.name;
  }
}

TEST(Lower, drains_mapped_links_and_asks_for_an_identity_where_pre_would_be_lost) {
  Result<Lowering> l = lower(planned("two_shot", 4), {{M, D, S, S}, 8, 4});
  ASSERT_TRUE(l.ok());
  EXPECT_TRUE(l->drain);
  EXPECT_TRUE(l->identity_pre);
  Lowering without = *l;
  without.identity_pre = false;
  EXPECT_TRUE(contains(text(verify_races(planned("two_shot", 4), without, Placement::out_of_place)), "pre"));

  l = lower(planned("binomial", 4), {{M, S, S, S}, 8, 4});
  ASSERT_TRUE(l.ok());
  EXPECT_TRUE(l->drain);
  EXPECT_FALSE(l->identity_pre);
  l = lower(planned("ring", 4), {{S, D, S, S}, 8, 4});
  ASSERT_TRUE(l.ok());
  EXPECT_FALSE(l->drain);
  // Tags that no link has stay slots: of one rank there is nothing to choose.
  l = lower(planned("ring", 1), {{M, M, M, M}, 8, 4});
  ASSERT_TRUE(l.ok());
  EXPECT_FALSE(l->drain);
  EXPECT_EQ(l->protocol[0], S);
}

TEST(Lower, refuses_depths_that_cannot_be) {
  const Plan plan = planned("ring", 3);
  for (const LowerOptions& o :
       {LowerOptions{{}, 0, 1}, LowerOptions{{}, 4, 0}, LowerOptions{{}, 4, 5}, LowerOptions{{}, kMaxDepth + 1, 1},
        LowerOptions{{static_cast<Protocol>(3), S, S, S}, 4, 1}})
    EXPECT_NE(text(lower(plan, o)), "");
  EXPECT_EQ(text(lower(plan, {{}, kMaxDepth, kMaxDepth})), "");
}

// A drain is needed exactly where no later message proves that the peer has read.
TEST(Lower, a_drain_can_be_proven_needless) {
  auto races = [](const char* name, std::array<Protocol, kMaxTags> protocol, Placement p) {
    const Plan plan = planned(name, 5);
    Result<Lowering> l = lower(plan, {protocol, 8, 4});
    EXPECT_EQ(text(l), "");
    l->drain = false;
    return text(verify_races(plan, *l, p));
  };
  for (Placement p : kPlacements) {
    EXPECT_EQ(races("two_shot", {M, D, S, S}, p), "");
    EXPECT_EQ(races("two_shot", {M, S, S, S}, p), "");
    EXPECT_TRUE(contains(races("two_shot", {S, M, S, S}, p), "may have returned"));
    EXPECT_TRUE(contains(races("chain", {M, S, S, S}, p), "may have returned"));
  }
}

TEST(RoundElems, makes_messages_fit_into_slots) {
  for (const CatalogEntry& e : catalog()) {
    for (uint32_t n : {1u, 2u, 3u, 8u, 61u}) {
      const PlanInfo info = e.info(n, 0);
      for (uint32_t elem_size : {1u, 2u, 8u, 16u}) {
        for (uint64_t slot : {64ull, 100ull, 4096ull, 1ull << 20}) {
          const uint64_t elems = round_elems(info, elem_size, slot);
          ASSERT_EQ(elems > 0, slot >= uint64_t{info.message_blocks} * kChunkAlign) << e.name << " " << n;
          if (elems == 0) continue;
          EXPECT_EQ(elems * elem_size % kChunkAlign, 0u);
          const bool blocks = layout(info.collective) == Layout::blocks;
          EXPECT_GE(elems * elem_size, uint64_t{blocks ? 1 : info.chunks[1]} * kChunkAlign);
          for (uint64_t total : {elems - 1, elems, 3 * elems + 5}) {
            const Shape shape = blocks ? Shape(BlockLayout{info.collective, n, 0, elem_size, total, elems})
                                       : Shape(total, elem_size, info.chunks[1], elems);
            EXPECT_LE(shape.scratch_stride() * info.message_blocks, slot) << e.name << " " << n;
            for (uint32_t round = 0; round < shape.rounds(); ++round)
              for (uint32_t c = 0; c < info.chunks[1]; ++c)
                ASSERT_LE(shape.span(Buf::out, c, round).bytes * info.message_blocks, slot);
          }
        }
      }
    }
  }
  PlanInfo wide;
  wide.chunks = {8, 8, 0};
  wide.message_blocks = 4;
  EXPECT_EQ(round_elems(wide, 4, 4 * kChunkAlign - 1), 0u);
  EXPECT_EQ(round_elems(wide, 4, 4 * kChunkAlign), 8 * kChunkAlign / 4);
}

}  // namespace
}  // namespace hocket
