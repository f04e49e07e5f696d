#include "comm/communicator.h"

#include <algorithm>
#include <exception>
#include <new>

#include "algorithms/zero_copy.h"
#include "base/deadline.h"
#include "base/types.h"
#include "comm/digest.h"
#include "comm/outstanding.h"
#include "comm/reproducible.h"
#include "comm/thread.h"
#include "kernels/reduce_cpu.h"
#include "schedule/collective.h"
#include "schedule/lower.h"

namespace hocket {
namespace {

// Hash of all that the ranks must agree on.
uint32_t signature(const CallRecord& r, uint32_t epoch) {
  uint64_t h = mix(0, r.seq ^ (uint64_t{epoch} << 32));
  h = mix(h, r.count);
  h = mix(h, uint64_t{r.collective} << 48 | uint64_t{r.type} << 40 | r.root);
  return digest(mix(h, uint64_t{r.op} << 32 | r.table));
}

static_assert(std::is_same_v<size_t, uint64_t>, "the C interface's tables go to the engine as they are");

// Displacements of blocks that follow one another. Valid until the thread's next call.
const uint64_t* packed(const uint64_t* counts, size_t blocks) {
  thread_local std::vector<uint64_t> displs;
  displs.resize(blocks);
  uint64_t at = 0;
  for (size_t c = 0; c < blocks; at += counts[c++]) displs[c] = at;
  return displs.data();
}

// How far a buffer goes (`own`: it holds one block) is known from the layout of the collective: it ends where the last
// of its blocks does.
uint64_t buffer_bytes(const Call& call, const PlanInfo& info, bool own) {
  uint64_t elems = call.elems;
  if (own && call.counts != nullptr) elems = call.counts[call.rank];
  if (!own && layout(info.collective) == Layout::blocks && call.counts == nullptr) elems *= info.nranks;
  if (!own && call.counts != nullptr) {
    elems = 0;
    for (uint32_t c = 0; c < info.nranks; ++c) elems = std::max(elems, call.displs[c] + call.counts[c]);
  }
  return elems * call.elem_size;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(Parts parts) {
  if (parts.determinism == HKT_DETERMINISM_R4 && static_cast<uint32_t>(parts.nranks) > kernels::kMostAddends)
    return error(hktInvalidUsage, "determinism R4 serves at most %u ranks, here are %d", kernels::kMostAddends,
                 parts.nranks);
  HKT_ASSIGN(ForkGuard guard, ForkGuard::create());
  HKT_ASSIGN(select::Table table, select::build(parts.facts, parts.costs, parts.algo, parts.determinism));
  return std::unique_ptr<Communicator>(new Communicator(std::move(parts), std::move(guard), std::move(table)));
}

Communicator::Communicator(Parts parts, ForkGuard guard, select::Table table)
    : parts_(std::move(parts)),
      guard_(std::move(guard)),
      watch_(parts_),
      waiter_(make_waiter(watch_)),
      engine_(waiter_),
      table_(std::move(table)) {
  for (size_t type = 0; type < kernels_.size(); ++type)
    for (size_t op = 0; op < kernels_[type].size(); ++op)
      kernels_[type][op] = kernels::fold_kernel(static_cast<hktDataType_t>(type), static_cast<hktRedOp_t>(op));
  for (const auto& t : parts_.transports)
    if (regions_ == nullptr) regions_ = t->regions();
  for (const CatalogEntry& e : catalog()) plans_.emplace_back(e.rooted ? static_cast<size_t>(parts_.nranks) : 1);
}

Order Communicator::order(Collective collective, const Data& data) {
  Order o;
  o.record.count = data.count;
  o.record.collective = static_cast<uint32_t>(collective);
  o.record.type = static_cast<uint32_t>(data.type);
  o.call.in = data.in;
  o.call.out = data.out;
  o.call.elems = data.count;
  o.call.elem_size = static_cast<uint32_t>(type_size(data.type));
  return o;
}

Order Communicator::order(Collective collective, const BlockData& data) const {
  const auto n = static_cast<size_t>(parts_.nranks);
  const uint64_t* displs = data.displs != nullptr ? data.displs : packed(data.counts, n);
  Order o = order(collective, Data{data.in, data.out, 0, data.type});
  uint64_t hash = n;
  for (size_t c = 0; c < n; ++c) {
    o.record.count += data.counts[c];
    o.call.elems = std::max(o.call.elems, data.counts[c]);
    hash = mix(mix(hash, data.counts[c]), displs[c]);
  }
  o.record.table = digest(hash);
  o.call.counts = data.counts;
  o.call.displs = displs;
  o.call.rank = static_cast<uint32_t>(parts_.rank);
  return o;
}

Status Communicator::set_op(Order& order, hktRedOp_t op) const {
  order.record.op = static_cast<uint32_t>(op);
  if (parts_.determinism == HKT_DETERMINISM_R4) [[unlikely]] {
    HKT_TRY(check_reproducible(order.record));
    order.reproducible = sums_floats(order.record);
  }
  if (is_handle(order.record.op)) [[unlikely]] {
    HKT_ASSIGN(order.op, operations_.find(op));
    const Operation& made = *order.op;
    const auto type = static_cast<hktDataType_t>(order.record.type);
    if (made.kind != OpKind::pre_mul_sum) {
      order.call.combine = made.fn;
      order.call.context = made.context;
      order.call.type = type;
      return {};
    }
    if (made.type != type)
      return error(hktInvalidArgument, "op is a %s, made for %s; the call is of %s",
                   operation_name(order.record.op).c_str(), type_name(made.type), type_name(type));
    order.call.scale = kernels::scale_kernel(type);
    order.call.scalar = made.scalar;
    op = hktSum;
  }
  order.call.fold = kernels_[order.record.type][static_cast<size_t>(op)];
  if (op == hktAvg) order.call.divisor = static_cast<uint32_t>(parts_.nranks);
  return {};
}

void Communicator::set_root(Order& order, int root) const {
  order.record.root = static_cast<uint32_t>(root);
  if (root == parts_.rank) return;
  const auto collective = static_cast<Collective>(order.record.collective);
  if (in_is_at_root(collective)) order.call.in = nullptr;
  if (out_is_at_root(collective)) order.call.out = nullptr;
}

uint64_t Communicator::selected_by(const CallRecord& record, uint32_t elem_size) const {
  const bool equal_blocks = layout(static_cast<Collective>(record.collective)) == Layout::blocks && record.table == 0;
  return record.count * elem_size * (equal_blocks ? static_cast<uint64_t>(parts_.nranks) : 1);
}

Status Communicator::all_reduce(const void* in, void* out, uint64_t count, hktDataType_t type, hktRedOp_t op,
                                const CallOptions& options) {
  Order o = order(Collective::all_reduce, Data{in, out, count, type});
  HKT_TRY(set_op(o, op));
  return run(o, options);
}

Status Communicator::broadcast(const void* in, void* out, uint64_t count, hktDataType_t type, int root,
                               const CallOptions& options) {
  Order o = order(Collective::broadcast, Data{in, out, count, type});
  set_root(o, root);
  return run(o, options);
}

Status Communicator::barrier(const CallOptions& options) {
  Order o;
  o.record.collective = static_cast<uint32_t>(Collective::barrier);
  return run(o, options);
}

Status Communicator::reduce(const Data& data, hktRedOp_t op, int root, const CallOptions& options) {
  Order o = order(Collective::reduce, data);
  HKT_TRY(set_op(o, op));
  set_root(o, root);
  return run(o, options);
}

Status Communicator::all_gather(const Data& data, const CallOptions& options) {
  Order o = order(Collective::all_gather, data);
  return run(o, options);
}

Status Communicator::reduce_scatter(const Data& data, hktRedOp_t op, const CallOptions& options) {
  Order o = order(Collective::reduce_scatter, data);
  HKT_TRY(set_op(o, op));
  return run(o, options);
}

Status Communicator::all_to_all(const Data& data, const CallOptions& options) {
  Order o = order(Collective::all_to_all, data);
  return run(o, options);
}

Status Communicator::gather(const Data& data, int root, const CallOptions& options) {
  Order o = order(Collective::gather, data);
  set_root(o, root);
  return run(o, options);
}

Status Communicator::scatter(const Data& data, int root, const CallOptions& options) {
  Order o = order(Collective::scatter, data);
  set_root(o, root);
  return run(o, options);
}

Status Communicator::all_gather_v(const BlockData& data, const CallOptions& options) {
  Order o = order(Collective::all_gather, data);
  return run(o, options);
}

Status Communicator::reduce_scatter_v(const BlockData& data, hktRedOp_t op, const CallOptions& options) {
  Order o = order(Collective::reduce_scatter, data);
  HKT_TRY(set_op(o, op));
  return run(o, options);
}

Status Communicator::run(Order& order, const CallOptions& options) {
  const Busy busy(*gate_);
  if (!busy.mine() || guard_.in_child() || watch_.failed()) [[unlikely]]
    return refuse(busy.mine());
  if ((attention | pending_ | uint32_t{options.request != nullptr} | uint32_t{order.reproducible}) != 0) [[unlikely]]
    return queue(order, options);

  CallRecord& record = order.record;
  Call& call = order.call;
  const uint64_t bytes = selected_by(record, call.elem_size);
  const select::Choice& choice = select::lookup(*current_table_, static_cast<Collective>(record.collective), bytes);
  const CatalogEntry* const planner = planner_of(choice, record.op);
  if (planner == nullptr) [[unlikely]]
    return out_of_order(static_cast<Collective>(record.collective));
  const std::unique_ptr<const BoundPlan>& slot = plan(*planner, record.root);

  try {
    if (slot == nullptr) [[unlikely]]
      HKT_TRY(bind(*planner, record.root));
    const BoundPlan& plan = *slot;
    announce(record, options.timeout_ms != HKT_UNDEFINED ? options.timeout_ms : parts_.timeout_ms, options.label);
    call.signature = record.signature;
    fit(call, plan, choice);
    if (!choice.learn_stores) return engine_.run(plan, call);

    std::unique_ptr<Learners>& learners = learners_[record.collective];
    if (learners == nullptr) learners = std::make_unique<Learners>();
    select::StoreLearner& learner = (*learners)[select::bucket(bytes)];
    if (learner.next(stores_)) call.slot_stores = kernels::Stores::streaming;
    const int64_t start = now_ns();
    HKT_TRY(engine_.run(plan, call));
    learner.took(now_ns() - start);
    if (learner.knows()) stores_ = learner.clearly_better();
    return {};
  } catch (const std::exception& e) {
    return threw(e);
  }
}

Error Communicator::threw(const std::exception& e, const char* in) {
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr)
    return watch_.fail({hktSystemError, parts_.rank, seq_,
                        in != nullptr ? format("rank %d ran out of memory in %s", parts_.rank, in)
                                      : format("rank %d ran out of memory in call %llu", parts_.rank,
                                               static_cast<unsigned long long>(seq_))});
  if (const auto* const read = dynamic_cast<const ReadError*>(&e); read != nullptr) {
    // What others have found may say more.
    if (const Status found = watch_.look(); !found.ok()) return found.error();
    if (read->rank() < 0)
      return watch_.fail({hktInvalidArgument, parts_.rank, seq_, format("rank %d: %s", parts_.rank, e.what())});
    return watch_.fail({hktRemoteError, read->rank(), seq_, e.what()});
  }
  return watch_.fail({hktInternalError, parts_.rank, seq_,
                      format("%s on rank %d threw: %s", in != nullptr ? in : "a call", parts_.rank, e.what())});
}

Error Communicator::refuse(bool mine) const {
  if (!mine && finalized_.load(std::memory_order_acquire))
    return error(hktInvalidUsage, "rank %d: the communicator has been finalized; all that is left is to destroy it",
                 parts_.rank);
  if (!mine)
    return error(hktInvalidUsage,
                 "rank %d: two threads call collectives of one communicator at the same time; give each its own",
                 parts_.rank);
  if (guard_.in_child())
    return error(hktInvalidUsage,
                 "rank %d: this process was forked from the one that made the communicator; make a new one here",
                 parts_.rank);
  return watch_.failed_before();
}

void Communicator::announce(CallRecord& record, int64_t timeout_ms, const char* label) {
  record.seq = ++seq_;
  record.signature = signature(record, parts_.epoch);
  // Member by member: what has just been written would be waited for by a copy of the whole.
  watch_.begin({record.seq, record.count, record.collective, record.type, record.op, record.root, record.signature,
                record.table},
               timeout_ms, label);
  for (const auto& t : parts_.transports) t->announce(record);
}

Waiter Communicator::make_waiter(Supervisor& supervisor) const {
  std::vector<Transport*> transports;
  for (const auto& t : parts_.transports) transports.push_back(t.get());
  return {wait_policy(parts_.local_ranks, parts_.cpus), *parts_.bell, parts_.fence, transports, supervisor};
}

Error Communicator::out_of_order(Collective collective) const {
  std::string others;
  for (const CatalogEntry& e : catalog())
    if (e.collective == collective && e.folds_in_rank_order)
      others += (others.empty() ? "" : ", ") + std::string(e.name);
  return error(hktInvalidUsage,
               "HOCKET_ALGO=%s: its planner of %s does not fold in the order of ranks, which an operation that is not "
               "commutative needs; these do: %s",
               parts_.algo.c_str(), collective_name(collective), others.c_str());
}

void Communicator::find_regions(Call& call, const BoundPlan& plan) const {
  const Collective of = plan.info.collective;
  call.registered = true;
  if (call.in != nullptr)
    call.in_region = regions_in_use_->find(call.in, buffer_bytes(call, plan.info, in_is_own_block(of)));
  if (call.out != nullptr)
    call.out_region = regions_in_use_->find(call.out, buffer_bytes(call, plan.info, out_is_own_block(of)));
}

void Communicator::let_read(Call& call, const BoundPlan& plan) const {
  const Collective of = plan.info.collective;
  const bool in = call.in == nullptr || can_be_read(call.in, buffer_bytes(call, plan.info, in_is_own_block(of)));
  const bool out = call.out == nullptr || can_be_read(call.out, buffer_bytes(call, plan.info, out_is_own_block(of)));
  if (in && out) call.read_from = parts_.always_read ? Link::kMapFrom : select::kReadFrom;
}

Result<hktRedOp_t> Communicator::make_op(const Operation& operation) {
  const Busy busy(*gate_);
  if (!busy.mine()) return refuse(false);
  return operations_.add(operation);
}

Status Communicator::destroy_op(hktRedOp_t op) {
  const Busy busy(*gate_);
  if (!busy.mine() && !finalized_.load(std::memory_order_acquire))
    return error(hktInvalidUsage, "rank %d: a call that may use %s is running; destroy it afterwards", parts_.rank,
                 operation_name(static_cast<uint32_t>(op)).c_str());
  return operations_.remove(op);
}

Status Communicator::bind(const CatalogEntry& planner, uint32_t root) {
  const auto n = static_cast<uint32_t>(parts_.nranks);
  if (n > planner.max_ranks)
    return error(hktInvalidUsage, "%s serves at most %u ranks, here are %u; choose another one by HOCKET_ALGO",
                 planner.name, planner.max_ranks, n);
  auto bound = std::make_unique<BoundPlan>();
  bound->info = planner.info(n, root);
  if (const ZeroCopy* const way = zero_copy(planner.collective, planner.name); way != nullptr)
    if (const ZeroCopy some = way->only(parts_.mapped, parts_.direct); !some.copies_all()) bound->zero_copy = some;
  if (const ZeroCopy* const way = reading(planner.collective, planner.name); way != nullptr && parts_.facts.readable)
    bound->read = *way;
  for (size_t log = 0; log < bound->round_elems.size(); ++log)
    bound->round_elems[log] = round_elems(bound->info, 1u << log, parts_.facts.slot_bytes);
  if (bound->round_elems.back() == 0)
    return error(hktInvalidUsage,
                 "%s on %u ranks puts %u blocks into a message, more than slots of %u bytes have lines for",
                 planner.name, n, bound->info.message_blocks, parts_.facts.slot_bytes);
  bound->plan = planner.rank_plan(n, root, static_cast<uint32_t>(parts_.rank));
  for (const Step& s : bound->plan.steps) bound->operands = std::max(bound->operands, s.operands());
  for (const Peer& p : bound->plan.in) {
    HKT_ASSIGN(Link * l, link(p, recv_));
    bound->in.push_back(l);
  }
  for (const Peer& p : bound->plan.out) {
    HKT_ASSIGN(Link * l, link(p, send_));
    bound->out.push_back(l);
  }
  plans_[static_cast<size_t>(&planner - catalog().data())][planner.rooted ? root : 0] = std::move(bound);
  return {};
}

Result<Link*> Communicator::link(Peer peer, std::map<uint64_t, Link>& table) {
  const uint64_t key = uint64_t{peer.rank} << 16 | peer.tag;
  if (const auto found = table.find(key); found != table.end()) return &found->second;
  Transport& t = *parts_.route[peer.rank];
  const int rank = static_cast<int>(peer.rank);
  Result<Link> made = &table == &send_ ? t.open_send(rank, peer.tag) : t.open_recv(rank, peer.tag);
  // The peer may have gone because the communicator has failed: then that is the reason.
  if (!made) HKT_TRY(watch_.look());
  // No memory or descriptor for it: the others would wait for this rank until their deadline.
  if (!made) return watch_.fail({made.error().code, parts_.rank, 0, std::move(made.error().text)});
  return &table.emplace(key, *made).first->second;
}

Code Communicator::async_error() {
  if (watch_.failed()) return watch_.code();
  const Visit visit(*gate_);              // a call that comes now waits; one that is under way looks itself
  if (visit.mine()) (void)watch_.look();  // a fault found stays in watch_
  return watch_.code();
}

}  // namespace hocket
