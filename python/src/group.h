// A process group's communicator: the lock that lets one thread at a time into it, the works outstanding on it, and its
// errors as exceptions of torch. Made by Group::make, used by the back end, its works and the progress threads.
//
// Locks: a group's turn is taken before the mutex of Progress, never the other way round. Futures are told, and so
// callbacks run, with neither of them held.
#pragma once

#include <hocket/hocket.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace hocket::pg {

using Milliseconds = std::chrono::milliseconds;

class Group;
class Progress;

// A mutex that tells whether others wait for it, so that who takes it again and again can let them in.
class Turn {
 public:
  void lock() {
    if (mutex_.try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool try_lock() { return mutex_.try_lock(); }
  bool try_lock_until(std::chrono::steady_clock::time_point until) {
    if (mutex_.try_lock()) return true;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    bool taken = false;
    while (!(taken = mutex_.try_lock()) && std::chrono::steady_clock::now() < until) sched_yield();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return taken;
  }
  void unlock() { mutex_.unlock(); }
  bool wanted() const { return waiting_.load(std::memory_order_relaxed) != 0; }

 private:
  std::mutex mutex_;
  std::atomic<int> waiting_{0};
};

// What is to be done, and for whom.
struct Job {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = "";           // "hocket:all_reduce", as torch's profiler shows it; static
  bool async = true;                // false: run now, on this thread
  Milliseconds timeout{-1};         // negative: the group's
  std::vector<at::Tensor> inputs;   // kept until the job is done, like `staged`
  std::vector<at::Tensor> outputs;  // what the work's future holds
  std::vector<at::Tensor> staged;
  std::vector<std::pair<at::Tensor, at::Tensor>>
      copies;                                       // to, from: what is to be copied once the calls have succeeded
  std::function<void()> after = nullptr;            // then; under the group's lock; may throw
  std::shared_ptr<void> kept = nullptr;             // released under the group's lock
  std::shared_ptr<hktMessage_t> message = nullptr;  // of a receive

  const char* name() const { return std::strchr(title, ':') + 1; }
};

// A c10d::Work over requests of Hocket. Any thread.
class HocketWork final : public c10d::Work {
 public:
  HocketWork(std::shared_ptr<Group> group, Job&& job, uint64_t sequence);
  ~HocketWork() override;

  bool isCompleted() override;
  bool wait(Milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override { return job_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  int sourceRank() const override;
  uint64_t getSequencenumber() const override { return sequence_; }
  void abort() override;

 private:
  friend class Group;
  friend class Progress;

  bool has_future() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return future_ != nullptr;
  }
  bool over() const { return over_.load(std::memory_order_acquire); }
  // --- the group's lock is held
  bool poll();                  // true: all requests are done, conclude() is due
  void conclude();              // what remains to be done, and the work is over
  void fail(hktResult_t code);  // with the thread's last text; the first one stays
  // --- no lock is held
  void tell();

  const std::shared_ptr<Group> group_;
  Job job_;
  const uint64_t sequence_;
  std::vector<hktRequest_t> requests_;
  size_t next_ = 0;  // of requests_
  std::exception_ptr failure_;
  std::atomic<bool> over_{false};
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // guarded by mutex_ of the base
};
using WorkPtr = c10::intrusive_ptr<HocketWork>;

class Group : public std::enable_shared_from_this<Group> {
 public:
  struct Spec {
    int rank = 0, size = 0;
    std::string name;
    std::vector<int64_t> global_ranks;
    Milliseconds timeout{0};
    std::string transport;     // empty: as the environment says
    uint32_t determinism = 0;  // an hktDeterminism_t
  };
  // Meets the other ranks through the store. Blocks until all are there or spec.timeout has passed.
  static std::shared_ptr<Group> make(Spec spec, const c10::intrusive_ptr<c10d::Store>& store);
  explicit Group(Spec spec);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // `call(i, comm, options)` for each i < calls: one function of Hocket. Those that do not succeed throw here; what a
  // call that waits for others runs into is thrown by the work's wait() if the job is asynchronous.
  template <class Call>
  WorkPtr run(Job&& job, size_t calls, Call&& call) {
    WorkPtr work = begin(std::move(job));
    std::unique_lock<Turn> turn = enter(work->job_.name());
    hktCallOptions_t options = HKT_CALL_OPTIONS_INITIALIZER;
    options.timeout_ms = timeout_of(work->job_.timeout);
    for (size_t i = 0; i < calls; ++i) {
      hktRequest_t request = nullptr;
      if (work->job_.async) options.request = &request;
      const hktResult_t r = call(i, comm_, &options);
      if (r != hktSuccess) {
        work->fail(r);
        break;
      }
      if (request != nullptr) work->requests_.push_back(request);
    }
    end(work, turn);
    return work;
  }
  // The lock, and a communicator to use: throws if there is none any more.
  std::unique_lock<Turn> enter(const char* name);
  hktComm_t comm() const { return comm_; }  // under the lock

  void wait(HocketWork& work, Milliseconds timeout);
  // `moved`: something of the group has, or somebody else is at it.
  bool test(HocketWork& work, bool& moved);
  // Any thread, at any time.
  void abort();
  hktResult_t async_error();
  // Waits for collectives outstanding, but not long, ends the rest, and releases the communicator. Again: nothing.
  void close();
  void set_timeout(Milliseconds timeout) { timeout_ms_.store(timeout.count(), std::memory_order_relaxed); }
  uint64_t sequence() const { return sequence_.load(std::memory_order_relaxed); }

  // The exception for a failure whose text is the thread's last one, or `text`.
  std::exception_ptr failure(const char* name, hktResult_t code, const std::string& text) const;
  const Spec& spec() const { return spec_; }

 private:
  friend class HocketWork;
  friend class Progress;

  WorkPtr begin(Job&& job);
  void end(const WorkPtr& work, std::unique_lock<Turn>& turn);
  int64_t timeout_of(Milliseconds own) const {
    return own.count() >= 0 ? own.count() : timeout_ms_.load(std::memory_order_relaxed);
  }
  // Under the lock: moves what is outstanding; works that are over go to `done`.
  bool advance(std::vector<WorkPtr>& done);  // false: nothing has moved

  const Spec spec_;
  const unsigned forks_;  // of the process that made it
  std::atomic<int64_t> timeout_ms_;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<int> waiters_{0};
  std::mutex ends_;  // of comm_: abort() and close() from different threads; taken after the turn
  Turn turn_;
  // --- under the turn
  hktComm_t comm_ = nullptr;
  std::vector<WorkPtr> outstanding_;
  bool attended_ = false;  // Progress has it on its list
};

// Threads that move what is outstanding while nobody waits for it, of which one at a time is at it. When it finds a
// work whose future somebody has, another one takes its place before it tells the future: callbacks may block, and wait
// for other works. Idle, they cost nothing.
class Progress {
 public:
  static Progress& get();
  // The group's turn is held. False: there is no thread to do it, nor can one be had; the group is not on the list.
  bool attend(const std::shared_ptr<Group>& group);
  // The process ends: returns when no thread is in Hocket any more.
  void stop();

 private:
  bool add_thread() noexcept;  // false: the system gives no more threads
  void run();
  void drive(std::vector<WorkPtr>& done, std::unique_lock<std::mutex>& lock);
  enum class Seen { attended, still, moved };  // attended: nothing moves, and others look at all of it
  Seen pass(std::vector<WorkPtr>& done);

  std::mutex mutex_;
  std::condition_variable work_;  // for the leader
  std::condition_variable followers_;
  std::condition_variable stopped_;
  std::vector<std::shared_ptr<Group>> arrived_;
  std::vector<std::shared_ptr<Group>> groups_;  // the leader's
  size_t idle_ = 0;
  bool led_ = false;
  bool stop_ = false;
};

// How many forks there have been above this process: what it inherited has a smaller number.
unsigned forks();

}  // namespace hocket::pg
