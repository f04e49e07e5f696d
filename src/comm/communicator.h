// Communicator: a group of ranks that call collectives together. One thread at a time (a second one gets an error);
// abort() and async_error() from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "comm/busy.h"
#include "comm/fork_guard.h"
#include "comm/parts.h"
#include "comm/watch.h"
#include "engine/engine.h"
#include "select/learn_stores.h"
#include "select/select.h"

namespace hocket {

class Operations;
struct Order;
struct TransferSpec;

struct CallOptions {
  int64_t timeout_ms = HKT_UNDEFINED;  // HKT_UNDEFINED: the communicator's; negative: never
  const char* label = nullptr;
  hktRequest_t* request = nullptr;  // not null: the call returns at once and leaves a request here
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
  // A send or receive of the user's.
  Status transfer(const TransferSpec& spec, const CallOptions& options = {});
  // A collective that is made of transfers: `record` has its Meeting, type and root, `parts` what this rank has to do.
  Status exchange(const CallRecord& record, std::vector<TransferSpec> parts, const CallOptions& options = {});

  // Any thread.
  void abort() { watch_.abort(); }
  // The first fault of the communicator. Between calls it also looks whether a peer has raised one.
  Code async_error();

  // For tests and tools: the planner that a call would take, and a trace of the steps executed.
  const char* planner(Collective collective, uint64_t bytes) const {
    return select::lookup(table_, collective, bytes).planner->name;
  }
  void set_trace(std::vector<TraceEntry>* trace) { engine_.set_trace(trace); }
  const Parts& parts() const { return parts_; }

  // --- for whoever has entered the gate
  const std::shared_ptr<Gate>& gate() const { return gate_; }
  // Why a call may not begin (`mine`: the gate has been entered), and a wait for what has been issued.
  Status admit(bool mine) const;
  Status admit_wait() const;
  Operations& operations();  // made on first use
  // Takes note of whether anything is outstanding: true if not.
  bool settle();
  // For waits of other kinds: moves what this thread has outstanding. Is there anything?
  bool meanwhile();
  bool busy_elsewhere() const;

 private:
  friend class Exchange;  // calls that are no plans
  friend class Operations;
  friend class PointToPoint;
  Communicator(Parts parts, ForkGuard guard, const select::Table& table);
  Status run(CallRecord& record, Call& call, const CallOptions& options);
  // The same for a call that does not block, belongs to a group, or has others before it.
  Status queue(const CallRecord& record, const Call& call, const CallOptions& options);
  Status issue(Order&& order, const CallOptions& options);
  Result<const BoundPlan*> prepare(const CallRecord& record, Call& call);
  // Why a call may not begin: another one is running (`mine` is false), a forked child, an earlier fault, finalize.
  Error refuse(bool mine) const;
  // The call that begins now gets its number and signature, and the peers hear of it.
  void announce(CallRecord& record, int64_t timeout_ms, const char* label);
  std::unique_ptr<Waiter> make_waiter(Supervisor& supervisor);
  Status bind(const CatalogEntry& planner, uint32_t root);
  Result<Link*> link(Peer peer, std::map<uint64_t, Link>& table);

  Parts parts_;
  ForkGuard guard_;
  Watch watch_;
  Waiter waiter_;
  Engine engine_;
  const select::Table table_;
  // By collective, made on first use: a communicator that is not used shall cost little.
  using Learners = std::array<select::StoreLearner, select::kBuckets>;
  std::array<std::unique_ptr<Learners>, select::kCollectives> learners_;
  std::optional<bool> stores_;                                       // what the last size that knows has found
  std::array<std::array<kernels::Kernel, kOps>, kTypes> kernels_{};  // by type and operation
  uint64_t seq_ = 0;
  uint32_t outstanding_ = 0;  // 1: operations_ has something to do
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::atomic<bool> finalized_{false};  // and the gate stays entered
  // Links by (peer, tag), made on first use; nodes of a map stay where they are.
  std::map<uint64_t, Link> send_, recv_;
  // By planner (its place in the catalog), then by root (one for planners without); filled on first use, then only
  // read.
  std::vector<std::vector<std::unique_ptr<const BoundPlan>>> plans_;
  std::unique_ptr<Operations> operations_;
};

}  // namespace hocket
