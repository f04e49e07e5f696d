// The CPU engine: runs a rank's plan over links on the caller's thread. Steady state: no allocation, no lock, no clock,
// no log. One engine per communicator, used by the communicator's thread only.
//
// A call is run in one go (run) or in pieces (begin, poll until finished), one at a time.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/run.h"
#include "engine/wait.h"

namespace hocket {

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

  // The same in pieces: begun().poll() until finished(), then begin the next or abandon(). `plan` and `call` stay where
  // they are until then. Never waits.
  void begin(const BoundPlan& plan, const Call& call);
  Run& begun() { return *begun_; }
  bool finished() const;  // and all that was pushed has left this process's memory
  // Buffers are the caller's again; links may be in the middle of a call.
  void abandon();

  void set_trace(std::vector<TraceEntry>* trace) { trace_ = trace; }

 private:
  friend class Run;
  // Advances to the end and until all that was pushed has left.
  Status finish(Run& run);
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
  std::optional<Run> begun_;
};

}  // namespace hocket
