#include <ATen/record_function.h>
#include <c10/util/ParallelGuard.h>
#include <pthread.h>
#include <sched.h>

#include <thread>

#include "group.h"

namespace hocket::pg {

HocketWork::HocketWork(std::shared_ptr<Group> group, Job&& job, uint64_t sequence)
    : Work(group->spec().rank, job.type, at::hasCallbacks() ? job.title : nullptr,
           at::hasCallbacks() ? std::optional<std::vector<at::Tensor>>(job.inputs) : std::nullopt),
      group_(std::move(group)),
      job_(std::move(job)),
      sequence_(sequence) {}

HocketWork::~HocketWork() = default;

bool HocketWork::isCompleted() {
  bool moved = false;
  return group_->test(*this, moved);
}

bool HocketWork::wait(Milliseconds timeout) {
  if (!over()) group_->wait(*this, timeout);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  return true;
}

void HocketWork::abort() { group_->abort(); }

int HocketWork::sourceRank() const {
  TORCH_CHECK(job_.type == c10d::OpType::RECVANYSOURCE && over(),
              "hocket: sourceRank() is for a receive from any rank that is done");
  return job_.message->source;
}

c10::intrusive_ptr<c10::ivalue::Future> HocketWork::getFuture() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (future_ != nullptr) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  // Over already: nobody else will tell it, and it has no callbacks yet.
  if (completed_) {
    if (exception_ != nullptr)
      future_->setError(exception_);
    else
      future_->markCompleted(c10::IValue(job_.outputs));
  }
  return future_;
}

void HocketWork::fail(hktResult_t code) {
  if (failure_ == nullptr) failure_ = group_->failure(job_.name(), code, hktGetLastError());
}

bool HocketWork::poll() {
  for (; next_ < requests_.size(); ++next_) {
    hktRequest_t& request = requests_[next_];
    int done = 0;
    const hktResult_t r = hktRequestTest(&request, &done);
    if (r != hktSuccess)
      fail(r);
    else if (done == 0)
      return false;
  }
  return true;
}

void HocketWork::conclude() {
  if (failure_ == nullptr && (!job_.copies.empty() || job_.after)) {
    try {
      const at::NoGradGuard no_grad;
      for (const auto& [to, from] : job_.copies) to.copy_(from);
      if (job_.after) job_.after();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  job_.after = nullptr;
  job_.kept.reset();
  job_.copies.clear();
  job_.inputs.clear();
  job_.staged.clear();
  requests_.clear();
  next_ = 0;
  finish(failure_);
  over_.store(true, std::memory_order_release);
}

void HocketWork::tell() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    future = future_;
  }
  if (future == nullptr || future->completed()) return;
  if (failure_ != nullptr)
    future->setError(failure_);
  else
    future->markCompleted(c10::IValue(job_.outputs));
}

// --- forks

namespace {
std::atomic<unsigned> forked{0};
std::atomic<Progress*> running{nullptr};
std::mutex starting;
void before_fork() { starting.lock(); }
void after_fork_in_parent() { starting.unlock(); }
// The threads are the parent's, and locks may be held by them for ever.
void after_fork_in_child() {
  forked.fetch_add(1, std::memory_order_relaxed);
  running.store(nullptr, std::memory_order_relaxed);
  starting.unlock();
}
}  // namespace

unsigned forks() {
  static const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  (void)registered;
  return forked.load(std::memory_order_relaxed);
}

// --- progress

// Never destroyed: its threads may be in callbacks when the process ends.
Progress& Progress::get() {
  if (Progress* const p = running.load(std::memory_order_acquire); p != nullptr) return *p;
  const std::lock_guard<std::mutex> lock(starting);
  if (Progress* const p = running.load(std::memory_order_acquire); p != nullptr) return *p;
  Progress* const p = new Progress;
  running.store(p, std::memory_order_release);
  return *p;
}

bool Progress::attend(const std::shared_ptr<Group>& group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stop_) return true;
  arrived_.push_back(group);
  if (!led_ && idle_ == 0 && !add_thread()) {
    arrived_.pop_back();
    return false;
  }
  work_.notify_one();
  return true;
}

bool Progress::add_thread() noexcept {
  try {
    std::thread thread([this] { run(); });
    (void)pthread_setname_np(thread.native_handle(), "hocket-torch");
    thread.detach();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void Progress::run() {
  std::vector<WorkPtr> done;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (led_) {
      ++idle_;
      followers_.wait(lock, [this] { return !led_ || stop_; });
      --idle_;
      continue;
    }
    led_ = true;
    drive(done, lock);
    led_ = false;
    stopped_.notify_all();
    if (stop_) break;
    if (idle_ != 0)
      followers_.notify_one();
    else
      (void)add_thread();  // at a limit of threads this one leads again once it has told the works
    lock.unlock();
    for (const WorkPtr& w : done) w->tell();
    done.clear();
    lock.lock();
  }
}

// As leader: returns with works whose futures are to be told, or to stop.
void Progress::drive(std::vector<WorkPtr>& done, std::unique_lock<std::mutex>& lock) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLook = std::chrono::microseconds(50), kLongest = std::chrono::microseconds(1000);
  const c10::ParallelGuard alone(true);  // copies made here start no threads of OpenMP
  auto nap = kLook;
  auto moved = Clock::now();
  while (!stop_) {
    groups_.insert(groups_.end(), arrived_.begin(), arrived_.end());
    arrived_.clear();
    if (groups_.empty()) {
      work_.wait(lock, [this] { return !arrived_.empty() || stop_; });
      moved = Clock::now();
      nap = kLook;
      continue;
    }
    lock.unlock();
    const size_t before = done.size();
    const Seen seen = pass(done);
    std::erase_if(done, [](const WorkPtr& w) { return !w->has_future(); });
    lock.lock();
    if (done.size() != before) return;
    if (groups_.empty()) continue;
    const auto now = Clock::now();
    if (seen == Seen::moved) {
      moved = now;
      nap = kLook;
    }
    if (seen != Seen::attended && now - moved < kLook) {
      lock.unlock();
      sched_yield();
      lock.lock();
      continue;
    }
    work_.wait_for(lock, nap, [this] { return !arrived_.empty() || stop_; });
    nap = std::min(2 * nap, kLongest);
    if (arrived_.empty()) continue;
    moved = Clock::now();
    nap = kLook;
  }
}

// Looks at every group once.
Progress::Seen Progress::pass(std::vector<WorkPtr>& done) {
  Seen seen = Seen::attended;
  std::vector<std::shared_ptr<Group>> settled;  // outlive their locks
  for (size_t i = groups_.size(); i-- > 0;) {
    Group& group = *groups_[i];
    const std::unique_lock<Turn> turn(group.turn_, std::try_to_lock);
    if (!turn.owns_lock()) continue;  // somebody is in a call, which moves it
    if (group.advance(done))
      seen = Seen::moved;
    else if (seen == Seen::attended && group.waiters_.load(std::memory_order_relaxed) == 0)
      seen = Seen::still;
    if (!group.outstanding_.empty()) continue;
    group.attended_ = false;
    settled.push_back(std::move(groups_[i]));
    groups_[i] = std::move(groups_.back());
    groups_.pop_back();
  }
  return seen;
}

void Progress::stop() {
  std::unique_lock<std::mutex> lock(mutex_);
  stop_ = true;
  work_.notify_all();
  followers_.notify_all();
  stopped_.wait(lock, [this] { return !led_; });
}

}  // namespace hocket::pg
