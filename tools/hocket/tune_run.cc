#include "tune_run.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "base/deadline.h"
#include "base/env.h"
#include "comm/bringup.h"
#include "commands.h"
#include "hocket/hocket.h"
#include "launch.h"
#include "perf_collective.h"

namespace hocket::tool {
namespace {

constexpr Collective kTuned[] = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                 Collective::broadcast, Collective::all_to_all};
constexpr double kSampleUs = 6000;          // how long a plan is timed, unless its fewest samples take longer
constexpr size_t kFewest = 9, kMost = 201;  // samples
constexpr int kWarmUp = 8;                  // calls: the stores of a size are learned in fewer
constexpr uint64_t kSeries = 16 * 1024;     // bytes; smaller calls are timed in series, as the model sees them
constexpr int kSeriesCalls = 64;            // at most, of kSeries bytes together

// One thing to time, in the order in which all ranks do so.
struct Job {
  const CatalogEntry* planner;
  uint64_t bytes;
};

std::vector<Job> jobs_of(const TuneGroup& group) {
  std::vector<Job> jobs;
  for (const Collective c : kTuned)
    for (const uint64_t bytes : group.sizes)
      for (const CatalogEntry& e : catalog())
        if (e.collective == c && static_cast<uint32_t>(group.np) <= e.max_ranks) jobs.push_back({&e, bytes});
  return jobs;
}

// Shared by the ranks of a group and the parent.
struct alignas(64) Arrival {
  std::atomic<uint32_t> starts;  // that a rank has come to
};
constexpr int kMostRanks = 64;
struct Board {
  std::array<Arrival, kMostRanks> ranks;
  std::array<double, 4096> us;  // by job
};

struct Failed {};
void check(hktResult_t r) {
  if (r != hktSuccess) throw Failed{};
}

// One rank: a communicator for each name of a planner, so that plans are compared by the same processes.
class TuneRank {
 public:
  TuneRank(const TuneGroup& group, int rank, Board& board) : group_(group), rank_(rank), board_(board) {}
  ~TuneRank() {
    for (const auto& [name, comm] : comms_) (void)hktCommDestroy(comm);
  }
  TuneRank(const TuneRank&) = delete;
  TuneRank& operator=(const TuneRank&) = delete;

  void run() {
    const std::vector<Job> jobs = jobs_of(group_);
    uint64_t most = 0;
    for (const Job& j : jobs) most = std::max(most, j.bytes);
    in_.assign(std::max(most, kSeries), 1);
    out_.assign(in_.size(), 1);
    for (size_t i = 0; i < jobs.size(); ++i) {
      const double us = time(jobs[i]);
      if (rank_ == 0) board_.us[i] = us;
    }
  }

 private:
  hktComm_t comm_of(const std::string& planner) {
    hktComm_t& comm = comms_[planner];
    if (comm != nullptr) return comm;
    setenv("HOCKET_ALGO", planner.c_str(), 1);
    setenv("HOCKET_PROTO", "slot", 1);  // what the model is fitted to
    const std::string url = env::get("HOCKET_INIT").value_or("") + "." + planner + "?rank=" + std::to_string(rank_) +
                            "&world_size=" + std::to_string(group_.np);
    hktConfig_t config = HKT_CONFIG_INITIALIZER;
    config.transport = group_.tcp ? "tcp" : "shm";
    check(hktCommInitUrl(&comm, url.c_str(), &config));
    return comm;
  }

  // The median over the samples of the slowest rank's time for a call. Between samples inputs are written and outputs
  // read, as a program does.
  double time(const Job& job) {
    const PerfCollective& test = *find_perf_collective(perf_name(job.planner->collective));
    PerfCall call;
    call.comm = comm_of(job.planner->name);
    call.rank = rank_;
    call.nranks = group_.np;
    call.count = job.bytes / sizeof(float);
    if (layout(job.planner->collective) == Layout::blocks) call.count /= static_cast<uint64_t>(group_.np);
    const int calls = static_cast<int>(std::clamp<uint64_t>(kSeries / job.bytes, 1, kSeriesCalls));
    double warm = sample(test, call, job.bytes, std::max(kWarmUp, calls));
    check(hktAllReduce(&warm, &warm, 1, hktFloat64, hktMax, call.comm, nullptr));
    const double fit = kSampleUs / std::max(warm * calls, 1.0);
    std::vector<double> us(static_cast<size_t>(std::clamp<double>(fit, kFewest, kMost)));
    for (double& one : us) one = sample(test, call, job.bytes, calls);
    check(hktAllReduce(us.data(), us.data(), us.size(), hktFloat64, hktMax, call.comm, nullptr));
    std::nth_element(us.begin(), us.begin() + static_cast<long>(us.size() / 2), us.end());
    return us[us.size() / 2];
  }

  // Returns when all ranks have called it. Nobody sleeps here: the time for waking up would be counted.
  void start() {
    board_.ranks[static_cast<size_t>(rank_)].starts.store(++starts_, std::memory_order_release);
    for (size_t r = 0; r < static_cast<size_t>(group_.np); ++r)
      for (int polls = 0; static_cast<int32_t>(board_.ranks[r].starts.load(std::memory_order_acquire) - starts_) < 0;)
        if (++polls > 64) sched_yield();
  }

  // Microseconds of one of so many calls, on this rank.
  double sample(const PerfCollective& test, PerfCall& call, uint64_t bytes, int calls) {
    const uint64_t places = std::max<uint64_t>(1, in_.size() / bytes);
    const auto place = [&](int i) { return static_cast<uint64_t>(i) % places * bytes; };
    const uint64_t used = std::min<uint64_t>(places, static_cast<uint64_t>(calls)) * bytes;
    std::memset(in_.data(), 1, used);
    start();
    const int64_t begin = now_ns();
    for (int i = 0; i < calls; ++i) {
      call.send = in_.data() + place(i);
      call.recv = out_.data() + place(i);
      check(test.call(call));
    }
    const double us = static_cast<double>(now_ns() - begin) / 1e3 / calls;
    sum_ = sum_ + static_cast<unsigned>(std::count(out_.begin(), out_.begin() + static_cast<long>(used), 7));
    return us;
  }

  static const char* perf_name(Collective collective) {
    for (const PerfCollective& c : perf_collectives())
      if (c.collective == collective && c.traffic == Traffic::collective) return c.name;
    std::abort();  // kTuned has only what perf measures
  }

  const TuneGroup& group_;
  const int rank_;
  Board& board_;
  uint32_t starts_ = 0;
  std::map<std::string, hktComm_t> comms_;
  std::vector<unsigned char> in_, out_;
  volatile unsigned sum_ = 0;  // of what was read, so that it is
};

}  // namespace

std::vector<TuneGroup> tune_groups(bool quick) {
  constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
  if (quick)
    return {{2, false, {64, 8 * kKiB, 256 * kKiB, 4 * kMiB}},
            {8, false, {64, 64 * kKiB, kMiB}},
            {4, true, {64, 64 * kKiB}}};
  const std::vector<uint64_t> all = {64,        256,        1 * kKiB, 4 * kKiB, 16 * kKiB,
                                     64 * kKiB, 256 * kKiB, 1 * kMiB, 4 * kMiB, 16 * kMiB};
  return {{2, false, all},
          {4, false, all},
          {8, false, all},
          {2, true, {64, 1 * kKiB, 16 * kKiB, 256 * kKiB, 4 * kMiB}},
          {4, true, {64, 1 * kKiB, 16 * kKiB, 256 * kKiB, 4 * kMiB}}};
}

Result<std::vector<select::Timing>> time_group(const TuneGroup& group) {
  const std::vector<Job> jobs = jobs_of(group);
  if (group.np > kMostRanks || jobs.size() > Board{}.us.size())
    return error(hktInternalError, "a board for %d ranks and %zu plans is too small", group.np, jobs.size());
  void* const shared = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return sys_error("no memory for the results");
  Board& board = *new (shared) Board{};
  auto launched = launch_local(group.np, Bind::turns, [&](int rank) {
    try {
      TuneRank(group, rank, board).run();
      return 0;
    } catch (const Failed&) {
      return complain(1, hktGetLastError());
    }
  });
  std::vector<select::Timing> timings;
  const RingGeometry g = geometry_for(group.np, group.tcp ? Memory::apart : Memory::shared);
  select::Facts facts;
  facts.nranks = static_cast<uint32_t>(group.np);
  facts.hosts = group.tcp ? facts.nranks : 1;
  facts.cpus = usable_cpus({cpu_share()});
  facts.oversubscribed = facts.nranks > facts.cpus;
  facts.slot_bytes = g.slot_bytes;
  facts.depth = g.depth;
  for (size_t i = 0; i < jobs.size(); ++i) timings.push_back({jobs[i].planner, facts, jobs[i].bytes, board.us[i]});
  munmap(shared, sizeof(Board));
  if (!launched.ok()) return launched.error();
  if (*launched != 0) return error(hktSystemError, "a rank failed with status %d", *launched);
  return timings;
}

}  // namespace hocket::tool
