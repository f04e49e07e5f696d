// Runs every planner on real numbers: a small executor of its own, over FIFO links of depth 2 and several rounds, in
// and out of place, checked against a reference that adds up in a loop. Independent of verify and of the engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/catalog.h"
#include "algorithms/double_tree.h"
#include "algorithms/math.h"
#include "schedule/drive.h"
#include "schedule/shape.h"

namespace hocket {
namespace {

using Value = uint64_t;
using Fold = Value (*)(Value, Value);

constexpr uint32_t kDepth = 2;  // of a link
constexpr uint32_t kElem = sizeof(Value);
constexpr uint32_t kLine = kChunkAlign / kElem;
constexpr uint32_t kNobody = 0xffffffff;

Value add(Value a, Value b) { return a + b; }
// Neither commutative nor associative: tells every order and every bracketing apart.
Value ordered(Value a, Value b) { return (a * 0x9e3779b97f4a7c15u) ^ (b + (a >> 29) + 0x632be59bd9b4e019u); }
Value pre(Value v) { return 3 * v + 1; }
Value post(Value v) { return 7 * v + 5; }
Value input(uint32_t rank, uint64_t i) { return (rank + 1) * 1000003u + i * 7919u; }

struct Message {
  std::vector<Value> data;
};

struct Job {
  const Plan& plan;
  Shape shape;
  Fold fold;
  bool in_place;
  std::vector<std::vector<Value>> in{}, out{}, scratch{};
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::deque<Message>> links{};  // source, destination, tag
  std::vector<std::vector<Cursor>> cursors{};                                       // by rank and lane
  std::vector<Cost> sent{};

  std::vector<Value>& buffer(uint32_t rank, Buf b) {
    if (b == Buf::scratch) return scratch[rank];
    return b == Buf::in || in_place ? in[rank] : out[rank];
  }
};

struct Source {
  const RankPlan& plan;
  uint32_t steps(uint32_t lane) const { return plan.lanes[lane].count; }
  const Step& step(uint32_t lane, uint32_t i) const { return plan.steps[plan.lanes[lane].first + i]; }
  Dep dep(uint32_t lane, uint32_t i, uint32_t d) const {
    return plan.deps[plan.first_dep[plan.lanes[lane].first + i] + d];
  }
};

struct Machine {
  Job& job;
  uint32_t rank;

  std::deque<Message>& in_link(uint32_t k) {
    const Peer& p = job.plan.ranks[rank].in[k];
    return job.links[{p.rank, rank, p.tag}];
  }
  std::deque<Message>& out_link(uint32_t k) {
    const Peer& p = job.plan.ranks[rank].out[k];
    return job.links[{rank, p.rank, p.tag}];
  }
  bool dep_done(Dep d, uint32_t round) const {
    const Cursor& c = job.cursors[rank][d.lane];
    return c.round > round || (c.round == round && c.step > d.step);
  }
  bool pop_ready(uint32_t k) { return !in_link(k).empty(); }
  bool push_ready(uint32_t k, const Step&) { return out_link(k).size() < kDepth; }

  std::vector<Span> spans(const Step& s, Buf b, uint32_t chunk, uint32_t round) const {
    std::vector<Span> list;
    const uint32_t chunks = job.plan.info.chunks[static_cast<size_t>(b)];
    for (uint32_t j = 0; j < s.count; ++j) list.push_back(job.shape.span(b, (chunk + j * s.stride) % chunks, round));
    return list;
  }
  void execute(const Step& s, const Cursor& c) {
    std::vector<std::vector<Value>> operands;
    for (uint32_t k = 0; k < s.nrecv; ++k) {
      operands.push_back(in_link(s.recv + k).front().data);
      in_link(s.recv + k).pop_front();
    }
    if (s.has(kLoad)) {
      std::vector<Value> local;
      for (const Span& span : spans(s, s.src_buf(), s.src, c.round))
        for (uint64_t i = 0; i < span.bytes / kElem; ++i)
          local.push_back(job.buffer(rank, s.src_buf()).at(span.offset / kElem + i));
      if (s.has(kPre)) std::transform(local.begin(), local.end(), local.begin(), pre);
      operands.insert(operands.begin() + s.self, local);
    }
    std::vector<Value> v;
    if (!operands.empty()) v = operands[0];
    for (size_t k = 1; k < operands.size(); ++k) {
      ASSERT_EQ(operands[k].size(), v.size());
      for (size_t i = 0; i < v.size(); ++i) v[i] = job.fold(v[i], operands[k][i]);
    }
    if (s.has(kPost)) std::transform(v.begin(), v.end(), v.begin(), post);
    if (s.has(kStore)) {
      size_t at = 0;
      for (const Span& span : spans(s, s.dst_buf(), s.dst, c.round))
        for (uint64_t i = 0; i < span.bytes / kElem; ++i)
          job.buffer(rank, s.dst_buf()).at(span.offset / kElem + i) = v.at(at++);
      ASSERT_EQ(at, v.size());
    }
    for (uint32_t k = 0; k < s.nsend; ++k) out_link(s.send + k).push_back({v});
    job.sent[rank].messages += s.nsend;
    job.sent[rank].blocks += s.nsend * s.count;
  }
};

Job prepare(const Plan& plan, const Shape& shape, Fold fold, bool in_place) {
  Job job{plan, shape, fold, in_place};
  const uint32_t n = plan.info.nranks;
  job.sent.assign(n, {});
  for (uint32_t r = 0; r < n; ++r) {
    job.in.emplace_back(shape.elems());
    for (uint64_t i = 0; i < shape.elems(); ++i) job.in[r][i] = input(r, i);
    job.out.emplace_back(shape.elems(), 0xdeadbeef0000u + r);
    job.scratch.emplace_back(plan.info.chunks[static_cast<size_t>(Buf::scratch)] * shape.scratch_stride() / kElem,
                             0xabcdefu);
    job.cursors.emplace_back(plan.ranks[r].lanes.size());
    for (uint32_t lane = 0; lane < job.cursors[r].size(); ++lane) job.cursors[r][lane].lane = lane;
  }
  return job;
}

// Runs all lanes of all ranks but `absent`, one after another, until nothing moves. Returns how many ranks have
// finished.
uint32_t drive(Job& job, uint32_t absent = kNobody) {
  for (;;) {
    bool moved = false;
    uint32_t finished = 0;
    for (uint32_t r = 0; r < job.plan.info.nranks; ++r) {
      if (r == absent) continue;
      Machine machine{job, r};
      bool done = true;
      for (Cursor& c : job.cursors[r]) {
        const Cursor before = c;
        done &= run_lane(Source{job.plan.ranks[r]}, c, job.shape.rounds(), machine);
        moved |= c.round != before.round || c.step != before.step;
      }
      finished += done;
    }
    if (!moved) return finished;
  }
}

// Runs to the end and returns what every rank then has as its result.
std::vector<std::vector<Value>> execute(Job& job) {
  const uint32_t n = job.plan.info.nranks;
  const std::vector<std::vector<Value>> before = job.in;
  EXPECT_EQ(drive(job), n) << "standstill";
  for (const auto& [link, queue] : job.links)
    EXPECT_TRUE(queue.empty()) << std::get<0>(link) << " -> " << std::get<1>(link) << ": a message is never popped";
  if (!job.in_place) {
    EXPECT_EQ(job.in, before) << "in was written";
  }
  for (uint32_t r = 0; r < n; ++r) {
    EXPECT_EQ(job.sent[r].messages, job.plan.ranks[r].cost.messages * job.shape.rounds()) << "rank " << r;
    EXPECT_EQ(job.sent[r].blocks, job.plan.ranks[r].cost.blocks * job.shape.rounds()) << "rank " << r;
  }
  return job.in_place ? job.in : job.out;
}

// Three rounds, the last one with chunks of 1 line, less than a line and nothing; one round with most chunks empty;
// nothing at all.
std::vector<Shape> shapes(const PlanInfo& info) {
  const uint32_t chunks = info.chunks[static_cast<size_t>(Buf::out)];
  const uint64_t round = uint64_t{chunks} * kLine;
  return {Shape(2 * round + kLine + 3, kElem, chunks, round), Shape(3, kElem, chunks, round),
          Shape(0, kElem, chunks, round)};
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

std::string entry_name(const testing::TestParamInfo<const CatalogEntry*>& info) { return info.param->name; }
std::vector<const CatalogEntry*> entries(const std::vector<Collective>& collectives) {
  std::vector<const CatalogEntry*> list;
  for (const CatalogEntry& e : catalog())
    if (std::count(collectives.begin(), collectives.end(), e.collective) > 0) list.push_back(&e);
  return list;
}
class DataPlanners : public Planners {};
class Reductions : public Planners {};
constexpr auto kReduce = Collective::all_reduce;
INSTANTIATE_TEST_SUITE_P(Catalog, Planners,
                         testing::ValuesIn(entries({kReduce, Collective::broadcast, Collective::barrier})), entry_name);
INSTANTIATE_TEST_SUITE_P(Catalog, DataPlanners, testing::ValuesIn(entries({kReduce, Collective::broadcast})),
                         entry_name);
INSTANTIATE_TEST_SUITE_P(Catalog, Reductions, testing::ValuesIn(entries({kReduce})), entry_name);

TEST_P(DataPlanners, AddsUpOrCopiesRealNumbers) {
  const CatalogEntry& e = *GetParam();
  for (uint32_t n = 1; n <= 40; ++n)
    for (uint32_t root = 0; root < (e.rooted ? n : 1); ++root)
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(testing::Message() << "n " << n << " root " << root << " in place " << in_place);
        const Plan plan = e.plan(n, root);
        for (const Shape& shape : shapes(plan.info)) {
          Job job = prepare(plan, shape, add, in_place);
          const auto results = execute(job);
          std::vector<Value> expected;
          for (uint64_t i = 0; i < shape.elems(); ++i)
            expected.push_back(e.collective == Collective::broadcast ? input(root, i) : fold_in_rank_order(n, i, add));
          for (uint32_t r = 0; r < n; ++r) ASSERT_EQ(results[r], expected) << "rank " << r;
        }
      }
}

TEST_P(Reductions, FoldsAlikeOnAllRanks) {
  const CatalogEntry& e = *GetParam();
  for (uint32_t n = 1; n <= 40; ++n) {
    const Plan plan = e.plan(n, 0);
    const Shape shape = shapes(plan.info)[0];
    Job job = prepare(plan, shape, ordered, false);
    const auto results = execute(job);
    for (uint32_t r = 1; r < n; ++r) ASSERT_EQ(results[r], results[0]) << "n " << n << " rank " << r;
  }
}

TEST(FoldOrder, DirectOnesFoldInTheOrderOfRanksAndRecursiveDoublingAsATree) {
  struct Case {
    const char* name;
    Value (*reference)(uint32_t, uint64_t, Fold);
  };
  constexpr Case kCases[] = {
      {"one_shot", fold_in_rank_order}, {"two_shot", fold_in_rank_order}, {"recursive_doubling", fold_as_tree}};
  for (const Case& c : kCases)
    for (uint32_t n = 1; n <= 40; ++n) {
      const Plan plan = find_planner(kReduce, c.name)->plan(n, 0);
      const Shape shape = shapes(plan.info)[0];
      Job job = prepare(plan, shape, ordered, true);
      const auto results = execute(job);
      for (uint64_t i = 0; i < shape.elems(); ++i)
        ASSERT_EQ(results[0][i], c.reference(n, i, ordered)) << c.name << " n " << n << " element " << i;
    }
}

TEST(Dissemination, HoldsEveryoneUntilTheLastOneComes) {
  const CatalogEntry& e = *find_planner(Collective::barrier, "dissemination");
  for (uint32_t n = 1; n <= 40; ++n)
    for (uint32_t absent = 0; absent < n; ++absent) {
      const Plan plan = e.plan(n, 0);
      Job job = prepare(plan, Shape(0, kElem, 1, 1), add, false);
      ASSERT_EQ(drive(job, absent), 0u) << "n " << n << ": somebody leaves without rank " << absent;
      execute(job);
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
        EXPECT_LE(uint32_t{s.send} + s.nsend, source->links_out(r));
        EXPECT_LE(uint32_t{s.recv} + s.nrecv, source->links_in(r));
        EXPECT_LE(s.self, s.nrecv);
        EXPECT_LT(s.src, source->info().chunks[0]);
        EXPECT_LT(s.dst, source->info().chunks[1]);
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
