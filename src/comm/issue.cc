// Communicator: calls that do not simply run: non-blocking ones, calls in groups, those that have others before them,
// and those that are made of transfers or stages.
#include "base/types.h"
#include "comm/communicator.h"
#include "comm/outstanding.h"
#include "comm/reproducible.h"
#include "comm/thread.h"
#include "schedule/collective.h"

namespace hocket {

Communicator::~Communicator() {
  // A visitor leaves soon. A closed gate is that of a finalized communicator, which nobody visits.
  const bool mine = gate_->enter();
  if (outstanding_ != nullptr && !guard_.in_child()) outstanding_->shut_down();
  gate_->outstanding = nullptr;
  gate_->destroyed.store(true, std::memory_order_release);
  if (outstanding_ != nullptr) ThisThread::get().settle(*gate_);
  if (mine) gate_->leave();
}

Status Communicator::admit(bool mine) const {
  if (!mine || guard_.in_child() || watch_.failed()) return refuse(mine);
  return {};
}

Status Communicator::admit_wait() const {
  if (guard_.in_child()) return refuse(true);
  return {};
}

Outstanding& Communicator::outstanding() {
  if (outstanding_ == nullptr) {
    outstanding_ = std::make_unique<Outstanding>(*this);
    gate_->outstanding = outstanding_.get();
  }
  return *outstanding_;
}

bool Communicator::settle() {
  pending_ = outstanding_ != nullptr && !outstanding_->idle() ? 1 : 0;
  return pending_ == 0;
}

bool Communicator::meanwhile() {
  bool moved = pending_ != 0 && outstanding_->poll();
  if (attention != 0) moved |= ThisThread::get().progress();
  return moved;
}

bool Communicator::busy_elsewhere() const { return attention != 0; }

// The plan is chosen and tied to links here and not when its turn comes, so that what cannot be run is this call's
// error.
Status Communicator::queue(Order& order, const CallOptions& options) try {
  if (order.reproducible) return sum_reproducibly(order, options);
  Task task;
  task.record = order.record;
  task.call = order.call;
  task.op = std::move(order.op);
  Call& call = task.call;
  HKT_ASSIGN(task.plan, choose(task.record, call));
  const auto n = static_cast<size_t>(parts_.nranks);
  if (call.counts != nullptr) task.counts.assign(call.counts, call.counts + n);
  if (call.displs != nullptr) task.displs.assign(call.displs, call.displs + n);
  return issue(std::move(task), options);
} catch (const std::exception& e) {
  return threw(e, "a call that could not begin");
}

Status Communicator::sum_reproducibly(Order& order, const CallOptions& options) {
  const std::shared_ptr<ReproducibleSums> stages = spare<ReproducibleSums>();
  stages->begin(order, static_cast<uint32_t>(parts_.rank), static_cast<uint32_t>(parts_.nranks));
  if (layout(static_cast<Collective>(order.record.collective)) == Layout::round_major)
    stages->append(order.call.in, order.call.out, order.call.elems);
  HKT_TRY(stages->ready(*this));
  return issue(std::move(order), stages, options);
}

// Which stores are better is not learned: the time that passes until such a call is done says little.
Result<const BoundPlan*> Communicator::choose(const CallRecord& record, Call& call) {
  if (parts_.determinism == HKT_DETERMINISM_R4 && sums_floats(record))
    return error(hktInternalError, "a sum of %s would depend on the order of the ranks, with determinism R4",
                 type_name(static_cast<hktDataType_t>(record.type)));
  const select::Choice& choice =
      select::lookup(*current_table_, static_cast<Collective>(record.collective), selected_by(record, call.elem_size));
  const CatalogEntry* const planner = planner_of(choice, record.op);
  if (planner == nullptr) return out_of_order(static_cast<Collective>(record.collective));
  if (plan(*planner, record.root) == nullptr) HKT_TRY(bind(*planner, record.root));
  const BoundPlan* const bound = plan(*planner, record.root).get();
  fit(call, *bound, choice);
  if (choice.learn_stores && stores_.value_or(false)) call.slot_stores = kernels::Stores::streaming;
  return bound;
}

Status Communicator::progress(bool& moved) {
  moved = false;
  const Busy busy(*gate_);
  if (!busy.mine()) return refuse(false);
  HKT_TRY(admit_wait());
  if (outstanding_ == nullptr) return {};
  ThisThread& me = ThisThread::get();
  me.attend(gate_);
  moved = outstanding_->advance();
  outstanding_->check_now_and_then();
  me.settle(*gate_);
  return {};
}

Status Communicator::transfer(const TransferSpec& spec, const CallOptions& options) try {
  const Busy busy(*gate_);
  HKT_TRY(admit(busy.mine()));
  Task task;
  task.kind = Task::Kind::transfer;
  task.transfer = spec;
  return issue(std::move(task), options);
} catch (const std::exception& e) {
  return threw(e, "a call that could not begin");
}

Status Communicator::exchange(const CallRecord& record, std::vector<TransferSpec> parts,
                              const CallOptions& options) try {
  const Busy busy(*gate_);
  HKT_TRY(admit(busy.mine()));
  Task task;
  task.kind = Task::Kind::parts;
  task.record = record;
  task.parts = std::move(parts);
  return issue(std::move(task), options);
} catch (const std::exception& e) {
  return threw(e, "a call that could not begin");
}

Status Communicator::issue(Order&& order, const std::shared_ptr<Stages>& stages, const CallOptions& options) {
  Task task;
  task.record = order.record;
  task.op = std::move(order.op);
  task.stages = stages;
  return issue(std::move(task), options);
}

// The gate has been entered.
Status Communicator::issue(Task&& task, const CallOptions& options) {
  task.timeout_ms = options.timeout_ms != HKT_UNDEFINED ? options.timeout_ms : parts_.timeout_ms;
  if (options.label != nullptr) task.label = options.label;
  ThisThread& me = ThisThread::get();
  if (me.group.depth != 0) {
    if (options.request != nullptr)
      return error(hktInvalidUsage,
                   "rank %d: a call in a group has no request of its own; give hktGroupEnd one for all of them",
                   parts_.rank);
    gate_->grouped.fetch_add(1, std::memory_order_relaxed);
    me.group.entries.push_back({gate_, this, std::move(task)});
    return {};
  }
  HKT_ASSIGN(Request* const r, me.lease());
  r->expect();
  Outstanding& all = outstanding();
  all.submit(std::move(task), *r);
  all.kick();
  if (options.request != nullptr)
    r->gates.push_back(gate_);
  else if (!r->done())
    all.wait([r] { return r->done(); });
  me.attend(gate_);
  me.settle(*gate_);
  if (options.request != nullptr) {
    *options.request = RequestTable::publish(*r);
    return {};
  }
  Status result = r->result();
  me.give_back(r);
  return result;
}

}  // namespace hocket
