#include "group.h"

#include <c10/util/Exception.h>
#include <sched.h>

#include <algorithm>
#include <thread>

#include "bringup.h"

namespace hocket::pg {
namespace {

constexpr auto kDrainFor = std::chrono::seconds(5);  // at most, of collectives when a group is shut down

const char* kind(hktResult_t code) {
  switch (code) {
    case hktTimeout:
      return "timeout";
    case hktMismatch:
      return "mismatch";
    case hktRemoteError:
      return "another rank failed";
    case hktAborted:
      return "aborted";
    case hktInvalidArgument:
      return "invalid argument";
    case hktInvalidUsage:
      return "invalid usage";
    default:
      return hktGetErrorString(code);
  }
}

std::string list(const std::vector<int64_t>& ranks) {
  std::string text;
  for (const int64_t r : ranks) text += (text.empty() ? "" : ", ") + std::to_string(r);
  return text;
}

}  // namespace

// --- making, errors

Group::Group(Spec spec) : spec_(std::move(spec)), forks_(forks()), timeout_ms_(spec_.timeout.count()) {}

Group::~Group() {
  if (forks_ == forks()) close();
}

std::shared_ptr<Group> Group::make(Spec spec, const c10::intrusive_ptr<c10d::Store>& store) {
  (void)forks();
  auto group = std::make_shared<Group>(std::move(spec));
  const Spec& s = group->spec_;
  hktConfig_t config = HKT_CONFIG_INITIALIZER;
  config.init_timeout_ms = config.timeout_ms = s.timeout.count();
  config.determinism = s.determinism;
  if (!s.transport.empty()) config.transport = s.transport.c_str();
  std::string text;
  const hktResult_t r = meet(*store, {s.rank, s.size}, config, &group->comm_, text);
  if (r != hktSuccess) std::rethrow_exception(group->failure("init_process_group", r, text));
  return group;
}

std::exception_ptr Group::failure(const char* name, hktResult_t code, const std::string& text) const {
  std::string where = "rank " + std::to_string(spec_.rank) + " of " + std::to_string(spec_.size);
  bool same = true;
  for (size_t i = 0; i < spec_.global_ranks.size(); ++i) same &= spec_.global_ranks[i] == static_cast<int64_t>(i);
  if (!same) where += " of a group whose ranks are the global ranks " + list(spec_.global_ranks);
  const std::string whole = std::string("hocket: ") + kind(code) + " in " + name + " on " + where + ": " + text;
  return std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, whole));
}

std::unique_lock<Turn> Group::enter(const char* name) {
  if (forks_ != forks())
    std::rethrow_exception(failure(name, hktInvalidUsage,
                                   "this process was forked after the process group was made; only the parent may use "
                                   "it: call init_process_group in the child, or start processes by spawn"));
  std::unique_lock<Turn> turn(turn_);
  if (comm_ == nullptr) std::rethrow_exception(failure(name, hktInvalidUsage, "the process group has been shut down"));
  return turn;
}

// --- works

WorkPtr Group::begin(Job&& job) {
  const uint64_t sequence = sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
  return c10::make_intrusive<HocketWork>(shared_from_this(), std::move(job), sequence);
}

void Group::end(const WorkPtr& work, std::unique_lock<Turn>& turn) {
  if (work->poll()) {
    work->conclude();
    turn.unlock();
    // Nobody has its future yet. What is wrong with the call itself is said where it was made.
    if (work->failure_ != nullptr) std::rethrow_exception(work->failure_);
    return;
  }
  outstanding_.push_back(work);
  if (!attended_) {
    // Without a thread the work is moved by who waits for it, and the next call tries again.
    attended_ = Progress::get().attend(shared_from_this());
  }
}

bool Group::advance(std::vector<WorkPtr>& done) {
  constexpr int kLooks = 16;  // in a row: others may want the turn
  bool any = false;
  int moved = outstanding_.empty() ? 0 : 1;
  for (int i = 0; i < kLooks && moved != 0 && comm_ != nullptr; ++i) {
    if (hktCommProgress(comm_, &moved) != hktSuccess) moved = 0;
    any |= moved != 0;
  }
  size_t kept = 0;
  for (size_t i = 0; i < outstanding_.size(); ++i) {
    WorkPtr& work = outstanding_[i];
    if (!work->over()) {
      if (!work->poll()) {
        if (kept != i) outstanding_[kept] = std::move(work);
        ++kept;
        continue;
      }
      work->conclude();
    }
    done.push_back(std::move(work));
    any = true;
  }
  outstanding_.resize(kept);
  return any;
}

bool Group::test(HocketWork& work, bool& moved) {
  moved = true;
  if (work.over()) return true;
  if (forks_ != forks()) (void)enter(work.job_.name());  // throws
  std::vector<WorkPtr> done;
  {
    const std::unique_lock<Turn> turn(turn_, std::try_to_lock);
    if (turn.owns_lock()) moved = advance(done);  // else who has it moves all that is outstanding
  }
  for (const WorkPtr& w : done) w->tell();
  return work.over();
}

// The ladder of Hocket's own waits, with the turn free in between: other threads may have something to issue.
void Group::wait(HocketWork& work, Milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr int kSpins = 100;
  constexpr auto kYield = std::chrono::milliseconds(1), kLongest = std::chrono::milliseconds(1);
  constexpr auto kShortest = std::chrono::microseconds(50);
  waiters_.fetch_add(1, std::memory_order_relaxed);
  struct Leave {
    std::atomic<int>& n;
    ~Leave() { n.fetch_sub(1, std::memory_order_relaxed); }
  } leave{waiters_};
  Clock::time_point began{}, last{};
  auto nap = kShortest;
  bool moved = false;
  for (int round = 0; !test(work, moved); ++round) {
    if (round < kSpins && !turn_.wanted()) continue;
    const auto now = Clock::now();
    if (began == Clock::time_point{}) began = last = now;
    if (timeout != kNoTimeout && now - began >= timeout)
      std::rethrow_exception(
          failure(work.job_.name(), hktTimeout,
                  "wait() timed out after " + std::to_string(timeout.count()) + " ms; the operation itself goes on"));
    if (moved) last = now;
    if (now - last < kYield) {
      sched_yield();
      nap = kShortest;
    } else {
      std::this_thread::sleep_for(nap);
      nap = std::min<std::chrono::microseconds>(2 * nap, kLongest);
    }
  }
}

// --- the end

// In a forked child the parent's other threads may hold the lock for ever.
void Group::abort() {
  if (forks_ != forks()) return;
  const std::lock_guard<std::mutex> lock(ends_);
  if (comm_ != nullptr) (void)hktCommAbort(comm_);
}

hktResult_t Group::async_error() {
  if (forks_ != forks()) return hktInvalidUsage;
  const std::lock_guard<std::mutex> lock(ends_);
  hktResult_t r = hktAborted;
  if (comm_ != nullptr) (void)hktCommGetAsyncError(comm_, &r);
  return r;
}

void Group::close() {
  if (forks_ != forks()) return;
  const auto until = std::chrono::steady_clock::now() + kDrainFor;
  std::vector<WorkPtr> done;
  const auto pending = [](const WorkPtr& w) {
    return w->job_.type != c10d::OpType::RECV && w->job_.type != c10d::OpType::RECVANYSOURCE;
  };
  std::unique_lock<Turn> turn(turn_, std::defer_lock);
  // A synchronous call on another thread holds the turn until it ends: for as long as its timeout.
  const auto take = [&] {
    if (turn.try_lock_until(until)) return;
    abort();
    turn.lock();
  };
  take();
  while (comm_ != nullptr) {
    advance(done);
    if (std::none_of(outstanding_.begin(), outstanding_.end(), pending) || std::chrono::steady_clock::now() >= until)
      break;
    turn.unlock();
    sched_yield();
    take();
  }
  hktComm_t comm = nullptr;
  {
    const std::lock_guard<std::mutex> lock(ends_);
    std::swap(comm, comm_);
  }
  if (comm != nullptr) {
    (void)hktCommDestroy(comm);
    advance(done);  // their requests have ended with it
    for (WorkPtr& w : outstanding_) {
      w->failure_ = failure(w->job_.name(), hktAborted, "the process group was shut down with this work outstanding");
      w->conclude();
      done.push_back(std::move(w));
    }
    outstanding_.clear();
  }
  turn.unlock();
  for (const WorkPtr& w : done) w->tell();
}

}  // namespace hocket::pg
