// Waiting: spin, then yield, then sleep on the doorbell or the transports' descriptors. The ladder is chosen once, by
// the number of ranks of this host against the CPUs they may use. An idle rank costs no CPU.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/transport.h"

namespace hocket {

struct WaitPolicy {
  uint32_t spins;    // polls before the first yield, without pause: a pause costs more than the poll it saves
  int64_t yield_ns;  // then yield for so long, then sleep
};
// `ranks` on this host that share `cpus` usable CPUs.
WaitPolicy wait_policy(uint32_t ranks, uint32_t cpus);
// How long to sleep where not everything that is waited for wakes the sleeper, after a wait of so many ns: a sixteenth
// of that, from `shortest` on and at most 250 ms, so that nothing is noticed much later than it had to be waited for
// anyway, and a long wait costs no CPU.
int64_t nap_after(int64_t waited_ns, int64_t shortest);
// What a process may use: its affinity mask (a cpu_set_t's bytes) and its control group's quota in CPUs (v2 and v1;
// large: none).
struct CpuShare {
  std::string mask;
  double quota = 1;
};
CpuShare cpu_share();
// CPUs that processes of one host may use together, at least 1: ranks bound to a CPU each have as many as they are.
uint32_t usable_cpus(const std::vector<CpuShare>& shares);

// What a blocked call waits for, worked out on the cold path only.
struct Blocked {
  std::vector<int> peers;       // ranks waited for, ascending, each once
  std::vector<int> mismatched;  // of these: whose next message is there but belongs to another call
};

// A blocked call, as the waiter sees it.
class Waiting {
 public:
  virtual ~Waiting() = default;
  virtual bool poll() = 0;  // tries to go on: true if it did
  virtual Blocked blocked() const = 0;
  // poll() looks at more than the waiter's transports, which nothing wakes it for: it must not sleep for long.
  virtual bool elsewhere() const { return false; }
};

// Decides whether a call may go on waiting. Implemented by the communicator; called at least every 250 ms of a wait.
class Supervisor {
 public:
  virtual ~Supervisor() = default;
  virtual Status check(const Waiting& waiting) = 0;
  // A call that has read memory of other ranks is done: an error if one of them may have given it up before, and so
  // have changed what was read.
  virtual Status confirm() { return {}; }
};

class Waiter {
 public:
  Waiter(WaitPolicy policy, Doorbell& bell, Fence fence, const std::vector<Transport*>& transports,
         Supervisor& supervisor);

  // Returns when waiting.poll() has been true once, or with the supervisor's error.
  template <class W>
  Status wait(W& waiting) {
    for (uint32_t i = 0; i < spins_; ++i) {
      if (pumped_) progress();
      if (waiting.poll()) return {};
    }
    return wait_slowly(waiting);
  }
  // Moves data of the transports that have a pump.
  void progress() {
    for (Transport* t : pumps_) t->progress();
  }
  // All that was pushed has left this process's memory.
  bool flushed() const;
  // The call fails: what its links have been lent is the caller's again.
  void reclaim() const {
    for (Transport* t : pumps_) t->reclaim();
  }
  bool pumped() const { return pumped_; }
  Status confirm() { return supervisor_.confirm(); }
  // Returns when it has, or with the supervisor's error.
  Status flush();

 private:
  Status wait_slowly(Waiting& waiting);
  // A few times; true if that has moved it.
  bool yield(Waiting& waiting);
  void sleep(uint32_t armed, const Waiting& waiting, int64_t waited_ns);

  // A poll of a pump is a system call, a hundred times as long as a look at memory.
  static constexpr uint32_t kPumpSpins = 200;

  const WaitPolicy policy_;
  uint32_t spins_;
  Doorbell& bell_;
  Fence fence_;
  std::vector<Transport*> pumps_;  // of the communicator's transports, those with a pump
  bool shares_memory_ = false;     // some peers ring the doorbell
  bool pumped_ = false;
  Supervisor& supervisor_;
  std::vector<pollfd> fds_;
};

}  // namespace hocket
