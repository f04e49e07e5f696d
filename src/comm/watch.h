// Watch: decides, while a call waits, whether it may go on: abort, faults of peers, calls that do not match, deadlines.
// Keeps the first fault of the communicator for good. Everything here is off the hot path.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "comm/parts.h"
#include "engine/wait.h"

namespace hocket {

// Calls of all ranks that are no collectives, as CallRecord::collective has them.
enum class Meeting : uint32_t {
  split = 0x100,
  dup,
  finalize,
  all_to_all_v,
  gather_v,
  scatter_v,
  all_reduce_list,
  memory
};

// "all_reduce(count 1024, float32, sum)" and the like.
std::string describe(const CallRecord& call);

class Watch final : public Supervisor {
 public:
  explicit Watch(Parts& parts) : parts_(parts), log_{parts.rank, parts.nranks} {}

  // --- communicator's thread
  // The call that begins now; `record` and `label` stay valid until the next one. timeout_ms < 0: never. Reads no
  // clock.
  void begin(const CallRecord& record, int64_t timeout_ms, const char* label) {
    call_ = record;
    timeout_ms_ = timeout_ms;
    label_ = label;
    started_ns_ = 0;
  }
  Status check(const Waiting& waiting) override;
  Status confirm() override;
  // Looks for faults without a wait (async error between calls).
  Status look();
  // Do calls match, as far as they are known?
  Status compare();
  // "call 7, all_to_all_v(float)": the one that began last.
  std::string present_call() const;
  // Has `peer`, which `waiting` waits for, left for good? Not if its last message came just before, and not if it had
  // a reason that the next look finds: a fault, or calls that do not match.
  bool has_left(int peer, const Waiting& waiting);
  // Keeps the fault if it is the first, tells all peers, and returns what is kept as an error. Any thread.
  Error fail(const Fault& fault) HKT_EXCLUDES(mutex_);
  // No later call may run: the first fault as an error, for calls after it.
  [[nodiscard]] Error failed_before() const HKT_EXCLUDES(mutex_);
  // The same for operations that were under way.
  [[nodiscard]] Error failed_meanwhile() const HKT_EXCLUDES(mutex_);

  // --- any thread
  bool failed() const { return code_.load(std::memory_order_acquire) != hktSuccess; }
  Code code() const { return code_.load(std::memory_order_acquire); }
  void abort();

 private:
  std::optional<Fault> find_fault();
  bool mismatch_seen(const Blocked& blocked);
  Fault diagnose_mismatch(const Blocked& blocked);
  // What a rank, which may be this one, has announced as call `seq`, if that is known and not too long ago.
  std::optional<CallRecord> record_of(int rank, uint64_t seq) const;
  // The first call that ranks are known to have made differently; 0: none.
  uint64_t first_mismatch();
  std::vector<int> not_called(const Blocked& blocked) const;
  std::string waited_for(const Blocked& blocked) const;

  Parts& parts_;
  LogId log_;
  CallRecord call_;
  uint64_t compared_ = 0;  // all ranks have made the calls up to this one alike
  int64_t timeout_ms_ = -1;
  const char* label_ = nullptr;
  int64_t started_ns_ = 0;  // of the wait's first check, 0 before it
  bool warned_ = false;
  std::atomic<bool> aborted_{false};
  std::atomic<Code> code_{hktSuccess};
  mutable Mutex mutex_;
  Fault first_ HKT_GUARDED_BY(mutex_);
};

}  // namespace hocket
