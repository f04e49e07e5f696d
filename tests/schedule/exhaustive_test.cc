// Every planner of the catalogue for every number of ranks: the data pass up to 512 ranks, in and out of place, the
// race pass up to 128 with deep and with shallow links, and without copies where a planner is meant for that. Of those
// with the longest plans the data pass takes every n up to 256 and a sample of those above.
// HOCKET_TEST_FULL=1 goes further and leaves nothing out, a build with sanitizers goes less far.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <functional>
#include <mutex>
#include <thread>

#include "algorithms/zero_copy.h"
#include "schedule/plan_tools.h"

namespace hocket {
namespace {

// The classes that each planner promises.
struct Promise {
  Collective collective;
  const char* name;
  bool chunk_identical, order_is_rank;
};
using enum Collective;
constexpr Promise kPromises[] = {{all_reduce, "ring", false, false},
                                 {all_reduce, "recursive_doubling", true, true},
                                 {all_reduce, "one_shot", true, true},
                                 {all_reduce, "gather_reduce", true, true},
                                 {all_reduce, "two_shot", true, true},
                                 {all_reduce, "double_tree", false, false},
                                 {all_reduce, "circulant", false, false},
                                 {all_reduce, "halving_doubling", true, true},
                                 {all_reduce, "swing", false, false},
                                 {all_reduce, "nhr", false, false},
                                 {all_reduce, "bidirectional_ring", false, false},
                                 {reduce, "flat", true, true},
                                 {reduce, "binomial", true, false},
                                 {reduce, "chain", true, false},
                                 {reduce_scatter, "ring", false, false},
                                 {reduce_scatter, "direct", true, true},
                                 {reduce_scatter, "circulant", false, false},
                                 {reduce_scatter, "nhr", false, false},
                                 {reduce_scatter, "pat4", false, false},
                                 {reduce_scatter, "pat1", false, false}};
// What only moves data promises all there is.
const Promise* promise(const CatalogEntry& e) {
  static constexpr Promise kMoves{barrier, "", true, true};
  for (const Promise& p : kPromises)
    if (p.collective == e.collective && std::string(p.name) == e.name) return &p;
  return reduces(e.collective) ? nullptr : &kMoves;
}

// Ways without copies that are proven beside those that are taken.
constexpr Protocol S = Protocol::slot, M = Protocol::mapped, D = Protocol::direct;
constexpr ZeroCopyPlanner kAlsoProven[] = {
    {broadcast, "circulant", {{D, S, S, S}, false, false}}, {broadcast, "binomial", {{D, S, S, S}, false, false}},
    {broadcast, "chain", {{D, S, S, S}, false, false}},     {all_gather, "ring", {{D, S, S, S}, false, false}},
    {all_gather, "direct", {{D, S, S, S}, false, false}},   {all_gather, "pat1", {{D, S, S, S}, false, false}},
    {all_reduce, "two_shot", {{M, S, S, S}, false, false}}, {all_reduce, "two_shot", {{S, D, S, S}, false, false}}};

// Where direct messages go: the engine grants a rank's out and nothing else.
std::string not_into_out(const Plan& plan, const ZeroCopy& way) {
  for (const RankPlan& r : plan.ranks)
    for (const Step& s : r.steps)
      for (uint32_t k = 0; k < s.nrecv && s.count > 0; ++k)
        if (way.protocol[r.in[s.recv + k].tag] == D && s.dst_buf() != Buf::out) return "direct, but not into out";
  return {};
}

struct Limits {
  uint32_t data, races;
  uint32_t costly;  // above, a sample
};
Limits limits() {
  if (HKT_SANITIZED) return {48, 20, 48};
  const char* full = std::getenv("HOCKET_TEST_FULL");
  if (full && *full && *full != '0') return {1024, 256, 1024};
  return {512, 128, 256};
}
// Plans of an all-to-all have n * n steps and more. The others share their code with planners that are not sampled.
bool costly(const CatalogEntry& e) {
  const std::string_view name = e.name;
  return e.collective == all_to_all || name == "bidirectional_ring" || name == "pat1" || name == "pat4";
}
// One n in 16, the same in every run.
bool sampled(uint32_t n) { return n * 0x9e3779b9u >> 28 == 0; }

struct Job {
  const CatalogEntry* entry;
  uint32_t n, root;
};

// All planners, largest numbers of ranks first; roots 0, 1 and n - 1, all of them for few ranks.
std::vector<Job> jobs(uint32_t most) {
  std::vector<Job> list;
  for (uint32_t n = most; n > 0; --n) {
    for (const CatalogEntry& e : catalog()) {
      if (costly(e) && n > limits().costly && !sampled(n)) continue;
      for (uint32_t root = 0; root < (e.rooted ? n : 1); ++root)
        if (n <= 16 || root < 2 || root == n - 1) list.push_back({&e, n, root});
    }
  }
  return list;
}

// Runs `check` for all jobs on two threads; a text that is not empty is a failure.
void run_all(uint32_t most, const std::function<std::string(const Job&, const Plan&)>& check) {
  // Plans of some 100 MB come and go: keep their memory instead of handing it back to the kernel each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const std::vector<Job> list = jobs(most);
  std::atomic<size_t> next{0};
  std::atomic<uint32_t> failures{0};
  std::mutex mutex;
  auto work = [&] {
    for (size_t i = next++; i < list.size() && failures < 10; i = next++) {
      const Job& job = list[i];
      const std::string text = check(job, job.entry->plan(job.n, job.root));
      if (text.empty()) continue;
      ++failures;
      const std::lock_guard<std::mutex> lock(mutex);
      ADD_FAILURE() << collective_name(job.entry->collective) << " " << job.entry->name << " of " << job.n
                    << " ranks, root " << job.root << ": " << text;
    }
  };
  std::thread other(work);
  work();
  other.join();
}

TEST(Exhaustive, every_planner_is_in_the_table_of_promises) {
  for (const CatalogEntry& e : catalog()) {
    ASSERT_NE(promise(e), nullptr) << collective_name(e.collective) << " " << e.name;
    EXPECT_EQ(e.folds_in_rank_order, reduces(e.collective) && promise(e)->order_is_rank)
        << collective_name(e.collective) << " " << e.name;
  }
}

TEST(Exhaustive, data_pass_in_and_out_of_place) {
  std::atomic<uint64_t> steps{0};
  run_all(limits().data, [&](const Job& job, const Plan& plan) -> std::string {
    Result<DataReport> report = verify_data(plan);
    if (!report.ok()) return report.error().text;
    steps += report->steps;
    if (!report->rank_identical) return "not proven identical on all ranks";
    const Promise& p = *promise(*job.entry);
    if (p.chunk_identical && !report->chunk_identical) return "chunks differ in their fold";
    if (p.order_is_rank && !report->order_is_rank) return "not folded in the order of ranks";
    // Two operands are folded at once by any planner, in any order, and three by a tree whose root has two children.
    const bool claims = job.entry->folds_canonically || !reduces(job.entry->collective);
    if (claims && !report->canonical) return "claims the canonical fold and has another one";
    if (!claims && job.n > 3 && report->canonical) return "has the canonical fold and does not say so";
    // As a + b is b + a, the circulant fold of 2^k ranks is one tree for all blocks, and so is that of swing for 4.
    const std::string name = p.name;
    const bool same_tree =
        job.n <= 2 || (name == "circulant" && std::has_single_bit(job.n)) || (name == "swing" && job.n < 8);
    if (!same_tree && !p.chunk_identical && report->chunk_identical)
      return "better than promised: chunks share one fold";
    return {};
  });
  std::printf("%llu steps executed\n", static_cast<unsigned long long>(steps.load()));
}

TEST(Exhaustive, race_pass_with_deep_and_with_shallow_links) {
  run_all(limits().races, [](const Job&, const Plan& plan) -> std::string {
    for (const Lowering& lowering : {slots(8, 4), slots(2, 1)}) {
      for (Placement placement : kPlacements) {
        const Status s = verify_races(plan, lowering, placement);
        if (!s.ok()) return s.error().text;
      }
    }
    return {};
  });
}

std::string race_pass(const Plan& plan, const ZeroCopyPlanner& z) {
  Result<Lowering> lowering = lower(plan, {z.way.protocol, 8, 4});
  if (!lowering.ok()) return lowering.error().text;
  lowering->drain = z.way.drain;
  for (Placement placement : kPlacements) {
    if (placement == Placement::in_place && z.way.out_of_place_only) continue;
    const Status s = verify_races(plan, *lowering, placement);
    if (!s.ok()) return s.error().text;
  }
  return not_into_out(plan, z.way);
}

TEST(Exhaustive, race_pass_without_copies) {
  run_all(limits().races, [](const Job& job, const Plan& plan) -> std::string {
    for (const auto& list : {zero_copy_planners(), reading_planners(), std::span<const ZeroCopyPlanner>(kAlsoProven)})
      for (const ZeroCopyPlanner& z : list)
        if (z.collective == job.entry->collective && z.name == job.entry->name)
          if (std::string text = race_pass(plan, z); !text.empty()) return text;
    return {};
  });
}

void expect_no_weaker(const ZeroCopyPlanner& z) {
  const CatalogEntry* const entry = find_planner(z.collective, z.name);
  ASSERT_NE(entry, nullptr) << z.name;
  const Plan plan = entry->plan(6, 0);
  ZeroCopyPlanner bolder = z;
  if (z.way.drain) {
    bolder.way.drain = false;
    EXPECT_NE(race_pass(plan, bolder), "") << collective_name(z.collective) << " " << z.name << " need not drain";
  }
  bolder = z;
  if (z.way.out_of_place_only) {
    bolder.way.out_of_place_only = false;
    EXPECT_NE(race_pass(plan, bolder), "") << collective_name(z.collective) << " " << z.name << " may be in place";
  }
}

// What is said of a planner has to be all that can be said: a way that is only safe out of place, or with a wait at the
// end, must not be safe without.
TEST(Exhaustive, ways_without_copies_are_no_weaker_than_they_say) {
  for (const auto& list : {zero_copy_planners(), reading_planners()})
    for (const ZeroCopyPlanner& z : list) expect_no_weaker(z);
}

}  // namespace
}  // namespace hocket
