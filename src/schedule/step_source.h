// StepSource: the steps of a plan for all of its ranks, made when asked for. A reader that needs each step once or
// twice (simulate) can so walk plans that would not fit into memory as arrays.
#pragma once

#include "schedule/plan.h"

namespace hocket {

// The members of a planner (see schedule/step.h), behind one virtual call each. Immutable; any thread.
class StepSource {
 public:
  StepSource() = default;
  StepSource(const StepSource&) = delete;
  StepSource& operator=(const StepSource&) = delete;
  virtual ~StepSource() = default;

  virtual const PlanInfo& info() const = 0;
  virtual uint32_t lanes(uint32_t rank) const = 0;
  virtual uint32_t steps(uint32_t rank, uint32_t lane) const = 0;
  virtual Step step(uint32_t rank, uint32_t lane, uint32_t i) const = 0;
  virtual Dep dep(uint32_t rank, uint32_t lane, uint32_t i, uint32_t d) const = 0;
  virtual uint32_t links_in(uint32_t rank) const = 0;
  virtual uint32_t links_out(uint32_t rank) const = 0;
  virtual Peer in(uint32_t rank, uint32_t k) const = 0;
  virtual Peer out(uint32_t rank, uint32_t k) const = 0;
};

template <class Planner>
class PlannerSource final : public StepSource {
 public:
  explicit PlannerSource(const Planner& p) : p_(p), info_(plan_info(p)) {}

  const PlanInfo& info() const override { return info_; }
  uint32_t lanes(uint32_t rank) const override { return p_.lanes(rank); }
  uint32_t steps(uint32_t rank, uint32_t lane) const override { return p_.steps(rank, lane); }
  Step step(uint32_t rank, uint32_t lane, uint32_t i) const override { return p_.step(rank, lane, i); }
  Dep dep(uint32_t rank, uint32_t lane, uint32_t i, uint32_t d) const override { return p_.dep(rank, lane, i, d); }
  uint32_t links_in(uint32_t rank) const override { return p_.links_in(rank); }
  uint32_t links_out(uint32_t rank) const override { return p_.links_out(rank); }
  Peer in(uint32_t rank, uint32_t k) const override { return p_.in(rank, k); }
  Peer out(uint32_t rank, uint32_t k) const override { return p_.out(rank, k); }

 private:
  Planner p_;
  PlanInfo info_;
};

// Of a plan that lives at least as long.
class PlanSource final : public StepSource {
 public:
  explicit PlanSource(const Plan& plan) : plan_(plan) {}

  const PlanInfo& info() const override { return plan_.info; }
  uint32_t lanes(uint32_t rank) const override { return static_cast<uint32_t>(plan_.ranks[rank].lanes.size()); }
  uint32_t steps(uint32_t rank, uint32_t lane) const override { return plan_.ranks[rank].lanes[lane].count; }
  Step step(uint32_t rank, uint32_t lane, uint32_t i) const override {
    return plan_.ranks[rank].steps[plan_.ranks[rank].lanes[lane].first + i];
  }
  Dep dep(uint32_t rank, uint32_t lane, uint32_t i, uint32_t d) const override {
    const RankPlan& r = plan_.ranks[rank];
    return r.deps[r.first_dep[r.lanes[lane].first + i] + d];
  }
  uint32_t links_in(uint32_t rank) const override { return static_cast<uint32_t>(plan_.ranks[rank].in.size()); }
  uint32_t links_out(uint32_t rank) const override { return static_cast<uint32_t>(plan_.ranks[rank].out.size()); }
  Peer in(uint32_t rank, uint32_t k) const override { return plan_.ranks[rank].in[k]; }
  Peer out(uint32_t rank, uint32_t k) const override { return plan_.ranks[rank].out[k]; }

 private:
  const Plan& plan_;
};

}  // namespace hocket
