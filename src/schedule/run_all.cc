#include "schedule/run_all.h"

namespace hocket {

Network::Network(const Plan& plan, const Wiring& wiring, uint32_t rounds, Room room)
    : plan_(plan),
      wiring_(wiring),
      rounds_(rounds),
      room_(room),
      flows_(wiring.links.size()),
      cursors_(wiring.lanes()),
      state_(wiring.lanes(), State::runnable),
      blocks_(wiring.lanes()),
      unfinished_(wiring.lanes()) {
  for (size_t i = 0; i < flows_.size(); ++i) flows_[i] = {0, 0, wiring.links[i].first, wiring.links[i].consumer};
  runnable_.reserve(wiring.lanes());
  for (uint32_t lane = wiring.lanes(); lane-- > 0;) {
    cursors_[lane].lane = lane - wiring.first_lane[wiring.lane_rank[lane]];
    runnable_.push_back(lane);
  }
}

void Network::stopped(uint32_t rank, uint32_t lane, bool finished) {
  const uint32_t first = wiring_.first_lane[rank], end = wiring_.first_lane[rank + 1];
  if (finished) {
    state_[lane] = State::finished;
    --unfinished_;
  } else {
    const Cursor& c = cursors_[lane];
    const Step& s = RankSource{plan_.ranks[rank]}.step(c.lane, c.step);
    const Wait kind = wait_kind(s, c);
    uint32_t link = 0;
    if (kind == Wait::pop) link = wiring_.first_in[rank] + wait_link(s, c);
    if (kind == Wait::push) link = wiring_.out[wiring_.first_out[rank] + wait_link(s, c)];
    state_[lane] = State::blocked;
    blocks_[lane] = {kind, link};
  }
  // The lanes of a rank may wait for steps that this one has done meanwhile.
  for (uint32_t other = first; other < end; ++other)
    if (other != lane && state_[other] == State::blocked && blocks_[other].kind == Wait::dep && !still_waits(other))
      wake(other, blocks_[other]);
}

// Of a lane that is blocked on a dependency.
bool Network::still_waits(uint32_t lane) const {
  const uint32_t rank = wiring_.lane_rank[lane];
  const Cursor& c = cursors_[lane];
  const Dep d = RankSource{plan_.ranks[rank]}.dep(c.lane, c.step, c.waiting);
  return !dep_done(wiring_.first_lane[rank] + d.lane, d, c.round - d.lag);
}

// What a blocked lane waits for, as text, and the lane that has to provide it.
uint32_t Network::waits_for(uint32_t lane, std::string& text) const {
  const uint32_t rank = wiring_.lane_rank[lane];
  const Cursor& c = cursors_[lane];
  const RankSource source{plan_.ranks[rank]};
  text += step_name(plan_, rank, c.lane, c.step) + format(" round %u waits ", c.round);
  const Block& b = blocks_[lane];
  if (b.kind == Wait::dep) {
    const Dep d = source.dep(c.lane, c.step, c.waiting);
    text += format("for lane %u step %u of round %u", d.lane, d.step, c.round - d.lag);
    return wiring_.first_lane[rank] + d.lane;
  }
  const PlanLink& l = wiring_.links[b.link];
  const Flow& f = flows_[b.link];
  text += b.kind == Wait::pop
              ? format("for message %u on %s", f.popped, link_name(l).c_str())
              : format("for room on %s, with %u messages in it", link_name(l).c_str(), f.pushed - f.popped);
  return b.kind == Wait::pop ? l.producer : l.consumer;
}

Status Network::deadlock() const {
  uint32_t lane = 0;
  while (state_[lane] != State::blocked) ++lane;
  // Follow who waits for whom; after as many hops as there are lanes we are on the cycle, or at a finished lane.
  std::vector<uint8_t> seen(wiring_.lanes(), 0);
  std::string text;
  while (state_[lane] == State::blocked && !seen[lane]) {
    seen[lane] = 1;
    lane = waits_for(lane, text = {});
  }
  if (state_[lane] != State::blocked)
    return error(hktInvalidArgument, "deadlock: %s, whose other end has finished", text.c_str());
  constexpr uint32_t kShown = 4;
  const uint32_t start = lane;
  std::string cycle;
  uint32_t hops = 0;
  do {
    std::string hop;
    lane = waits_for(lane, hop);
    if (hops < kShown) cycle += (hops ? "; " : "") + hop;
    ++hops;
  } while (lane != start);
  if (hops > kShown) cycle += format("; ... %u more", hops - kShown);
  return error(hktInvalidArgument, "deadlock of %u lanes in a circle: %s", hops, cycle.c_str());
}

}  // namespace hocket
