// Every planner on real numbers, checked against references that add up or copy in a loop: blocks of all sizes, several
// rounds, in and out of place. Independent of verify and of the engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/catalog.h"
#include "algorithms/double_tree.h"
#include "algorithms/math.h"
#include "schedule/executor.h"

namespace hocket {
namespace {

Value add(Value a, Value b) { return a + b; }
// Neither commutative nor associative: tells every order and every bracketing apart.
Value ordered(Value a, Value b) { return (a * 0x9e3779b97f4a7c15u) ^ (b + (a >> 29) + 0x632be59bd9b4e019u); }

// Vectors: three rounds, the last one with chunks of 1 line, less than a line and nothing; one round with most chunks
// empty; nothing at all. Blocks: several rounds; a table with blocks of no elements, of less than a round, of several,
// and gaps in between; nothing at all.
std::vector<Sizes> sizes(const PlanInfo& info) {
  if (layout(info.collective) == Layout::round_major) {
    const uint64_t round = uint64_t{info.chunks[1]} * kLine;
    return {{2 * round + kLine + 3, round}, {3, round}, {0, round}};
  }
  std::vector<Sizes> list = {{2 * kLine + 3, kLine}, {0, kLine}};
  if (info.collective == Collective::all_to_all) return list;
  Sizes table{2 * kLine + 2, kLine};
  uint64_t end = 0;
  for (uint32_t c = 0; c < info.nranks; ++c) {
    constexpr uint64_t kCounts[] = {5, 0, 2 * kLine + 2, 1, kLine};
    table.counts.push_back(c == info.nranks / 2 ? table.elems : kCounts[c % 5]);
    table.displs.push_back(end + c % 3);
    end = table.displs.back() + table.counts.back();
  }
  list.push_back(table);
  return list;
}

std::vector<Value> operands(uint32_t n, uint64_t i) {
  std::vector<Value> x;
  for (uint32_t r = 0; r < n; ++r) x.push_back(pre(input(r, i)));
  return x;
}

Value fold_in_rank_order(uint32_t n, uint64_t i, Fold fold) {
  const std::vector<Value> x = operands(n, i);
  Value v = x[0];
  for (uint32_t r = 1; r < n; ++r) v = fold(v, x[r]);
  return post(v);
}

// What out of a rank holds in the end; garbage where nothing is to be stored, or where the rank has no out.
std::vector<Value> expected(const PlanInfo& info, const Sizes& s, uint32_t rank, std::vector<Value> out, Fold fold) {
  const uint32_t n = info.nranks;
  const auto copy_block = [&](uint64_t to, uint64_t count, uint32_t from, uint64_t first) {
    for (uint64_t i = 0; i < count; ++i) out[to + i] = input(from, first + i);
  };
  switch (info.collective) {
    case Collective::barrier:
      break;
    case Collective::reduce:
      if (rank != info.root) break;
      [[fallthrough]];
    case Collective::all_reduce:
      for (uint64_t i = 0; i < s.elems; ++i) out[i] = fold_in_rank_order(n, i, fold);
      break;
    case Collective::broadcast:
      copy_block(0, s.elems, info.root, 0);
      break;
    case Collective::gather:
      if (rank != info.root) break;
      [[fallthrough]];
    case Collective::all_gather:
      for (uint32_t c = 0; c < n; ++c) copy_block(s.displ(c), s.count(c), c, 0);
      break;
    case Collective::reduce_scatter:
      for (uint64_t i = 0; i < s.count(rank); ++i) out[i] = fold_in_rank_order(n, s.displ(rank) + i, fold);
      break;
    case Collective::scatter:
      copy_block(0, s.count(rank), info.root, s.displ(rank));
      break;
    case Collective::all_to_all:
      for (uint32_t c = 0; c < n; ++c) copy_block(s.displ(c), s.count(c), c, s.displ(rank));
      break;
  }
  return out;
}

// Neighbours first, the surplus over a power of two at the front.
Value fold_as_tree(uint32_t n, uint64_t i, Fold fold) {
  std::vector<Value> x = operands(n, i), level;
  const uint32_t surplus = n - (1u << floor_log2(n));
  for (uint32_t r = 0; r < n; ++r) {
    level.push_back(x[r]);
    if (r < 2 * surplus) {
      ++r;
      level.back() = fold(level.back(), x[r]);
    }
  }
  while (level.size() > 1) {
    x.swap(level);
    level.clear();
    for (size_t k = 0; k < x.size(); k += 2) level.push_back(fold(x[k], x[k + 1]));
  }
  return post(level[0]);
}

class Planners : public testing::TestWithParam<const CatalogEntry*> {};

std::string entry_name(const testing::TestParamInfo<const CatalogEntry*>& info) {
  return std::string(collective_name(info.param->collective)) + "_" + info.param->name;
}
std::vector<const CatalogEntry*> entries(bool (*wanted)(Collective)) {
  std::vector<const CatalogEntry*> list;
  for (const CatalogEntry& e : catalog())
    if (wanted(e.collective)) list.push_back(&e);
  return list;
}
class DataPlanners : public Planners {};
class AllReductions : public Planners {};
INSTANTIATE_TEST_SUITE_P(Catalog, Planners, testing::ValuesIn(entries([](Collective) { return true; })), entry_name);
INSTANTIATE_TEST_SUITE_P(Catalog, DataPlanners,
                         testing::ValuesIn(entries([](Collective c) { return c != Collective::barrier; })), entry_name);
INSTANTIATE_TEST_SUITE_P(Catalog, AllReductions,
                         testing::ValuesIn(entries([](Collective c) { return c == Collective::all_reduce; })),
                         entry_name);

// All roots of few ranks, some of more.
std::vector<uint32_t> roots(const CatalogEntry& e, uint32_t n) {
  std::vector<uint32_t> list;
  for (uint32_t root = 0; root < (e.rooted ? n : 1); ++root)
    if (n <= 20 || root < 2 || root == n / 3 || root == n - 1) list.push_back(root);
  return list;
}

TEST_P(DataPlanners, AddsUpOrCopiesRealNumbers) {
  const CatalogEntry& e = *GetParam();
  for (uint32_t n = 1; n <= 40; ++n)
    for (const uint32_t root : roots(e, n))
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(testing::Message() << "n " << n << " root " << root << " in place " << in_place);
        const Plan plan = e.plan(n, root);
        for (const Sizes& s : sizes(plan.info)) {
          Execution run(plan, s, add, in_place);
          std::vector<std::vector<Value>> want;
          for (uint32_t r = 0; r < n; ++r) {
            std::vector<Value> before;
            for (uint64_t i = 0; i < run.out_size(r); ++i) before.push_back(run.out(r, i));
            want.push_back(expected(plan.info, s, r, before, add));
          }
          run.run();
          for (uint32_t r = 0; r < n; ++r)
            for (uint64_t i = 0; i < run.out_size(r); ++i)
              ASSERT_EQ(run.out(r, i), want[r][i]) << "rank " << r << " element " << i;
        }
      }
}

TEST_P(AllReductions, FoldsAlikeOnAllRanks) {
  const CatalogEntry& e = *GetParam();
  for (uint32_t n = 1; n <= 40; ++n) {
    const Plan plan = e.plan(n, 0);
    const Sizes s = sizes(plan.info)[0];
    Execution run(plan, s, ordered, false);
    run.run();
    for (uint32_t r = 1; r < n; ++r)
      for (uint64_t i = 0; i < s.elems; ++i) ASSERT_EQ(run.out(r, i), run.out(0, i)) << "n " << n << " rank " << r;
  }
}

// `reference` of element i of the vector, at every rank that has it.
TEST(FoldOrder, IsThatOfTheRanksOrOfATree) {
  struct Case {
    Collective collective;
    const char* name;
    Value (*reference)(uint32_t, uint64_t, Fold);
    uint32_t (*root)(uint32_t n);
  };
  constexpr auto first = [](uint32_t) -> uint32_t { return 0; };
  constexpr auto last = [](uint32_t n) { return n - 1; };
  constexpr auto middle = [](uint32_t n) { return n / 2; };
  const Case cases[] = {{Collective::all_reduce, "one_shot", fold_in_rank_order, first},
                        {Collective::all_reduce, "gather_reduce", fold_in_rank_order, first},
                        {Collective::all_reduce, "two_shot", fold_in_rank_order, first},
                        {Collective::all_reduce, "recursive_doubling", fold_as_tree, first},
                        {Collective::all_reduce, "halving_doubling", fold_as_tree, first},
                        {Collective::reduce, "flat", fold_in_rank_order, middle},
                        {Collective::reduce, "chain", fold_in_rank_order, last},
                        {Collective::reduce_scatter, "direct", fold_in_rank_order, first}};
  for (const Case& c : cases)
    for (uint32_t n = 1; n <= 40; ++n) {
      const CatalogEntry& e = *find_planner(c.collective, c.name);
      const uint32_t root = e.rooted ? c.root(n) : 0;
      const Plan plan = e.plan(n, root);
      const Sizes s = sizes(plan.info)[0];
      Execution run(plan, s, ordered, true);
      run.run();
      const bool blocks = c.collective == Collective::reduce_scatter;
      for (uint32_t r = 0; r < (blocks ? n : 1); ++r)
        for (uint64_t i = 0; i < s.elems; ++i)
          ASSERT_EQ(run.out(blocks ? r : root, i), c.reference(n, blocks ? s.displ(r) + i : i, ordered))
              << collective_name(c.collective) << " " << c.name << " n " << n << " element " << i;
    }
}

TEST(Dissemination, HoldsEveryoneUntilTheLastOneComes) {
  const CatalogEntry& e = *find_planner(Collective::barrier, "dissemination");
  for (uint32_t n = 1; n <= 40; ++n)
    for (uint32_t absent = 0; absent < n; ++absent) {
      const Plan plan = e.plan(n, 0);
      const Sizes nothing;
      Execution run(plan, nothing, add, false);
      ASSERT_EQ(run.drive(absent), 0u) << "n " << n << ": somebody leaves without rank " << absent;
      run.run();
    }
}

// Tables, lanes and declared cost for numbers of ranks around powers of two.
TEST_P(Planners, TablesFitTogether) {
  using Link = std::tuple<uint32_t, uint32_t, uint32_t>;  // source, destination, tag
  const CatalogEntry& e = *GetParam();
  for (const uint32_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 63u, 64u, 65u, 127u, 128u, 129u, 200u})
    for (const uint32_t root : {0u, n / 3, n - 1}) {
      if (!e.rooted && root > 0) continue;
      const Plan plan = e.plan(n, root);
      std::map<Link, uint32_t> pushes, pops;
      uint32_t most_blocks = 0;
      for (uint32_t r = 0; r < n; ++r) {
        const RankPlan& p = plan.ranks[r];
        ASSERT_EQ(p, e.rank_plan(n, root, r));
        std::vector<uint32_t> pusher(p.out.size(), kNobody), popper(p.in.size(), kNobody);
        for (const Peer& q : p.out)
          ASSERT_TRUE(q.rank < n && q.rank != r && pushes.emplace(Link{r, q.rank, q.tag}, 0).second);
        for (const Peer& q : p.in)
          ASSERT_TRUE(q.rank < n && q.rank != r && pops.emplace(Link{q.rank, r, q.tag}, 0).second);
        Cost cost;
        for (uint32_t lane = 0; lane < p.lanes.size(); ++lane)
          for (uint32_t i = 0; i < p.lanes[lane].count; ++i) {
            const Step& s = p.steps[p.lanes[lane].first + i];
            for (uint32_t k = s.send; k < uint32_t{s.send} + s.nsend; ++k) {
              ASSERT_TRUE(pusher.at(k) == kNobody || pusher[k] == lane);
              pusher[k] = lane;
              ++pushes[{r, p.out[k].rank, p.out[k].tag}];
            }
            for (uint32_t k = s.recv; k < uint32_t{s.recv} + s.nrecv; ++k) {
              ASSERT_TRUE(popper.at(k) == kNobody || popper[k] == lane);
              popper[k] = lane;
              ++pops[{p.in[k].rank, r, p.in[k].tag}];
            }
            cost.messages += s.nsend;
            cost.blocks += s.nsend * s.count;
            if (s.has(kSend)) most_blocks = std::max(most_blocks, s.count);
          }
        ASSERT_EQ(cost.messages, p.cost.messages) << "n " << n << " rank " << r;
        ASSERT_EQ(cost.blocks, p.cost.blocks) << "n " << n << " rank " << r;
      }
      ASSERT_EQ(pushes, pops) << "n " << n;
      for (const auto& [link, count] : pushes) ASSERT_GT(count, 0u);
      ASSERT_EQ(plan.info.message_blocks, most_blocks);
    }
}

TEST(DoubleTree, IsTwoShallowTreesWithDifferentInnerNodes) {
  for (uint32_t n = 2; n <= 300; ++n) {
    const DoubleTree t{n};
    uint32_t inner_twice = 0;
    for (uint32_t r = 0; r < n; ++r) {
      inner_twice += t.node(r, 0).children > 0 && t.node(r, 1).children > 0;
      for (uint32_t tree = 0; tree < 2; ++tree) {
        uint32_t depth = 0;
        for (uint32_t up = r; !t.node(up, tree).root; up = t.node(up, tree).parent) ++depth;
        ASSERT_LE(depth, ceil_log2(n)) << "n " << n << " rank " << r << " tree " << tree;
      }
    }
    ASSERT_EQ(inner_twice, n % 2) << "n " << n;
  }
}

TEST(Catalog, FindsByCollectiveAndName) {
  for (const CatalogEntry& e : catalog()) {
    EXPECT_EQ(find_planner(e.collective, e.name), &e);
    const PlanInfo info = e.info(7, e.rooted ? 3 : 0);
    EXPECT_EQ(info.name, e.name);
    EXPECT_EQ(info.collective, e.collective);
    EXPECT_EQ(info.nranks, 7u);
    EXPECT_EQ(info.root, e.rooted ? 3u : 0u);
  }
  EXPECT_EQ(find_planner(Collective::broadcast, "ring"), nullptr);
  EXPECT_EQ(find_planner(Collective::all_gather, "ring")->collective, Collective::all_gather);
  EXPECT_EQ(find_planner(Collective::all_reduce, "rin"), nullptr);
}

// At the most ranks that a planner takes, no field of a step has overflowed.
TEST_P(Planners, StepsFitAtTheMostRanks) {
  const CatalogEntry& e = *GetParam();
  const uint32_t n = e.max_ranks;
  const auto source = e.source(n, 0);
  for (const uint32_t r : {0u, 1u, n / 2 - 1, n / 2, n - 2, n - 1}) {
    for (uint32_t lane = 0; lane < source->lanes(r); ++lane) {
      const uint32_t steps = source->steps(r, lane);
      for (const uint32_t i : {0u, 1u, steps / 2, steps - 1}) {
        if (i >= steps) continue;
        const Step s = source->step(r, lane, i);
        EXPECT_EQ(s.has(kSend), s.nsend > 0);
        EXPECT_EQ(s.has(kRecv), s.nrecv > 0);
        EXPECT_EQ(s.has(kLoad), s.nload > 0);
        EXPECT_LE(uint32_t{s.send} + s.nsend, source->links_out(r));
        EXPECT_LE(uint32_t{s.recv} + s.nrecv, source->links_in(r));
        EXPECT_LE(s.self, s.nrecv);
        EXPECT_LT(s.src, source->info().chunks[static_cast<size_t>(s.src_buf())]);
        EXPECT_LT(s.dst, source->info().chunks[static_cast<size_t>(s.dst_buf())]);
      }
    }
    for (const uint32_t k : {0u, 1u, source->links_out(r) - 1})
      if (k < source->links_out(r)) {
        const Peer p = source->out(r, k);
        EXPECT_LT(p.rank, n);
        EXPECT_NE(p.rank, r);
      }
    for (const uint32_t k : {0u, 1u, source->links_in(r) - 1})
      if (k < source->links_in(r)) {
        const Peer p = source->in(r, k);
        EXPECT_LT(p.rank, n);
        EXPECT_NE(p.rank, r);
      }
  }
}

}  // namespace
}  // namespace hocket
