// Outstanding: all that is outstanding on a communicator. Collectives run one at a time in the order of issue, which is
// the same on all ranks; point-to-point transfers go on beside them. Moved along by whoever has entered or visits the
// communicator's gate: its own waits, and those of the thread that issued them (thread.h).
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "comm/operations.h"
#include "comm/p2p.h"
#include "comm/request.h"
#include "comm/stages.h"
#include "engine/engine.h"
#include "engine/wait.h"
#include "transport/call_record.h"

namespace hocket {

class Communicator;

// An operation as its caller described it, with copies of all but the buffers.
struct Task {
  enum class Kind : uint8_t {
    plan,      // a collective that a plan is run for, or one after the other
    parts,     // a collective of transfers
    transfer,  // a send or receive
  };
  Kind kind = Kind::plan;
  CallRecord record;                    // collectives
  Call call;                            // plan: of the run
  const BoundPlan* plan = nullptr;      // the communicator's
  std::shared_ptr<Stages> stages;       // not null: what is run, and how often
  std::vector<uint64_t> counts;         // of call, if it has them
  std::vector<uint64_t> displs;         // the same
  std::shared_ptr<const Operation> op;  // of call, if a program made it: kept from being destroyed
  std::vector<TransferSpec> parts;      // on the internal channel; their tags are given when they begin
  TransferSpec transfer;
  int64_t timeout_ms = -1;
  std::string label;
};

class Outstanding final : public Supervisor {
 public:
  explicit Outstanding(Communicator& comm);
  Outstanding(const Outstanding&) = delete;
  Outstanding& operator=(const Outstanding&) = delete;

  // `tally` expects it already, and is told of its end whatever happens.
  void submit(Task&& task, Tally& tally);
  // Moves what can be moved, with and without what the transports have: true if anything moved.
  bool advance();
  bool poll();
  // What follows submit(). A caller may never wait: its small sends are done at once, and it has to hear of faults.
  void kick() {
    (void)advance();
    check_now_and_then();
  }
  // Faults, deadlines; at least every 250 ms of a wait.
  void check();
  // The same if it is due, with all that this thread has outstanding: for loops that are never in a wait for long.
  void check_now_and_then();
  // Returns when `done` has come true. Everything that this thread has outstanding goes on meanwhile.
  template <class Done>
  void wait(Done&& done);

  // Nothing has to be moved any more: all is done, and what was pushed has left this process.
  bool idle() const;
  bool collectives() const { return !queue_.empty(); }
  Communicator& comm() const { return comm_; }

  // The communicator is destroyed: sends what had been promised, and ends the rest.
  void shut_down();

 private:
  struct Collective {
    Task task;
    Tally* tally = nullptr;
    Tally parts;
    Collective* next = nullptr;
  };
  class Everything;
  class Parts;

  bool unfinished() const { return !queue_.empty() || !p2p_.idle(); }
  Status check(const Waiting&) override;  // Supervisor: of all that this thread has outstanding
  Status activate(Collective& c);
  void begin_run(Task& t);
  bool next_run(Task& t);
  bool advance_queue();
  void threw(const std::exception& e);
  void fail(const Error& e);
  void recycle(Collective* c);

  Communicator& comm_;
  Waiter waiter_;
  PointToPoint p2p_;
  int64_t next_check_ns_ = 0;
  Queue<Collective> queue_;
  bool active_ = false;  // the first of them has begun
  std::deque<Collective> collectives_;
  std::vector<Collective*> free_;
};

// What a wait polls: this communicator, and all that the thread has outstanding elsewhere.
class Outstanding::Everything : public Waiting {
 public:
  explicit Everything(Outstanding& own) : own_(own) {}
  bool poll() override;
  Blocked blocked() const override { return {}; }
  bool elsewhere() const override;

 private:
  Outstanding& own_;
};

template <class Done>
void Outstanding::wait(Done&& done) {
  class Until final : public Everything {
   public:
    Until(Outstanding& own, Done& is_done) : Everything(own), done_(is_done) {}
    bool poll() override { return Everything::poll() || done_(); }

   private:
    Done& done_;
  } until(*this, done);
  while (!done()) {
    try {
      (void)waiter_.wait(until);  // its supervisor ends operations, never the wait
      check_now_and_then();
    } catch (const std::exception& e) {
      threw(e);
    }
  }
}

}  // namespace hocket
