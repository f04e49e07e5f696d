#include "comm/progress.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/start_thread.h"
#include "base/thread_annotations.h"
#include "comm/communicator.h"
#include "comm/outstanding.h"
#include "engine/wait.h"
#include "transport/doorbell.h"

namespace hocket::progress {
namespace {

// With nothing to move: looks again and again for as long as messages of a run are usually apart, then sleeps, the
// longer the longer nothing has moved. A thread cannot sleep on the doorbells of several communicators, nor on one that
// its owner may sleep on.
constexpr int64_t kLook = 50'000;             // ns
constexpr int64_t kShortest = 50'000;         // ns of a sleep
constexpr int64_t kIdle = 3'600'000'000'000;  // ns; nothing is outstanding: until somebody rings

class Helper {
 public:
  Status start() {
    HKT_ASSIGN(thread_, start_thread("the progress thread (HOCKET_PROGRESS)", [this] { run(); }));
    (void)pthread_setname_np(thread_.native_handle(), "hocket-progress");
    return {};
  }
  void attend(const std::shared_ptr<Gate>& gate) {
    if (!gate->attended) {
      const MutexLock lock(mutex_);
      arrived_.push_back(gate);
      gate->attended = true;
    }
    bell_.ring(Fence::full);
  }
  void stop() {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    bell_.wake();
    if (!is_mine()) thread_.join();  // an operation of the program's may call exit()
  }

  // --- around a fork, so that no gate has a visitor whom the child would wait for
  // Not the thread's own, forked by an operation of the program's: it holds the pass, and visits what it visits.
  HKT_THREAD_ATTRIBUTE(no_thread_safety_analysis) void hold() {
    if (!is_mine()) pass_.lock();
    mutex_.lock();
  }
  HKT_THREAD_ATTRIBUTE(no_thread_safety_analysis) void go_on() {
    mutex_.unlock();
    if (!is_mine()) pass_.unlock();
  }

 private:
  enum class Found { nothing, moved };
  bool is_mine() const { return thread_.get_id() == std::this_thread::get_id(); }

  void run() {
    int64_t idle_since = 0;  // 0: something has moved
    while (take_in()) {
      if (pass() == Found::moved) {
        idle_since = 0;
        continue;
      }
      int64_t sleep = kIdle;
      if (gates_.empty()) {
        idle_since = 0;
      } else {
        const int64_t now = now_ns();
        if (idle_since == 0) idle_since = now;
        if (now - idle_since < kLook) {
          sched_yield();
          continue;
        }
        sleep = nap_after(now - idle_since, kShortest);
      }
      const uint32_t armed = bell_.arm(Fence::full);
      if (nothing_new()) bell_.sleep(armed, sleep);
      bell_.disarm();
    }
  }
  // False: the process ends.
  bool take_in() HKT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    gates_.insert(gates_.end(), arrived_.begin(), arrived_.end());
    arrived_.clear();
    return !stop_;
  }
  bool nothing_new() HKT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return arrived_.empty() && !stop_;
  }
  Found pass() HKT_EXCLUDES(pass_) {
    const MutexLock lock(pass_);
    Found found = Found::nothing;
    for (size_t i = gates_.size(); i-- > 0;) {
      if (stays(*gates_[i], found)) continue;
      gates_[i] = std::move(gates_.back());
      gates_.pop_back();
    }
    return found;
  }
  // Moves what is outstanding there. False: nothing is any more.
  static bool stays(Gate& gate, Found& found) {
    const Visit visit(gate);
    if (!visit.mine()) return !gate.closed();  // somebody is in a call, which moves it
    if (gate.outstanding == nullptr) return false;
    try {
      if (gate.outstanding->advance()) found = Found::moved;
      gate.outstanding->check_now_and_then();
    } catch (const std::exception&) {
      return true;  // no memory to look for faults: the next look may have some
    }
    gate.attended = !gate.outstanding->comm().settle();
    return gate.attended;
  }

  Mutex pass_;  // held while gates are visited
  Mutex mutex_;
  std::vector<std::shared_ptr<Gate>> arrived_ HKT_GUARDED_BY(mutex_);
  bool stop_ HKT_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<Gate>> gates_;  // the thread's
  Doorbell bell_;
  std::thread thread_;
};

std::atomic<Helper*> running{nullptr};
Mutex starting;
// Helpers are never destroyed: other threads may have one at hand when the process ends, and a child cannot join its
// parent's.
std::vector<Helper*>* made HKT_GUARDED_BY(starting) = nullptr;
Helper* held = nullptr;  // during a fork

HKT_THREAD_ATTRIBUTE(no_thread_safety_analysis) void before_fork() {
  starting.lock();
  held = running.load(std::memory_order_acquire);
  if (held != nullptr) held->hold();
}
HKT_THREAD_ATTRIBUTE(no_thread_safety_analysis) void after_fork_in_parent() {
  if (held != nullptr) held->go_on();
  starting.unlock();
}
HKT_THREAD_ATTRIBUTE(no_thread_safety_analysis) void after_fork_in_child() {
  if (held != nullptr) held->go_on();
  running.store(nullptr, std::memory_order_release);
  starting.unlock();
}

// Its destruction ends the thread.
struct Ending {
  ~Ending() {
    if (Helper* const helper = running.exchange(nullptr, std::memory_order_acq_rel); helper != nullptr) helper->stop();
  }
};

}  // namespace

Status start() {
  const MutexLock lock(starting);
  if (running.load(std::memory_order_acquire) != nullptr) return {};
  if (made == nullptr) {
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
      return error(hktSystemError, "cannot start the progress thread (HOCKET_PROGRESS): pthread_atfork has no memory");
    made = new std::vector<Helper*>;
  }
  auto helper = std::make_unique<Helper>();
  HKT_TRY(helper->start());
  made->push_back(helper.get());
  running.store(helper.release(), std::memory_order_release);
  static const Ending ending;
  (void)ending;
  return {};
}

void attend(const std::shared_ptr<Gate>& gate) {
  if (Helper* const helper = running.load(std::memory_order_acquire); helper != nullptr) helper->attend(gate);
}

}  // namespace hocket::progress
