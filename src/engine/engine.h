// The CPU engine: runs a rank's plan over links on the caller's thread. Steady state: no allocation, no lock, no clock,
// no log. One engine per communicator, used by the communicator's thread only.
//
// A call is run in one go (run) or in pieces (begin, poll, end), one at a time.
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

  // The same in pieces: begin(), then begun()->poll() until end(), or abandon(). `plan` and `call` stay where they are
  // until then. Never waits.
  void begin(const BoundPlan& plan, const Call& call);
  Run* begun() { return begun_.has_value() ? &begun_->run : nullptr; }
  // True if all is done and all that was pushed has left this process's memory, and when nothing had begun.
  bool end();
  // The buffers of a call that has begun, if one has, are the caller's again; links may be in the middle of it.
  void abandon() { begun_.reset(); }

  // For tests and tools: messages so far whose payload was in no slot.
  uint64_t without_copy() const { return without_copy_; }
  void set_trace(std::vector<TraceEntry>* trace) { trace_ = trace; }

 private:
  friend class Run;
  // What links have been lent is the caller's again when this goes, however the call ends: by an exception, too.
  class Lent {
   public:
    explicit Lent(Waiter& waiter) : waiter_(&waiter) {}
    ~Lent() {
      if (waiter_ != nullptr) waiter_->reclaim();
    }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    // All of it has been sent.
    void returned() { waiter_ = nullptr; }

   private:
    Waiter* waiter_;
  };
  struct Begun {
    Begun(Engine& engine, const BoundPlan& plan, const Call& call);
    Run run;
    Lent lent;
  };
  // Room for the lanes, the widest step and the scratch of this call; allocates only when a larger one comes.
  void prepare(const BoundPlan& plan, const Shape& shape);

  Waiter& waiter_;
  std::vector<Cursor> cursors_;
  std::vector<const void*> operands_;
  std::vector<Target> targets_;
  std::vector<Placed> placed_;  // messages of the step being executed
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  std::vector<Line> scratch_;
  std::vector<Line> fetched_;  // parts of messages that are in other processes
  std::vector<TraceEntry>* trace_ = nullptr;
  uint64_t without_copy_ = 0;
  std::optional<Begun> begun_;
};

}  // namespace hocket
