// Planted mistakes: a plan (or lowering) that is right but for one thing. Each must be caught by the pass that is meant
// to catch it, with a text that names rank, step and chunk.
#pragma once

#include <cstdio>
#include <functional>

#include "schedule/plan_tools.h"

namespace hocket {

enum class Pass { validate, data, lower, races };

struct Mistake {
  const char* name;
  Pass pass;  // the first to see it; those before must let it through
  Plan plan;
  std::vector<std::string> text;  // what the error must say, beside rank, step and chunk
  LowerOptions lower = {};
  bool drain = true;  // of a lowering with mapped links
  DataDemands demands = {};
};

// Runs the passes in their order until one finds something: which, and what.
struct Finding {
  Pass pass = Pass::races;
  std::string text;
};

inline Finding examine(const Mistake& m, const Plan& plan) {
  Status valid = validate(plan);
  if (!valid.ok()) return {Pass::validate, valid.error().text};
  Result<DataReport> report = verify_data(plan, m.demands);
  if (!report.ok()) return {Pass::data, report.error().text};
  Result<Lowering> lowering = lower(plan, m.lower);
  if (!lowering.ok()) return {Pass::lower, lowering.error().text};
  if (!m.drain) lowering->drain = false;
  for (Placement placement : kPlacements) {
    Status race = verify_races(plan, *lowering, placement);
    if (!race.ok()) return {Pass::races, race.error().text};
  }
  return {};
}

inline Step& step(Plan& plan, uint32_t rank, uint32_t lane, uint32_t i) {
  return plan.ranks[rank].steps[plan.ranks[rank].lanes[lane].first + i];
}

// The plan after `change` with the cost that it has then.
inline Plan changed(Plan plan, const std::function<void(Plan&)>& change) {
  change(plan);
  declare(plan);
  return plan;
}

inline Plan with_step(Plan plan, uint32_t rank, uint32_t i, const std::function<void(Step&)>& change) {
  return changed(std::move(plan), [&](Plan& p) { change(step(p, rank, 0, i)); });
}

// Without step i of a rank with one lane and no dependencies.
inline void drop(Plan& plan, uint32_t rank, uint32_t i) {
  RankPlan& r = plan.ranks[rank];
  r.steps.erase(r.steps.begin() + i);
  r.first_dep.pop_back();
  --r.lanes[0].count;
}

inline void append(Plan& plan, uint32_t rank, const Step& s) {
  RankPlan& r = plan.ranks[rank];
  r.steps.push_back(s);
  r.first_dep.push_back(static_cast<uint32_t>(r.deps.size()));
  ++r.lanes.back().count;
}

inline constexpr Protocol S = Protocol::slot, M = Protocol::mapped, D = Protocol::direct;

inline LowerOptions by_tag(std::array<Protocol, kMaxTags> protocol) { return {protocol, 8, 4}; }
inline LowerOptions links(uint32_t depth, uint32_t ack_batch) { return {{}, depth, ack_batch}; }

using Mistakes = std::vector<Mistake>;

// Each is caught by its pass, and the text says where and what.
inline void expect_caught(const Mistakes& list) {
  for (const Mistake& m : list) {
    const Finding f = examine(m, m.plan);
    SCOPED_TRACE(std::string(m.name) + ": " + f.text);
    if (std::getenv("HOCKET_TEST_PRINT")) std::printf("%s\n    %s\n", m.name, f.text.c_str());
    EXPECT_FALSE(f.text.empty()) << "not caught";
    EXPECT_EQ(static_cast<int>(f.pass), static_cast<int>(m.pass)) << "caught by another pass";
    for (const char* word : {"rank ", "step", "chunk"})
      EXPECT_NE(f.text.find(word), std::string::npos) << "does not say " << word;
    for (const std::string& text : m.text) EXPECT_NE(f.text.find(text), std::string::npos) << "does not say " << text;
  }
}
// What the mistakes were planted in is right, so it is the mistake that was caught.
inline void expect_right(const std::vector<Plan>& plans) {
  for (const Plan& plan : plans) {
    Mistake none{"none", Pass::races, {}, {}, links(2, 1)};
    const Finding f = examine(none, plan);
    EXPECT_EQ(f.text, "") << plan.info.name;
  }
}

}  // namespace hocket
