#include "comm/communicator.h"

#include <bit>

#include "base/deadline.h"
#include "base/types.h"
#include "comm/operations.h"
#include "comm/thread.h"
#include "kernels/reduce_cpu.h"
#include "schedule/lower.h"

namespace hocket {
namespace {

// Hash of all that the ranks must agree on; never 0, which is what an unused slot holds.
uint32_t signature(const CallRecord& r, uint32_t epoch) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15u;
  uint64_t h = (r.seq ^ (uint64_t{epoch} << 32)) * kMix;
  h = (std::rotl(h, 29) ^ r.count) * kMix;
  h = (std::rotl(h, 29) ^ (uint64_t{r.collective} << 48 | uint64_t{r.type} << 40 | uint64_t{r.op} << 32 | r.root)) *
      kMix;
  const auto s = static_cast<uint32_t>(h >> 32);
  return s != 0 ? s : 1;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(Parts parts) {
  HKT_ASSIGN(ForkGuard guard, ForkGuard::create());
  HKT_ASSIGN(const select::Table table, select::build(parts.facts, parts.algo));
  return std::unique_ptr<Communicator>(new Communicator(std::move(parts), std::move(guard), table));
}

Communicator::Communicator(Parts parts, ForkGuard guard, const select::Table& table)
    : parts_(std::move(parts)),
      guard_(std::move(guard)),
      watch_(parts_),
      waiter_(
          wait_policy(parts_.local_ranks, parts_.cpus), *parts_.bell, parts_.fence,
          [this] {
            std::vector<Transport*> list;
            for (const auto& t : parts_.transports) list.push_back(t.get());
            return list;
          }(),
          watch_),
      engine_(waiter_),
      table_(table) {
  for (size_t type = 0; type < kernels_.size(); ++type)
    for (size_t op = 0; op < kernels_[type].size(); ++op)
      kernels_[type][op] = kernels::fold_kernel(static_cast<hktDataType_t>(type), static_cast<hktRedOp_t>(op));
  for (const CatalogEntry& e : catalog()) plans_.emplace_back(e.rooted ? static_cast<size_t>(parts_.nranks) : 1);
}

Status Communicator::all_reduce(const void* in, void* out, uint64_t count, hktDataType_t type, hktRedOp_t op,
                                const CallOptions& options) {
  CallRecord record;
  record.count = count;
  record.collective = static_cast<uint32_t>(Collective::all_reduce);
  record.type = static_cast<uint32_t>(type);
  record.op = static_cast<uint32_t>(op);
  Call call;
  call.in = in;
  call.out = out;
  call.elems = count;
  call.elem_size = static_cast<uint32_t>(type_size(type));
  call.fold = kernels_[static_cast<size_t>(type)][static_cast<size_t>(op)];
  if (op == hktAvg) call.divisor = static_cast<uint32_t>(parts_.nranks);
  return run(record, call, options);
}

Status Communicator::broadcast(const void* in, void* out, uint64_t count, hktDataType_t type, int root,
                               const CallOptions& options) {
  CallRecord record;
  record.count = count;
  record.collective = static_cast<uint32_t>(Collective::broadcast);
  record.type = static_cast<uint32_t>(type);
  record.root = static_cast<uint32_t>(root);
  Call call;
  call.in = in;
  call.out = out;
  call.elems = count;
  call.elem_size = static_cast<uint32_t>(type_size(type));
  return run(record, call, options);
}

Status Communicator::barrier(const CallOptions& options) {
  CallRecord record;
  record.collective = static_cast<uint32_t>(Collective::barrier);
  Call call;
  return run(record, call, options);
}

Status Communicator::run(CallRecord& record, Call& call, const CallOptions& options) {
  const Busy busy(*gate_);
  if (!busy.mine() || guard_.in_child() || watch_.failed()) [[unlikely]]
    return refuse(busy.mine());
  if ((attention | outstanding_ | uint32_t{options.request != nullptr}) != 0) [[unlikely]]
    return queue(record, call, options);

  const select::Choice& choice =
      select::lookup(table_, static_cast<Collective>(record.collective), call.elems * call.elem_size);
  const std::unique_ptr<const BoundPlan>& slot =
      plans_[static_cast<size_t>(choice.planner - catalog().data())][choice.planner->rooted ? record.root : 0];
  if (slot == nullptr) [[unlikely]]
    HKT_TRY(bind(*choice.planner, record.root));
  const BoundPlan& plan = *slot;

  announce(record, options.timeout_ms != HKT_UNDEFINED ? options.timeout_ms : parts_.timeout_ms, options.label);
  call.signature = record.signature;
  call.round_elems = plan.round_elems[static_cast<size_t>(std::countr_zero(call.elem_size))];
  call.out_stores = choice.stream_out ? kernels::Stores::streaming : kernels::Stores::temporal;
  if (!choice.learn_stores) return engine_.run(plan, call);

  std::unique_ptr<Learners>& learners = learners_[record.collective];
  if (learners == nullptr) learners = std::make_unique<Learners>();
  select::StoreLearner& learner = (*learners)[select::bucket(call.elems * call.elem_size)];
  if (learner.next(stores_)) call.slot_stores = kernels::Stores::streaming;
  const int64_t start = now_ns();
  HKT_TRY(engine_.run(plan, call));
  learner.took(now_ns() - start);
  if (learner.knows()) stores_ = learner.clearly_better();
  return {};
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
  watch_.begin(record, timeout_ms, label);
  for (const auto& t : parts_.transports) t->announce(record);
}

std::unique_ptr<Waiter> Communicator::make_waiter(Supervisor& supervisor) {
  std::vector<Transport*> transports;
  for (const auto& t : parts_.transports) transports.push_back(t.get());
  return std::make_unique<Waiter>(wait_policy(parts_.local_ranks, parts_.cpus), *parts_.bell, parts_.fence, transports,
                                  supervisor);
}

Status Communicator::bind(const CatalogEntry& planner, uint32_t root) {
  const auto n = static_cast<uint32_t>(parts_.nranks);
  if (n > planner.max_ranks)
    return error(hktInvalidUsage, "%s serves at most %u ranks, here are %u; choose another one by HOCKET_ALGO",
                 planner.name, planner.max_ranks, n);
  auto bound = std::make_unique<BoundPlan>();
  bound->info = planner.info(n, root);
  for (size_t log = 0; log < bound->round_elems.size(); ++log)
    bound->round_elems[log] = round_elems(bound->info, 1u << log, parts_.facts.slot_bytes);
  if (bound->round_elems.back() == 0)
    return error(hktInvalidUsage,
                 "%s on %u ranks puts %u blocks into a message, more than slots of %u bytes have lines for",
                 planner.name, n, bound->info.message_blocks, parts_.facts.slot_bytes);
  bound->plan = planner.rank_plan(n, root, static_cast<uint32_t>(parts_.rank));
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
  const Busy busy(*gate_);
  if (busy.mine()) (void)watch_.look();  // a fault found stays in watch_
  return watch_.code();
}

}  // namespace hocket
