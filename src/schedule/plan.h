// A plan as arrays: what the planner's step generator yields for one rank, or for all of them. Immutable once made; any
// thread may read it. All readers (verify, simulate, text, the CPU engine) take this form.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/step.h"

namespace hocket {

struct Lane {
  uint32_t first = 0;  // index of its first step in RankPlan::steps
  uint32_t count = 0;
};

// The program of one rank.
struct RankPlan {
  std::vector<Step> steps;          // lane after lane
  std::vector<uint32_t> first_dep;  // per step: index of its first dependency in deps
  std::vector<Dep> deps;
  std::vector<Lane> lanes;
  std::vector<Peer> in, out;  // link tables
  Cost cost;

  friend bool operator==(const RankPlan& a, const RankPlan& b);
};

struct PlanInfo {
  std::string name;  // "ring"
  Collective collective = Collective::all_reduce;
  uint32_t nranks = 1;
  uint32_t root = 0;                     // rooted collectives only
  std::array<uint32_t, kBufs> chunks{};  // by Buf
  uint32_t message_blocks = 0;           // the most blocks that one message carries
};

struct Plan {
  PlanInfo info;
  std::vector<RankPlan> ranks;
};

// Header-only so that constexpr planners meet it in one place: catalog.cc.
template <class Planner>
PlanInfo plan_info(const Planner& p) {
  PlanInfo info;
  info.name = Planner::name;
  info.collective = Planner::collective;
  info.nranks = p.n;
  if constexpr (requires { p.root; }) info.root = p.root;
  for (uint32_t b = 0; b < kBufs; ++b) info.chunks[b] = p.chunks(static_cast<Buf>(b));
  info.message_blocks = p.message_blocks();
  return info;
}

template <class Planner>
RankPlan rank_plan(const Planner& p, uint32_t rank) {
  RankPlan r;
  const uint32_t lanes = p.lanes(rank);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    const uint32_t steps = p.steps(rank, lane);
    r.lanes.push_back({static_cast<uint32_t>(r.steps.size()), steps});
    for (uint32_t i = 0; i < steps; ++i) {
      const Step s = p.step(rank, lane, i);
      r.steps.push_back(s);
      r.first_dep.push_back(static_cast<uint32_t>(r.deps.size()));
      for (uint32_t d = 0; d < s.ndep; ++d) r.deps.push_back(p.dep(rank, lane, i, d));
    }
  }
  for (uint32_t k = 0; k < p.links_in(rank); ++k) r.in.push_back(p.in(rank, k));
  for (uint32_t k = 0; k < p.links_out(rank); ++k) r.out.push_back(p.out(rank, k));
  r.cost = p.cost(rank);
  return r;
}

template <class Planner>
Plan full_plan(const Planner& p) {
  Plan plan{plan_info(p), {}};
  plan.ranks.reserve(p.n);
  for (uint32_t rank = 0; rank < p.n; ++rank) plan.ranks.push_back(rank_plan(p, rank));
  return plan;
}

}  // namespace hocket
