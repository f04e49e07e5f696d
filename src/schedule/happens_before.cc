#include "schedule/happens_before.h"

#include <algorithm>

namespace hocket {

HappensBefore::HappensBefore(Network& network, const Lowering* lowering)
    : network_(network), lowering_(lowering), width_((network.wiring().lanes() + kPad - 1) / kPad * kPad) {
  const Wiring& w = network.wiring();
  const Plan& plan = network.plan();
  clocks_.resize(width_ * w.lanes());
  for (uint32_t lane = 0; lane < w.lanes(); ++lane) {
    clock_of(lane)[lane] = kEntryTime;
    clock_of(lane)[w.first_lane[w.lane_rank[lane]]] = kEntryTime;
  }
  pushes_.resize(size_t{w.messages} * network.rounds(), kNone);
  pops_.resize(pushes_.size(), kNone);
  uint32_t targets = 0;
  for (uint32_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& p = plan.ranks[r];
    if (!p.deps.empty()) awaited_.resize(w.first_step.back(), kNone);
    for (const Dep& d : p.deps) {
      uint32_t& target = awaited_[w.first_step[r] + p.lanes[d.lane].first + d.step];
      if (target == kNone) target = targets++;
    }
  }
  targets_.resize(size_t{targets} * network.rounds(), kNone);
}

void HappensBefore::enter(uint32_t rank, uint32_t lane) {
  rank_ = rank;
  lane_ = lane;
  clock_ = clock_of(lane);
}

void HappensBefore::join(uint32_t* into, const uint32_t* from, size_t width) {
  for (size_t i = 0; i < width; i += kPad)
    for (size_t j = i; j < i + kPad; ++j) into[j] = into[j] < from[j] ? from[j] : into[j];
}

void HappensBefore::learn(uint32_t id) {
  if (!before(snapshots_[id].event)) join(clock_, snapshot(id), width_);
}

void HappensBefore::begin(const Step& s, const Cursor& c) {
  const Wiring& w = network_.wiring();
  const RankSource source{network_.plan().ranks[rank_]};
  for (uint32_t d = 0; d < s.ndep; ++d) {
    const Dep dep = source.dep(c.lane, c.step, d);
    if (dep.lag > c.round) continue;
    const uint32_t target = awaited_[w.first_step[rank_] + source.plan.lanes[dep.lane].first + dep.step];
    learn(targets_[size_t{target} * network_.rounds() + c.round - dep.lag]);
  }
  for (uint32_t k = 0; k < s.nrecv; ++k) {
    const uint32_t link = w.first_in[rank_] + s.recv + k;
    const uint32_t id = pushes_[sent(w.links[link], network_.flow(link).popped)];
    learn(id);
    release(id);
  }
  for (uint32_t k = 0; k < s.nsend; ++k) {
    const uint32_t link = w.out[w.first_out[rank_] + s.send + k];
    const PlanLink& l = w.links[link];
    if (!lowering_) continue;
    const uint32_t pushed = network_.flow(link).pushed;
    if (pushed >= lowering_->depth) {
      const uint32_t id = pops_[sent(l, pushed - lowering_->depth)];
      learn(id);
      release(id);
    }
    if (lowering_->protocol[l.tag] == Protocol::direct) {
      uint32_t& entry = clock_[w.first_lane[l.destination]];
      entry = std::max(entry, kEntryTime);
    }
  }
  ++clock_[lane_];
}

void HappensBefore::end(const Step& s, const Cursor& c) {
  const Wiring& w = network_.wiring();
  const uint32_t rounds = network_.rounds();
  uint32_t id;
  if (free_.empty()) {
    id = static_cast<uint32_t>(snapshots_.size());
    snapshots_.emplace_back();
    snapshot_clocks_.resize(snapshot_clocks_.size() + width_);
  } else {
    id = free_.back();
    free_.pop_back();
  }
  uint32_t uses = 0;
  if (!awaited_.empty()) {
    const uint32_t target = awaited_[w.first_step[rank_] + network_.plan().ranks[rank_].lanes[c.lane].first + c.step];
    if (target != kNone) {
      targets_[size_t{target} * rounds + c.round] = id;
      ++uses;
    }
  }
  for (uint32_t k = 0; k < s.nrecv; ++k) {
    const uint32_t link = w.first_in[rank_] + s.recv + k;
    const PlanLink& l = w.links[link];
    const uint32_t popped = network_.flow(link).popped, total = l.messages * rounds;
    if (lowering_ && (uint64_t{popped} + lowering_->depth < total || (is_mapped(l) && popped + 1 == total))) {
      pops_[sent(l, popped)] = id;
      ++uses;
    }
    network_.popped(link);
  }
  for (uint32_t k = 0; k < s.nsend; ++k) {
    const uint32_t link = w.out[w.first_out[rank_] + s.send + k];
    pushes_[sent(w.links[link], network_.flow(link).pushed)] = id;
    ++uses;
    network_.pushed(link);
  }
  if (uses == 0) {
    free_.push_back(id);
    return;
  }
  snapshots_[id] = {now(), uses};
  std::copy_n(clock_, width_, snapshot_clocks_.begin() + static_cast<ptrdiff_t>(id * width_));
}

std::vector<uint32_t> HappensBefore::returned(uint32_t rank) const {
  const Wiring& w = network_.wiring();
  std::vector<uint32_t> clock(width_, 0);
  for (uint32_t lane = w.first_lane[rank]; lane < w.first_lane[rank + 1]; ++lane)
    join(clock.data(), clocks_.data() + lane * width_, width_);
  if (!lowering_ || !lowering_->drain) return clock;
  for (uint32_t k = w.first_out[rank]; k < w.first_out[rank + 1]; ++k) {
    const PlanLink& l = w.links[w.out[k]];
    if (is_mapped(l)) join(clock.data(), snapshot(pops_[sent(l, l.messages * network_.rounds() - 1)]), width_);
  }
  return clock;
}

std::string HappensBefore::name(Moment e) const {
  const Wiring& w = network_.wiring();
  const uint32_t rank = w.lane_rank[e.lane], lane = e.lane - w.first_lane[rank];
  if (e.time <= kEntryTime) return format("the entry of rank %u", rank);
  const uint32_t steps = network_.plan().ranks[rank].lanes[lane].count, done = e.time - kEntryTime - 1;
  return step_name(network_.plan(), rank, lane, done % steps) + format(" round %u", done / steps);
}

namespace {

struct BarrierMachine {
  Network& network;
  HappensBefore order;
  uint32_t first_in = 0;

  void enter(uint32_t rank, uint32_t lane) {
    first_in = network.wiring().first_in[rank];
    order.enter(rank, lane);
  }
  bool failed() const { return false; }
  bool pop_ready(uint32_t k) const {
    const Flow& f = network.flow(first_in + k);
    return f.pushed != f.popped;
  }
  bool push_ready(uint32_t, const Step&) const { return true; }
  void execute(const Step& s, const Cursor& c) {
    order.begin(s, c);
    order.end(s, c);
  }
};

}  // namespace

Status verify_barrier(const Plan& plan, const Wiring& wiring) {
  Network network(plan, wiring, 1, Room::unbounded);
  BarrierMachine machine{network, HappensBefore(network, nullptr)};
  HKT_TRY(network.run(machine));
  const uint32_t n = plan.info.nranks;
  for (uint32_t r = 0; r < n && n > 1; ++r) {
    if (plan.ranks[r].steps.empty())
      return error(hktInvalidArgument, "rank %u has no step, so it cannot wait for the others in a barrier", r);
    const std::vector<uint32_t> clock = machine.order.returned(r);
    for (uint32_t other = 0; other < n; ++other)
      if (clock[wiring.first_lane[other]] < kEntryTime)
        return error(hktInvalidArgument,
                     "rank %u may leave the barrier, after its last step, before rank %u has entered: %s", r, other,
                     step_name(plan, wiring, wiring.first_step[r + 1] - 1).c_str());
  }
  return {};
}

}  // namespace hocket
