#include "comm/outstanding.h"

#include <bit>
#include <ctime>

#include "base/deadline.h"
#include "comm/communicator.h"
#include "comm/thread.h"

namespace hocket {
namespace {

constexpr int64_t kPromisedFor = 5'000'000'000;  // ns: to send small messages that were told to be done
constexpr int64_t kLookEvery = 20'000'000;       // ns

}  // namespace

// A collective of transfers, as the watch sees it.
class Outstanding::Parts final : public Waiting {
 public:
  explicit Parts(const PointToPoint& p2p) : p2p_(p2p) {}
  bool poll() override { return false; }
  Blocked blocked() const override { return p2p_.blocked(Channel::internal); }

 private:
  const PointToPoint& p2p_;
};

bool Outstanding::Everything::poll() {
  const bool here = own_.poll(), there = ThisThread::get().progress();
  return here || there;
}

bool Outstanding::Everything::elsewhere() const { return ThisThread::get().others(own_); }

Outstanding::Outstanding(Communicator& comm) : comm_(comm), waiter_(comm.make_waiter(*this)), p2p_(comm, waiter_) {}

void Outstanding::submit(Task&& task, Tally& tally) {
  if (task.kind == Task::Kind::transfer) {
    const Status started = p2p_.start(task.transfer, task.timeout_ms, task.label, tally);
    if (!started.ok()) tally.finish(started.error());
    return;
  }
  if (free_.empty()) free_.push_back(&collectives_.emplace_back());
  Collective* const c = free_.back();
  free_.pop_back();
  c->task = std::move(task);
  c->tally = &tally;
  Call& call = c->task.call;
  if (call.counts != nullptr) call.counts = c->task.counts.data();
  if (call.displs != nullptr) call.displs = c->task.displs.data();
  queue_.push(c);
}

bool Outstanding::idle() const { return !unfinished() && (comm_.watch_.failed() || waiter_.flushed()); }

bool Outstanding::poll() {
  bool moved = false;
  try {
    moved = p2p_.poll();
    moved |= advance_queue();
  } catch (const std::exception& e) {
    threw(e);
  }
  if (comm_.watch_.failed() && unfinished()) {
    fail(comm_.watch_.failed_meanwhile());
    return true;
  }
  return moved;
}

bool Outstanding::advance() {
  try {
    waiter_.progress();
  } catch (const std::exception& e) {
    threw(e);
  }
  return poll();
}

void Outstanding::threw(const std::exception& e) {
  (void)comm_.threw(e);  // stays in the watch
}

bool Outstanding::advance_queue() {
  bool moved = false;
  while (!queue_.empty() && !comm_.watch_.failed()) {
    if (!active_) {
      if (!activate(*queue_.front()).ok()) break;  // the communicator has failed
      active_ = true;
      moved = true;
    }
    Collective& c = *queue_.front();
    if (c.task.kind == Task::Kind::plan) {
      Run* const run = comm_.engine_.begun();
      if (run != nullptr) moved |= run->poll();
      const bool reads = run != nullptr && run->has_read();
      if (!comm_.engine_.end()) break;
      if (reads && !comm_.watch_.confirm().ok()) break;
      if (c.task.stages != nullptr && next_run(c.task)) {
        moved = true;
        continue;
      }
    } else if (!c.parts.done()) {
      break;
    }
    active_ = false;
    recycle(queue_.pop());
    moved = true;
  }
  return moved;
}

// Nothing but a fault of the communicator ends a collective that has begun, so its tally hears of success here.
void Outstanding::recycle(Collective* c) {
  const Status parts = c->parts.result();
  c->parts.reset();
  c->task.op.reset();
  c->task.stages.reset();
  if (parts.ok())
    c->tally->finish();
  else
    c->tally->finish(parts.error());
  free_.push_back(c);
}

Status Outstanding::activate(Collective& c) {
  Task& o = c.task;
  const char* const label = o.label.empty() ? nullptr : o.label.c_str();
  comm_.announce(o.record, o.timeout_ms, label);
  if (o.kind == Task::Kind::plan) {
    if (o.stages == nullptr) begin_run(o);
    return {};
  }
  c.parts.expect(static_cast<uint32_t>(o.parts.size()));
  for (size_t i = 0; i < o.parts.size(); ++i) {
    o.parts[i].tag = static_cast<int32_t>(o.record.seq & INT32_MAX);
    const Status started = p2p_.start(o.parts[i], o.timeout_ms, o.label, c.parts);
    if (started.ok()) continue;
    for (; i < o.parts.size(); ++i) c.parts.finish(started.error());
    return Error(started.error());
  }
  return {};
}

void Outstanding::begin_run(Task& t) {
  t.call.signature = t.record.signature;
  comm_.engine_.begin(*t.plan, t.call);
}

// False: there is none, the call is done. What cannot be run is a fault: the others are in this call already.
bool Outstanding::next_run(Task& t) {
  Order run;
  if (!t.stages->next(run, comm_.staging_)) return false;
  Result<const BoundPlan*> plan = comm_.choose(run.record, run.call);
  if (!plan) {
    (void)comm_.watch_.fail({plan.error().code, comm_.rank(), t.record.seq, plan.error().text});
    return true;
  }
  t.call = run.call;
  t.plan = *plan;
  begin_run(t);
  return true;
}

void Outstanding::check() {
  if (!comm_.watch_.failed() && unfinished()) {
    // What is found stays in the watch.
    if (const Run* const run = comm_.engine_.begun(); run != nullptr)
      (void)comm_.watch_.check(*run);
    else if (active_ && queue_.front()->task.kind == Task::Kind::parts)
      (void)comm_.watch_.check(Parts(p2p_));
    else
      (void)comm_.watch_.look();
    if (!comm_.watch_.failed()) p2p_.check();
  }
  if (comm_.watch_.failed() && unfinished()) fail(comm_.watch_.failed_meanwhile());
}

Status Outstanding::check(const Waiting&) {
  check();
  if (attention != 0) ThisThread::get().check();
  return {};
}

void Outstanding::check_now_and_then() {
  const int64_t now = now_ns();
  if (now < next_check_ns_) return;
  next_check_ns_ = now + kLookEvery;
  check();
  if (attention != 0) ThisThread::get().check();
}

void Outstanding::fail(const Error& e) {
  comm_.engine_.abandon();
  active_ = false;
  p2p_.fail(e);
  while (Collective* const c = queue_.pop()) {
    c->parts.reset();
    c->task.op.reset();
    c->task.stages.reset();
    c->tally->finish(e);
    free_.push_back(c);
  }
}

void Outstanding::shut_down() {
  const Deadline deadline = Deadline::at(now_ns() + kPromisedFor);
  int64_t look = 0;
  while (!comm_.watch_.failed() && (p2p_.owed() != 0 || !waiter_.flushed()) && !deadline.passed()) {
    if (advance()) continue;
    if (const int64_t now = now_ns(); now >= look) {
      (void)comm_.watch_.look();
      look = now + kLookEvery;
    }
    const timespec pause{0, 200'000};
    nanosleep(&pause, nullptr);
  }
  const LogId log{comm_.rank(), comm_.size()};
  if (!comm_.watch_.failed() && p2p_.owed() != 0) {
    HKT_WARN(coll, log, "%u messages sent could not be delivered before the communicator was destroyed", p2p_.owed());
    (void)comm_.watch_.fail({hktAborted, comm_.rank(), 0,
                             format("rank %d destroyed its communicator with %u messages on their way that nobody "
                                    "received within 5 s; call hktCommFinalize first",
                                    comm_.rank(), p2p_.owed())});
  } else if (!comm_.watch_.failed() && !queue_.empty()) {
    (void)comm_.watch_.fail({hktAborted, comm_.rank(), 0,
                             format("rank %d destroyed its communicator with collectives outstanding", comm_.rank())});
  }
  fail(error(hktAborted, "rank %d: the communicator was destroyed with this operation outstanding", comm_.rank()));
}

}  // namespace hocket
