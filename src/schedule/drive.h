// The step driver: the one place that knows in which order a lane's steps run and what each waits for. The CPU engine,
// verify, simulate and the kernels all use it, each with its own Machine.
//
// Source:  const Step& or Step step(lane, i); uint32_t steps(lane); Dep dep(lane, i, d)
// Machine: bool dep_done(Dep, uint32_t round)  // has step dep.step of lane dep.lane finished in `round`
//          bool pop_ready(uint32_t link), bool push_ready(uint32_t link, const Step&)   // once true, true until used
//          void execute(const Step&, const Cursor&)                                     // all its waits have ended
//
// A step first acquires all dependencies, pops and pushes, then executes: lanes never block one another half-way
// through a step. A waiter resumes at the condition that blocked it, so fan-in of k links costs k polls, not k*k.
#pragma once

#include "schedule/step.h"

namespace hocket {

struct Cursor {
  uint32_t lane = 0;
  uint32_t round = 0;
  uint32_t step = 0;
  uint32_t waiting = 0;  // index of the condition waited for: dependencies, then pops, then pushes
};

// What a blocked cursor waits for.
enum class Wait : uint8_t { dep, pop, push };
HKT_HD constexpr Wait wait_kind(const Step& s, const Cursor& c) {
  return c.waiting < s.ndep ? Wait::dep : c.waiting < uint32_t{s.ndep} + s.nrecv ? Wait::pop : Wait::push;
}
// Index of the blocking link in the rank's in or out table (pop, push).
HKT_HD constexpr uint32_t wait_link(const Step& s, const Cursor& c) {
  const uint32_t k = c.waiting - s.ndep;
  return k < s.nrecv ? s.recv + k : s.send + (k - s.nrecv);
}

template <class Source, class Machine>
HKT_HD constexpr bool step_ready(const Source& source, const Step& s, Cursor& c, Machine& m) {
  for (; c.waiting < s.ndep; ++c.waiting) {
    const Dep d = source.dep(c.lane, c.step, c.waiting);
    if (d.lag <= c.round && !m.dep_done(d, c.round - d.lag)) return false;
  }
  for (; c.waiting < uint32_t{s.ndep} + s.nrecv; ++c.waiting)
    if (!m.pop_ready(s.recv + (c.waiting - s.ndep))) return false;
  for (; c.waiting < uint32_t{s.ndep} + s.nrecv + s.nsend; ++c.waiting)
    if (!m.push_ready(s.send + (c.waiting - s.ndep - s.nrecv), s)) return false;
  return true;
}

// Runs the lane of `c` until it blocks (false) or has finished all rounds (true).
template <class Source, class Machine>
HKT_HD constexpr bool run_lane(const Source& source, Cursor& c, uint32_t rounds, Machine& m) {
  const uint32_t steps = source.steps(c.lane);
  for (; c.round != rounds; ++c.round, c.step = 0) {
    for (; c.step < steps; ++c.step) {
      const Step& s = source.step(c.lane, c.step);
      if (!step_ready(source, s, c, m)) return false;
      m.execute(s, c);
      c.waiting = 0;
    }
  }
  return true;
}

}  // namespace hocket
