#include "engine/wait.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/deadline.h"

namespace hocket {
namespace {

constexpr int64_t kCheckEvery = 20'000'000;  // ns between looks of the supervisor
// ns of a sleep, at first: where what is waited for wakes the sleeper, but a peer may die without ringing; and where it
// may not, for when both a doorbell and descriptors can, only one can be slept on.
constexpr int64_t kSleepRung = 50'000'000, kSleepBetween = 1'000'000;
constexpr int64_t kSleepAtMost = 250'000'000;

// First line of a small file, empty if there is none.
std::string read_line(const std::string& path) {
  char text[4096] = "";
  if (std::FILE* f = std::fopen(path.c_str(), "re")) {
    if (std::fgets(text, sizeof text, f) == nullptr) text[0] = '\0';
    std::fclose(f);
  }
  return text;
}

// CPUs that the control group's quota is worth, a large number if it has none.
double quota_cpus() {
  constexpr double kNone = 1e9;
  double cpus = kNone;
  // Version 2: /proc/self/cgroup has one line "0::/path"; every level up to the root may have a quota.
  std::string path;
  const std::string own = read_line("/proc/self/cgroup");
  if (own.rfind("0::", 0) == 0) path = own.substr(3, own.find('\n') - 3);
  for (;;) {
    double quota = 0, period = 0;
    const std::string line = read_line("/sys/fs/cgroup" + path + "/cpu.max");
    if (std::sscanf(line.c_str(), "%lf %lf", &quota, &period) == 2 && period > 0) cpus = std::min(cpus, quota / period);
    const size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) break;
    path.resize(slash);
  }
  // Version 1, where a container sees its own group at the root of the controller.
  double quota = -1, period = 0;
  std::sscanf(read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").c_str(), "%lf", &quota);
  std::sscanf(read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us").c_str(), "%lf", &period);
  if (quota > 0 && period > 0) cpus = std::min(cpus, quota / period);
  return cpus;
}

}  // namespace

CpuShare cpu_share() {
  CpuShare share;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) share.mask.assign(reinterpret_cast<const char*>(&set), sizeof set);
  share.quota = quota_cpus();
  return share;
}

uint32_t usable_cpus(const std::vector<CpuShare>& shares) {
  cpu_set_t all, one;
  CPU_ZERO(&all);
  double quota = 1e9;
  for (const CpuShare& s : shares) {
    quota = std::min(quota, s.quota);
    if (s.mask.size() != sizeof one) continue;
    std::memcpy(&one, s.mask.data(), sizeof one);
    CPU_OR(&all, &all, &one);
  }
  return static_cast<uint32_t>(std::max(1.0, std::floor(std::min<double>(CPU_COUNT(&all), quota))));
}

WaitPolicy wait_policy(uint32_t ranks, uint32_t cpus) {
  // A CPU of one's own: the awaited store comes within a cache-line exchange. Later a yield costs little when nobody
  // else wants the CPU, and saves everything when somebody does after all.
  if (ranks <= cpus) return {2'000, 1'000'000};
  // Shared: whoever is waited for may need this very CPU.
  return {4, 500'000};
}

int64_t nap_after(int64_t waited_ns, int64_t shortest) { return std::clamp(waited_ns / 16, shortest, kSleepAtMost); }

Waiter::Waiter(WaitPolicy policy, Doorbell& bell, Fence fence, const std::vector<Transport*>& transports,
               Supervisor& supervisor)
    : policy_(policy), spins_(policy.spins), bell_(bell), fence_(fence), supervisor_(supervisor) {
  for (Transport* t : transports) {
    if (t->pumped())
      pumps_.push_back(t);
    else
      shares_memory_ = true;
  }
  pumped_ = !pumps_.empty();
  if (pumped_) spins_ = std::min(spins_, kPumpSpins);
}

bool Waiter::flushed() const {
  return std::all_of(pumps_.begin(), pumps_.end(), [](const Transport* t) { return t->flushed(); });
}

Status Waiter::flush() {
  struct Flush final : Waiting {
    explicit Flush(Waiter& w) : waiter(w) {}
    bool poll() override { return waiter.flushed(); }
    Blocked blocked() const override { return {}; }
    Waiter& waiter;
  } rest(*this);
  if (flushed()) return {};
  return wait(rest);
}

bool Waiter::yield(Waiting& waiting) {
  for (int i = 0; i < 8; ++i) {
    sched_yield();
    progress();
    if (waiting.poll()) return true;
  }
  return false;
}

Status Waiter::wait_slowly(Waiting& waiting) {
  if (yield(waiting)) return {};  // before the first look at the clock: mostly, that is all
  int64_t now = now_ns();
  const int64_t begun = now, yield_until = now + policy_.yield_ns;
  int64_t next_check = now + kCheckEvery;
  for (;;) {
    if (now < yield_until) {
      if (yield(waiting)) return {};
    } else {
      const uint32_t armed = bell_.arm(fence_);
      progress();
      const bool moved = waiting.poll();
      if (!moved) sleep(armed, waiting, now - begun);
      bell_.disarm();
      if (moved || (progress(), waiting.poll())) return {};
    }
    now = now_ns();
    if (now >= next_check) {
      HKT_TRY(supervisor_.check(waiting));
      next_check = now_ns() + kCheckEvery;
    }
  }
}

void Waiter::sleep(uint32_t armed, const Waiting& waiting, int64_t waited_ns) {
  const bool brief = waiting.elsewhere();
  const int64_t nap = nap_after(waited_ns, kSleepBetween), rung = nap_after(waited_ns, kSleepRung);
  fds_.clear();
  for (const Transport* t : pumps_) t->poll_set(fds_);
  if (fds_.empty()) {
    bell_.sleep(armed, pumped_ || brief ? nap : rung);
    return;
  }
  const int64_t ns = shares_memory_ || brief ? nap : rung;
  const timespec t{0, ns};
  ppoll(fds_.data(), fds_.size(), &t, nullptr);  // any outcome: the caller looks at everything again
}

}  // namespace hocket
