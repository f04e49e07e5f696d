// Runs all lanes of all ranks of a plan by the step driver, in one thread, until they have finished: the frame that the
// passes of verify share. Which lane runs first does not matter to them: a plan is a network of queues with one
// producer and one consumer each, its results do not hang on timing.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/drive.h"
#include "schedule/wiring.h"

namespace hocket {

// One link in motion: what the passes touch for each message, kept together.
struct Flow {
  uint32_t pushed = 0, popped = 0;
  uint32_t first = 0;     // as in PlanLink
  uint32_t consumer = 0;  // as in PlanLink
};

enum class Room : uint8_t { unbounded, bounded };  // whether pushes may have to wait

class Network {
 public:
  Network(const Plan& plan, const Wiring& wiring, uint32_t rounds, Room room);

  const Plan& plan() const { return plan_; }
  const Wiring& wiring() const { return wiring_; }
  uint32_t rounds() const { return rounds_; }

  // Runs until all lanes have finished, or the machine has failed, or nothing can move: then the error says who waits
  // for whom. Machine: that of run_lane, without dep_done, and
  //   void enter(uint32_t rank, uint32_t lane)  // global lane: the calls that follow come from this one
  //   bool failed() const
  // Its execute calls pushed and popped for each link it moves.
  template <class Machine>
  Status run(Machine& machine);

  // To be called by the machine: it has pushed or popped a message, so the lane at the other end may be able to move.
  void pushed(uint32_t link) {
    ++flows_[link].pushed;
    wake(flows_[link].consumer, Block{Wait::pop, link});
  }
  void popped(uint32_t link) {
    ++flows_[link].popped;
    if (room_ == Room::bounded) wake(wiring_.links[link].producer, Block{Wait::push, link});
  }
  const Flow& flow(uint32_t link) const { return flows_[link]; }
  const Cursor& cursor(uint32_t lane) const { return cursors_[lane]; }

 private:
  struct Block {
    Wait kind = Wait::dep;
    uint32_t link = 0;  // not for dep
    friend bool operator==(const Block&, const Block&) = default;
  };
  enum class State : uint8_t { runnable, blocked, finished };

  template <class Machine>
  struct WithDeps;

  void wake(uint32_t lane, Block on) {
    if (state_[lane] != State::blocked || !(blocks_[lane] == on)) return;
    state_[lane] = State::runnable;
    runnable_.push_back(lane);
  }
  bool dep_done(uint32_t lane, Dep dep, uint32_t round) const {
    const Cursor& c = cursors_[lane];
    return c.round > round || (c.round == round && c.step > dep.step) || state_[lane] == State::finished;
  }
  // The lane can run no further: it has finished, or waits.
  void stopped(uint32_t rank, uint32_t lane, bool finished);
  bool still_waits(uint32_t lane) const;
  Status deadlock() const;
  uint32_t waits_for(uint32_t lane, std::string& text) const;

  const Plan& plan_;
  const Wiring& wiring_;
  uint32_t rounds_;
  Room room_;
  std::vector<Flow> flows_;
  std::vector<Cursor> cursors_;  // by global lane
  std::vector<State> state_;
  std::vector<Block> blocks_;  // of blocked lanes
  std::vector<uint32_t> runnable_;
  uint32_t unfinished_ = 0;
};

// The machine as run_lane sees it: dependencies are answered from the cursors of the rank's lanes.
template <class Machine>
struct Network::WithDeps {
  Network& network;
  Machine& machine;
  uint32_t first_lane;

  bool dep_done(Dep dep, uint32_t round) { return network.dep_done(first_lane + dep.lane, dep, round); }
  bool pop_ready(uint32_t k) { return machine.pop_ready(k); }
  bool push_ready(uint32_t k, const Step& s) { return machine.push_ready(k, s); }
  void execute(const Step& s, const Cursor& c) { machine.execute(s, c); }
};

template <class Machine>
Status Network::run(Machine& machine) {
  while (!runnable_.empty() && !machine.failed()) {
    const uint32_t lane = runnable_.back();
    runnable_.pop_back();
    const uint32_t rank = wiring_.lane_rank[lane];
    machine.enter(rank, lane);
    WithDeps<Machine> with_deps{*this, machine, wiring_.first_lane[rank]};
    const bool finished = run_lane(RankSource{plan_.ranks[rank]}, cursors_[lane], rounds_, with_deps);
    stopped(rank, lane, finished);
  }
  if (machine.failed() || unfinished_ == 0) return {};
  return deadlock();
}

}  // namespace hocket
