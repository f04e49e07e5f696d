// Communicator: a group of ranks that call collectives together. One thread at a time (a second one gets an error);
// abort() and async_error() from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "comm/busy.h"
#include "comm/fork_guard.h"
#include "comm/operations.h"
#include "comm/parts.h"
#include "comm/stages.h"
#include "comm/watch.h"
#include "engine/engine.h"
#include "engine/operation.h"
#include "select/learn_stores.h"
#include "select/select.h"

namespace hocket {

class Outstanding;
struct Task;
struct TransferSpec;

struct CallOptions {
  int64_t timeout_ms = HKT_UNDEFINED;  // HKT_UNDEFINED: the communicator's; negative: never
  const char* label = nullptr;
  hktRequest_t* request = nullptr;  // not null: the call returns at once and leaves a request here
};

// The data of a call. `count` is in elements: of the vector; where there is a block for each rank, of a block.
struct Data {
  const void* in;  // of no meaning, like `out`, where only the root has one
  void* out;
  uint64_t count;
  hktDataType_t type;
};

// The data of a call whose blocks differ in size. Block c has counts[c] elements and starts displs[c] elements after
// the start of the buffer that holds all of them; displs may be null: one block follows the other.
struct BlockData {
  const void* in;
  void* out;
  const size_t* counts;
  const size_t* displs;
  hktDataType_t type;
};

class Communicator {
 public:
  // Takes over `parts`. An error: the selection cannot be built (HOCKET_ALGO), or memory for the fork guard is refused.
  static Result<std::unique_ptr<Communicator>> create(Parts parts);
  // What is outstanding ends with an error, but small sends that were told to be done are sent.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return parts_.rank; }
  int size() const { return parts_.nranks; }

  // Arguments have been checked (types, ops, root, overlap); count may be 0 with null buffers.
  Status all_reduce(const void* in, void* out, uint64_t count, hktDataType_t type, hktRedOp_t op,  //
                    const CallOptions& options = {});
  Status broadcast(const void* in, void* out, uint64_t count, hktDataType_t type, int root,
                   const CallOptions& options = {});
  Status barrier(const CallOptions& options = {});
  Status reduce(const Data& data, hktRedOp_t op, int root, const CallOptions& options = {});
  Status all_gather(const Data& data, const CallOptions& options = {});
  Status reduce_scatter(const Data& data, hktRedOp_t op, const CallOptions& options = {});
  Status all_to_all(const Data& data, const CallOptions& options = {});
  Status gather(const Data& data, int root, const CallOptions& options = {});
  Status scatter(const Data& data, int root, const CallOptions& options = {});
  // The tables are compared between the ranks. Nothing reads them once the call has returned.
  Status all_gather_v(const BlockData& data, const CallOptions& options = {});
  Status reduce_scatter_v(const BlockData& data, hktRedOp_t op, const CallOptions& options = {});
  // A send or receive of the user's.
  Status transfer(const TransferSpec& spec, const CallOptions& options = {});
  // Moves what is outstanding as far as that goes without waiting; `moved`: something did.
  Status progress(bool& moved);
  // A collective that is made of transfers: `record` has its Meeting, type and root, `parts` what this rank has to do.
  Status exchange(const CallRecord& record, std::vector<TransferSpec> parts, const CallOptions& options = {});

  // --- registered memory: see registered.h
  Result<uint32_t> free_name() const;
  Regions* regions() const { return regions_; }              // of the transport that shares memory; null: none does
  uint64_t registrations() const { return registrations_; }  // so far
  bool failed() const { return watch_.failed(); }
  void keep_registered(uint32_t name, bool everywhere);
  Status forget_registered(uint64_t registration);

  // Operations of the caller's own, for calls of this communicator. Nothing is sent.
  Result<hktRedOp_t> make_op(const Operation& operation);
  // An error while a call runs, or one that uses it is outstanding or in an open group.
  Status destroy_op(hktRedOp_t op);

  // Does an operation of the program's run in this thread, in the middle of a call?
  static bool in_an_operation() { return in_operation != 0; }

  // Any thread. Not in a forked child, whose sockets and memory are those of the parent's communicator.
  bool forked() const { return guard_.in_child(); }
  void abort() { watch_.abort(); }
  // The first fault of the communicator. Between calls it also looks whether a peer has raised one.
  Code async_error();

  // For tests and tools: the planner that a call would take, and a trace of the steps executed. `bytes` as in
  // selected_by().
  const char* planner(Collective collective, uint64_t bytes) {
    return select::lookup(*current_table_, collective, bytes).planner->name;
  }
  uint64_t messages_without_copy() const { return engine_.without_copy(); }
  void set_trace(std::vector<TraceEntry>* trace) { engine_.set_trace(trace); }
  const Parts& parts() const { return parts_; }
  // The type takes the operation, a built-in one: exactly where unsupported() of base/types.h has nothing to say.
  bool folds(hktDataType_t type, hktRedOp_t op) const {
    const auto t = static_cast<size_t>(type), o = static_cast<size_t>(op);
    return t < kTypes && o < kOps && kernels_[t][o].temporal != nullptr;
  }

  // --- for whoever has entered the gate
  const std::shared_ptr<Gate>& gate() const { return gate_; }
  // Why a call may not begin (`mine`: the gate has been entered), and a wait for what has been issued.
  Status admit(bool mine) const;
  Status admit_wait() const;
  Outstanding& outstanding();  // made on first use
  // Takes note of whether anything is outstanding: true if not.
  bool settle();
  // By an operation of the program's, or for lack of memory, in a call that peers make as well: they would wait, and
  // links may be in the middle of it. A fault of the communicator. `in`: what it was, null: the present call.
  Error threw(const std::exception& e, const char* in = nullptr);
  // For waits of other kinds: moves what this thread has outstanding. Is there anything?
  bool meanwhile();
  bool busy_elsewhere() const;

  // --- collectives that are made of stages
  // `begin(stages)` prepares an S (a kind of Stages) that no other call uses and returns, as a Result<Order>, what the
  // peers compare (the record) and the operation to hold on to; an error is the call's. It runs inside the gate.
  template <class S, class Begin>
  Status staged(const CallOptions& options, Begin&& begin) {
    const Busy busy(*gate_);
    HKT_TRY(admit(busy.mine()));
    try {
      const std::shared_ptr<S> stages = spare<S>();
      HKT_ASSIGN(Order order, begin(*stages));
      return issue(std::move(order), stages, options);
    } catch (const std::exception& e) {
      return threw(e, "a call that could not begin");
    }
  }
  // For `begin`: an order without root and its operation. Stages keep copies without `op`.
  static Order order(Collective collective, const Data& data);
  Status set_op(Order& order, hktRedOp_t op) const;
  // The plan for an order, with what it needs to know of it. An error if it cannot be run, of the communicator if that
  // is for lack of memory or descriptors.
  Result<const BoundPlan*> choose(const CallRecord& record, Call& call);

 private:
  friend class Exchange;  // calls that are no plans
  friend class Outstanding;
  friend class PointToPoint;
  Order order(Collective collective, const BlockData& data) const;
  void set_root(Order& order, int root) const;
  // The bytes that the selection goes by: those of the larger buffer of any rank (of a gather, the root's output), as
  // nccl-tests counts. They follow from the record and so are the same on all ranks that make the same call.
  uint64_t selected_by(const CallRecord& record, uint32_t elem_size) const;
  Communicator(Parts parts, ForkGuard guard, select::Table table);
  Status run(Order& order, const CallOptions& options);
  // The same for a call that does not block, belongs to a group, or has others before it.
  Status queue(Order& order, const CallOptions& options);
  // The same for sums of floats with determinism R4.
  Status sum_reproducibly(Order& order, const CallOptions& options);
  Status issue(Task&& task, const CallOptions& options);
  Status issue(Order&& order, const std::shared_ptr<Stages>& stages, const CallOptions& options);
  // An S that no call uses.
  template <class S>
  std::shared_ptr<S> spare() {
    for (const std::shared_ptr<Stages>& s : stages_)
      if (s.use_count() == 1 && dynamic_cast<S*>(s.get()) != nullptr) return std::static_pointer_cast<S>(s);
    auto made = std::make_shared<S>();
    stages_.push_back(made);
    return made;
  }
  // Why a call may not begin: another one is running (`mine` is false), a forked child, an earlier fault, finalize.
  Error refuse(bool mine) const;
  // The call that begins now gets its number and signature, and the peers hear of it.
  void announce(CallRecord& record, int64_t timeout_ms, const char* label);
  Waiter make_waiter(Supervisor& supervisor) const;
  // Why an operation that is not commutative cannot run: HOCKET_ALGO.
  Error out_of_order(Collective collective) const;
  // Null: out_of_order().
  static const CatalogEntry* planner_of(const select::Choice& choice, uint32_t op) {
    return op_kind(op) == OpKind::in_rank_order ? choice.in_rank_order : choice.planner;
  }
  // Null: to be bound.
  const std::unique_ptr<const BoundPlan>& plan(const CatalogEntry& planner, uint32_t root) const {
    return plans_[static_cast<size_t>(&planner - catalog().data())][planner.rooted ? root : 0];
  }
  // What `call` needs to know of its plan.
  void fit(Call& call, const BoundPlan& plan, const select::Choice& choice) const {
    call.out_stores = choice.stream_out ? kernels::Stores::streaming : kernels::Stores::temporal;
    if (plan.read.has_value() && (choice.read || parts_.always_read) && call.elems * call.elem_size >= Link::kMapFrom)
        [[unlikely]]
      let_read(call, plan);
    if (regions_in_use_ != nullptr && plan.zero_copy.has_value() && call.elems * call.elem_size >= Link::kMapFrom)
        [[unlikely]]
      find_regions(call, plan);
  }
  void find_regions(Call& call, const BoundPlan& plan) const;
  // Messages of the call may stay where they are, if its buffers can be read there.
  void let_read(Call& call, const BoundPlan& plan) const;
  Status bind(const CatalogEntry& planner, uint32_t root);
  Result<Link*> link(Peer peer, std::map<uint64_t, Link>& table);

  Parts parts_;
  ForkGuard guard_;
  Watch watch_;
  Waiter waiter_;
  Engine engine_;
  select::Table table_;
  std::unique_ptr<select::Table> registered_table_;  // made when it is needed
  select::Table* current_table_ = &table_;
  // By collective, made on first use: a communicator that is not used shall cost little.
  using Learners = std::array<select::StoreLearner, select::kBuckets>;
  std::array<std::unique_ptr<Learners>, select::kCollectives> learners_;
  std::optional<bool> stores_;                                       // what the last size that knows has found
  std::array<std::array<kernels::Kernel, kOps>, kTypes> kernels_{};  // by type and operation
  Operations operations_;
  struct Registered {
    uint64_t serial = 0;
    uint32_t name = 0;
    bool everywhere = false;  // every rank has memory there that all others can reach
  };
  void use_registered();
  Regions* regions_ = nullptr;
  const Regions* regions_in_use_ = nullptr;  // null: nothing is registered that anybody could map
  uint64_t registrations_ = 0;               // so far
  std::vector<Registered> registered_;       // the same on all ranks
  uint64_t seq_ = 0;
  uint32_t pending_ = 0;  // 1: outstanding_ has something to do
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::atomic<bool> finalized_{false};  // and the gate is closed
  // Links by (peer, tag), made on first use; nodes of a map stay where they are.
  std::map<uint64_t, Link> send_, recv_;
  // By planner (its place in the catalog), then by root (one for planners without); filled on first use, then only
  // read.
  std::vector<std::vector<std::unique_ptr<const BoundPlan>>> plans_;
  std::vector<std::shared_ptr<Stages>> stages_;  // calls that go on hold on to theirs
  Staging staging_;
  std::unique_ptr<Outstanding> outstanding_;
};

}  // namespace hocket
