// Communicator: calls that do not simply run: non-blocking ones, calls in groups, those that have others before them,
// and those that are made of transfers.
#include "comm/communicator.h"
#include "comm/operations.h"
#include "comm/thread.h"
#include "schedule/shape.h"

#include <bit>

namespace hocket {

Communicator::~Communicator() {
  // A visitor leaves soon. A gate that stays entered is that of a finalized communicator, which nobody visits.
  const bool mine = gate_->enter();
  if (operations_ != nullptr && !guard_.in_child()) operations_->shut_down();
  gate_->operations = nullptr;
  gate_->destroyed.store(true, std::memory_order_release);
  ThisThread::get().settle(*gate_);
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

Operations& Communicator::operations() {
  if (operations_ == nullptr) {
    operations_ = std::make_unique<Operations>(*this);
    gate_->operations = operations_.get();
  }
  return *operations_;
}

bool Communicator::settle() {
  outstanding_ = operations_ != nullptr && !operations_->idle() ? 1 : 0;
  return outstanding_ == 0;
}

bool Communicator::meanwhile() {
  bool moved = outstanding_ != 0 && operations_->poll();
  if (attention != 0) moved |= ThisThread::get().progress();
  return moved;
}

bool Communicator::busy_elsewhere() const { return attention != 0; }

Status Communicator::queue(const CallRecord& record, const Call& call, const CallOptions& options) {
  Order order;
  order.record = record;
  order.call = call;
  const auto n = static_cast<size_t>(parts_.nranks);
  if (call.counts != nullptr) order.counts.assign(call.counts, call.counts + n);
  if (call.displs != nullptr) order.displs.assign(call.displs, call.displs + n);
  return issue(std::move(order), options);
}

Status Communicator::transfer(const TransferSpec& spec, const CallOptions& options) {
  const Busy busy(*gate_);
  HKT_TRY(admit(busy.mine()));
  Order order;
  order.kind = Order::Kind::transfer;
  order.transfer = spec;
  return issue(std::move(order), options);
}

Status Communicator::exchange(const CallRecord& record, std::vector<TransferSpec> parts, const CallOptions& options) {
  const Busy busy(*gate_);
  HKT_TRY(admit(busy.mine()));
  Order order;
  order.kind = Order::Kind::parts;
  order.record = record;
  order.parts = std::move(parts);
  return issue(std::move(order), options);
}

// The gate has been entered.
Status Communicator::issue(Order&& order, const CallOptions& options) {
  order.timeout_ms = options.timeout_ms != HKT_UNDEFINED ? options.timeout_ms : parts_.timeout_ms;
  if (options.label != nullptr) order.label = options.label;
  ThisThread& me = ThisThread::get();
  if (me.group.depth != 0) {
    if (options.request != nullptr)
      return error(hktInvalidUsage,
                   "rank %d: a call in a group has no request of its own; give hktGroupEnd one for all of them",
                   parts_.rank);
    gate_->grouped.fetch_add(1, std::memory_order_relaxed);
    me.group.entries.push_back({gate_, this, std::move(order)});
    return {};
  }
  HKT_ASSIGN(Request* const r, me.lease());
  r->expect();
  Operations& all = operations();
  all.submit(std::move(order), *r);
  (void)all.advance();
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

// What run() does before it runs, for a call whose turn has come. Which stores are better is not learned here: the time
// that passes until the call is done says little.
Result<const BoundPlan*> Communicator::prepare(const CallRecord& record, Call& call) {
  const select::Choice& choice =
      select::lookup(table_, static_cast<Collective>(record.collective), call.elems * call.elem_size);
  const std::unique_ptr<const BoundPlan>& slot =
      plans_[static_cast<size_t>(choice.planner - catalog().data())][choice.planner->rooted ? record.root : 0];
  if (slot == nullptr) HKT_TRY(bind(*choice.planner, record.root));
  call.round_elems = slot->round_elems[static_cast<size_t>(std::countr_zero(call.elem_size))];
  call.out_stores = choice.stream_out ? kernels::Stores::streaming : kernels::Stores::temporal;
  if (choice.learn_stores && stores_.value_or(false)) call.slot_stores = kernels::Stores::streaming;
  return slot.get();
}

}  // namespace hocket
