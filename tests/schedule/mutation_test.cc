// Changes every field of every step, dependency, lane, link table and declaration of every planner's plans for few
// ranks, one at a time, and drops, repeats and swaps steps. Each mutant must be caught, or be proven to be a right plan
// of the same kind:
//   caught   validate, the data pass or the race pass reports it, or a determinism class that held is lost, or a
//   lowering without
//            copies that was legal is not any more;
//   proven   all passes prove the mutant, with the classes and the cost of the original. It is then equivalent by the
//   contract of a plan.
// Why a proven mutant may exist at all is listed below, for every one: one that fits no entry of the list is a failure.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <type_traits>

#include "schedule/number_run.h"
#include "schedule/plan_tools.h"

namespace hocket {
namespace {

// The reasons for which a mutant may be right.
enum class Reason {
  none,
  commuted,   // the first two operands of a fold trade places: the same expression, as a + b is b + a
  regrouped,  // a fold takes its operands in another order at the one rank whose result all get: another expression,
              // classes as before
  reordered,  // steps, or the pushes of a step, that do not depend on each other trade places: the same expressions, at
              // another time
  repeated,   // a copy inside a rank is made twice
  widened,    // a copy inside a rank takes blocks along that are overwritten before they count
  elsewhere,  // a block is loaded from another buffer that holds the same
  implied,    // a dependency that, for so few ranks, other order implies as well, or a later step of the same lane does
  alone       // of a single rank: collectives that only move data, or that all reduce, are one and the same
};
constexpr const char* kReasonNames[] = {"unexplained", "commuted",  "regrouped", "reordered", "repeated",
                                        "widened",     "elsewhere", "implied",   "alone"};

struct Mutant {
  std::string field;
  uint32_t rank = 0;
  uint64_t before = 0, after = 0;
  bool local = false;  // a step without links
};

struct Original {
  Plan plan;
  DataReport report;
  std::vector<Lowering> lowerings;
};

Status prove(const Plan& plan, const Original& o, DataReport& report) {
  HKT_ASSIGN(report, verify_data(plan));
  auto lost = [](bool before, bool after) { return before && !after; };
  if (lost(o.report.rank_identical, report.rank_identical) || lost(o.report.chunk_identical, report.chunk_identical) ||
      lost(o.report.order_is_rank, report.order_is_rank) || lost(o.report.canonical, report.canonical))
    return error(hktInvalidArgument, "a determinism class is lost");
  for (const Lowering& l : o.lowerings)
    for (Placement p : kPlacements) HKT_TRY(verify_races(plan, l, p));
  return {};
}

// Which reason explains that a mutant is right.
Reason reason(const Original& o, const Mutant& m, const DataReport& report) {
  const bool same = report.expression == o.report.expression;
  if (m.field == "info.collective") return same && o.plan.info.nranks == 1 ? Reason::alone : Reason::none;
  if (m.field == "self" || m.field == "swap in") {
    if (o.plan.info.collective == Collective::barrier) return same ? Reason::reordered : Reason::none;
    return same ? Reason::commuted : Reason::regrouped;
  }
  if (m.field == "dep.step" || m.field == "dep.lag") return same ? Reason::implied : Reason::none;
  if (m.field == "count") return same && m.local && m.after > m.before ? Reason::widened : Reason::none;
  if (m.field == "bufs") return same && (m.before >> 4) == (m.after >> 4) ? Reason::elsewhere : Reason::none;
  if (m.field == "swap out" || m.field == "swap steps") return same ? Reason::reordered : Reason::none;
  if (m.field == "repeat step") return same && m.local ? Reason::repeated : Reason::none;
  return Reason::none;
}

class Mutator {
 public:
  explicit Mutator(Plan plan) : original_{std::move(plan), {}, {}} {
    Result<DataReport> report = verify_data(original_.plan);
    EXPECT_TRUE(report.ok()) << report.error().text;
    original_.report = *report;
    for (const auto& protocol : kProtocols) {
      for (auto [depth, batch] : {std::pair{8u, 4u}, std::pair{2u, 1u}}) {
        Result<Lowering> l = lower(original_.plan, {protocol, depth, batch});
        if (!l.ok()) continue;
        bool good = true;
        for (Placement p : kPlacements) good = good && verify_races(original_.plan, *l, p).ok();
        if (good) original_.lowerings.push_back(*l);
      }
    }
    EXPECT_GE(original_.lowerings.size(), 2u);
    plan_ = original_.plan;
  }

  void run() {
    Plan& p = plan_;
    cell(p.info.collective, "info.collective", 0);
    cell(p.info.nranks, "info.nranks", 0);
    cell(p.info.root, "info.root", 0);
    for (uint32_t& chunks : p.info.chunks) cell(chunks, "info.chunks", 0);
    cell(p.info.message_blocks, "info.message_blocks", 0);
    for (uint32_t rank = 0; rank < p.ranks.size(); ++rank) {
      RankPlan& r = p.ranks[rank];
      for (Step& s : r.steps) fields(s, rank);
      for (uint32_t& first : r.first_dep) cell(first, "first_dep", rank);
      for (Dep& d : r.deps) {
        cell(d.lane, "dep.lane", rank);
        cell(d.lag, "dep.lag", rank);
        cell(d.step, "dep.step", rank);
      }
      for (Lane& lane : r.lanes) {
        cell(lane.first, "lane.first", rank);
        cell(lane.count, "lane.count", rank);
      }
      for (std::vector<Peer>* table : {&r.in, &r.out}) {
        for (Peer& peer : *table) {
          cell(peer.rank, "peer.rank", rank);
          cell(peer.tag, "peer.tag", rank);
          cell(peer.spare, "peer.spare", rank);
        }
        swaps(*table, table == &r.in ? "swap in" : "swap out", rank);
      }
      cell(r.cost.messages, "cost.messages", rank);
      cell(r.cost.blocks, "cost.blocks", rank);
      structure(rank);
    }
    EXPECT_EQ(p.ranks, original_.plan.ranks);
  }

  uint64_t mutants = 0, caught = 0;
  std::map<std::string, uint64_t> proven;  // by "reason: field"

 private:
  static constexpr Protocol S = Protocol::slot, M = Protocol::mapped, D = Protocol::direct;
  static constexpr std::array<Protocol, kMaxTags> kProtocols[] = {
      {S, S, S, S}, {S, D, S, D}, {D, S, S, S}, {M, S, S, S}, {M, D, S, S}};

  template <class T>
  void cell(T& field, const char* name, uint32_t rank, bool local = false) {
    if constexpr (std::is_enum_v<T>) {
      cell(reinterpret_cast<std::underlying_type_t<T>&>(field), name, rank, local);
    } else {
      const T before = field;
      std::vector<T> values = {static_cast<T>(before + 1), static_cast<T>(before - 1), static_cast<T>(2 * before), T{0},
                               std::numeric_limits<T>::max()};
      for (uint32_t bit = 0; bit < sizeof(T) * 8; ++bit) values.push_back(static_cast<T>(before ^ (1u << bit)));
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
      for (T value : values) {
        if (value == before) continue;
        field = value;
        judge({name, rank, before, value, local});
      }
      field = before;
    }
  }

  void fields(Step& s, uint32_t rank) {
    cell(s.ops, "ops", rank);
    cell(s.bufs, "bufs", rank);
    cell(s.ndep, "ndep", rank);
    cell(s.flags, "flags", rank);
    cell(s.nrecv, "nrecv", rank);
    cell(s.nsend, "nsend", rank);
    cell(s.self, "self", rank);
    cell(s.recv, "recv", rank);
    cell(s.send, "send", rank);
    cell(s.nload, "nload", rank);
    cell(s.src, "src", rank);
    cell(s.dst, "dst", rank);
    cell(s.count, "count", rank, (s.ops & (kRecv | kSend)) == 0);
    cell(s.stride, "stride", rank);
  }

  template <class T>
  void swaps(std::vector<T>& list, const char* name, uint32_t rank) {
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      std::swap(list[i], list[i + 1]);
      judge({name, rank, i, i + 1});
      std::swap(list[i], list[i + 1]);
    }
  }

  // Steps dropped, repeated and swapped with the next one of the lane; costs are declared anew, so that they do not
  // tell.
  void structure(uint32_t rank) {
    const Plan saved = plan_;
    RankPlan& r = plan_.ranks[rank];
    for (uint32_t lane = 0; lane < saved.ranks[rank].lanes.size(); ++lane) {
      const Lane l = saved.ranks[rank].lanes[lane];
      for (uint32_t i = l.first; i < l.first + l.count; ++i) {
        if (i + 1 < l.first + l.count && r.steps[i].ndep == 0 && r.steps[i + 1].ndep == 0 &&
            !(r.steps[i] == r.steps[i + 1])) {
          std::swap(r.steps[i], r.steps[i + 1]);
          judge({"swap steps", rank, i, i + 1});
          plan_ = saved;
        }
        if (!r.deps.empty()) continue;
        resize(r, lane, i, -1);
        declare(plan_);
        judge({"drop step", rank, i, 0});
        plan_ = saved;
        resize(r, lane, i, 1);
        declare(plan_);
        judge({"repeat step", rank, i, 0, (r.steps[i].ops & (kRecv | kSend)) == 0});
        plan_ = saved;
      }
    }
  }
  static void resize(RankPlan& r, uint32_t lane, uint32_t i, int by) {
    if (by < 0)
      r.steps.erase(r.steps.begin() + i);
    else
      r.steps.insert(r.steps.begin() + i, Step(r.steps[i]));
    r.first_dep.assign(r.steps.size(), 0);
    r.lanes[lane].count += static_cast<uint32_t>(by);
    for (uint32_t k = lane + 1; k < r.lanes.size(); ++k) r.lanes[k].first += static_cast<uint32_t>(by);
  }

  void judge(const Mutant& m) {
    ++mutants;
    DataReport report;
    if (!prove(plan_, original_, report).ok()) {
      ++caught;
      return;
    }
    const Reason why = reason(original_, m, report);
    const std::string wrong = run_with_numbers(plan_);
    EXPECT_EQ(wrong, "") << plan_.info.name << " of " << plan_.info.nranks << " ranks: " << m.field << " at rank "
                         << m.rank << " is proven but wrong";
    EXPECT_NE(why, Reason::none) << plan_.info.name << " of " << plan_.info.nranks << " ranks: " << m.field
                                 << " at rank " << m.rank << " from " << m.before << " to " << m.after
                                 << " is proven, but nothing explains why";
    ++proven[std::string(kReasonNames[static_cast<size_t>(why)]) + ": " + m.field];
  }

  Original original_;
  Plan plan_;
};

void mutate(const std::string& name, const std::vector<Plan>& plans) {
  uint64_t mutants = 0, caught = 0;
  std::map<std::string, uint64_t> proven;
  for (const Plan& plan : plans) {
    Mutator m(plan);
    m.run();
    mutants += m.mutants;
    caught += m.caught;
    for (const auto& [why, count] : m.proven) proven[why] += count;
  }
  std::printf("%-30s %7llu mutants, %7llu caught", name.c_str(), static_cast<unsigned long long>(mutants),
              static_cast<unsigned long long>(caught));
  uint64_t rest = mutants - caught;
  for (const auto& [why, count] : proven) {
    std::printf(", %llu %s", static_cast<unsigned long long>(count), why.c_str());
    rest -= count;
  }
  std::printf("\n");
  EXPECT_EQ(rest, 0u);
  EXPECT_GT(caught, mutants / 10 * 9);
}

TEST(Mutation, every_planner_of_few_ranks) {
  for (const CatalogEntry& e : catalog()) {
    std::vector<Plan> plans;
    for (uint32_t n = 1; n <= (HKT_SANITIZED ? 5u : 8u); ++n)
      for (uint32_t root = 0; root < (e.rooted ? n : 1); ++root) plans.push_back(e.plan(n, root));
    mutate(std::string(collective_name(e.collective)) + " " + e.name, plans);
  }
}

// What the planners do not use: dependencies, scratch, ranges of blocks.
TEST(Mutation, plans_by_hand) {
  mutate("staged broadcast", {staged_broadcast()});
  mutate("two ahead", {two_ahead()});
  mutate("strided", {strided()});
  mutate("several operands", {several_operands()});
}

}  // namespace
}  // namespace hocket
