// Vector clocks over the lanes of all ranks: which step of which lane has happened before which, whatever the timing.
// Internal to verify.
//
// Edges: a lane's own order; push -> pop of a message; pop k -> push k + depth of a link (its slot is free again); a
// dependency -> the step that waits for it; a rank's entry -> pushes into its memory (direct links, by the grant).
// Credits order by the full depth: that is how far a producer may run ahead, while the effective depth is how far it
// can run for sure.
//
// An event is a (lane, time). A lane's first step has time 2; time 1 is the entry into the call, which a rank's lanes
// know of as that of its first lane.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/lower.h"
#include "schedule/run_all.h"

namespace hocket {

struct Moment {
  uint32_t lane = 0;  // global
  uint32_t time = 0;  // 0: none
  friend bool operator==(const Moment&, const Moment&) = default;
};
inline constexpr uint32_t kEntryTime = 1;

class HappensBefore {
 public:
  // Without a lowering links are unbounded slots. Both must outlive this.
  HappensBefore(Network& network, const Lowering* lowering);

  void enter(uint32_t rank, uint32_t lane);
  // A step begins: all that it has waited for happened before it. Then the caller looks at the step's accesses. Then
  // the step ends: its pops and pushes move the network's links.
  void begin(const Step& s, const Cursor& c);
  void end(const Step& s, const Cursor& c);

  Moment now() const { return {lane_, clock_[lane_]}; }
  // Before the step at hand of the lane that was entered.
  bool before(Moment e) const { return clock_[e.lane] >= e.time; }

  // Before begin: the push of the message that is popped next on a link, and what had happened before it.
  Moment sender(uint32_t link) const { return snapshots_[next_message(link)].event; }
  bool sender_knows(uint32_t link, Moment e) const { return snapshot(next_message(link))[e.lane] >= e.time; }

  // After the run: the clock of a rank that has returned from the call.
  std::vector<uint32_t> returned(uint32_t rank) const;
  // "rank 1 lane 0 step 2 (chunk 3 of out) round 1", "the entry of rank 1"
  std::string name(Moment e) const;

 private:
  static constexpr uint32_t kNone = ~0u;
  static constexpr uint32_t kPad = 16;  // clocks are whole vectors

  struct Snapshot {
    Moment event;
    uint32_t uses = 0;  // until it can be used again
  };

  uint32_t* clock_of(uint32_t lane) { return clocks_.data() + size_t{lane} * width_; }
  const uint32_t* snapshot(uint32_t id) const { return snapshot_clocks_.data() + size_t{id} * width_; }
  uint32_t next_message(uint32_t link) const {
    return pushes_[sent(network_.wiring().links[link], network_.flow(link).popped)];
  }
  static void join(uint32_t* into, const uint32_t* from, size_t width);
  void learn(uint32_t id);  // the lane at hand learns what snapshot `id` knows
  void release(uint32_t id) {
    if (--snapshots_[id].uses == 0) free_.push_back(id);
  }
  bool is_mapped(const PlanLink& l) const { return lowering_ && lowering_->protocol[l.tag] == Protocol::mapped; }
  uint32_t sent(const PlanLink& l, uint32_t k) const { return l.first * network_.rounds() + k; }

  Network& network_;
  const Lowering* lowering_;
  size_t width_;
  std::vector<uint32_t> clocks_;  // by lane
  std::vector<Snapshot> snapshots_;
  std::vector<uint32_t> snapshot_clocks_, free_;
  std::vector<uint32_t> pushes_,
      pops_;  // snapshots by message of all rounds; pops_ only where a credit or a drain asks for them
  std::vector<uint32_t>
      awaited_;  // by global step: which dependency target it is, kNone if none. Empty without dependencies
  std::vector<uint32_t> targets_;  // snapshots by target * rounds + round
  uint32_t rank_ = 0, lane_ = 0;
  uint32_t* clock_ = nullptr;
};

// Whether every rank's return follows every rank's entry. `wiring` is that of `plan`.
Status verify_barrier(const Plan& plan, const Wiring& wiring);

}  // namespace hocket
