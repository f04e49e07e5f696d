// The CPU engine: runs a rank's plan over links on the caller's thread. Steady state: no allocation, no lock, no clock,
// no log. One engine per communicator, used by the communicator's thread only.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/wait.h"
#include "kernels/reduce_cpu.h"
#include "schedule/drive.h"
#include "schedule/plan.h"
#include "schedule/shape.h"
#include "transport/link.h"

namespace hocket {

// A rank's plan tied to this rank's links: ready to run with any buffers. Made once per (planner, root), then only
// read.
struct BoundPlan {
  RankPlan plan;
  PlanInfo info;
  std::vector<Link*> in, out;             // by the plan's link tables; owned by the communicator
  std::array<uint64_t, 5> round_elems{};  // by log2 of the element's size, for the slots of these links

  // Source of the step driver.
  const Step& step(uint32_t lane, uint32_t i) const { return plan.steps[plan.lanes[lane].first + i]; }
  uint32_t steps(uint32_t lane) const { return plan.lanes[lane].count; }
  Dep dep(uint32_t lane, uint32_t i, uint32_t d) const {
    return plan.deps[plan.first_dep[plan.lanes[lane].first + i] + d];
  }
};

// One call: buffers, sizes and arithmetic for a plan.
struct Call {
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t elems = 0;        // of the vector; where the layout is blocks: of the (largest) block
  uint64_t round_elems = 1;  // from round_elems() with the slot size that all links of the communicator have
  // Blocks of different sizes, see BlockLayout; null where they are equal. Not owned: they outlive the run.
  const uint64_t* counts = nullptr;
  const uint64_t* displs = nullptr;
  uint32_t rank = 0;  // needed with counts
  uint32_t elem_size = 1;
  uint32_t signature = 0;                              // of this call, in every message's tag
  uint32_t divisor = 1;                                // post operation: the result is divided by it
  kernels::Kernel fold;                                // nulls for collectives that do not reduce, and with combine
  kernels::ScaleFn scale = nullptr;                    // pre operation: contributions are multiplied by scalar
  alignas(16) std::array<unsigned char, 16> scalar{};  // one element
  hktReduceFn combine = nullptr;                       // the user's operation, in place of fold
  void* context = nullptr;                             // passed to combine, and so is the type
  hktDataType_t type = hktInt8;
  kernels::Stores out_stores = kernels::Stores::temporal;   // for the last write of the output
  kernels::Stores slot_stores = kernels::Stores::temporal;  // for what a peer reads
};

// Where a step's value goes.
struct Target {
  unsigned char* to;
  kernels::Stores stores;
};

// What the engine has executed, when asked to keep it: one entry per step.
struct TraceEntry {
  uint32_t lane, round, step;
};

class Engine {
 public:
  explicit Engine(Waiter& waiter) : waiter_(waiter) {}

  // Runs `call` through `plan` and returns when this rank's part is done: the output is complete, the buffers are free
  // and all that was pushed has left this process's memory. On an error (from the waiter's supervisor) links are left
  // in the middle of a call: the communicator is unusable.
  Status run(const BoundPlan& plan, const Call& call);

  void set_trace(std::vector<TraceEntry>* trace) { trace_ = trace; }

 private:
  friend class Run;
  // Room for the lanes, the widest step and the scratch of this call; allocates only when a larger one comes.
  void prepare(const BoundPlan& plan, const Shape& shape);

  Waiter& waiter_;
  std::vector<Cursor> cursors_;
  std::vector<const void*> operands_;
  std::vector<Target> targets_;
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  std::vector<Line> scratch_;
  std::vector<TraceEntry>* trace_ = nullptr;
};

}  // namespace hocket
