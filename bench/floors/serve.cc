#include "serve.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "arena.h"
#include "scheme.h"
#include "tcp.h"

namespace floors {
namespace {

// Milliseconds a scheme gets when all are tried, and when the fastest few are.
constexpr double kFirstHeat = 3;
constexpr double kLastHeat = 6;
constexpr size_t kFinalists = 4;
constexpr size_t kControlBytes = (sizeof(hb_control) + 4095) / 4096 * 4096;  // the region follows, aligned

struct Job {
  const ServeOptions* options;
  void* shared;
  void* arena;  // null: buffers are private
  TcpPairs tcp;
  TcpMesh mesh;
};

// One rank's schemes and, for each kind of call, the fastest few. All ranks choose alike: they see the same samples.
class Chooser {
 public:
  Chooser(hb_rank* self, Team& team, const Job& job) : self_(self), meeting_(team), arena_(job.arena, team.rank) {
    reaches_all_ = job.arena != nullptr;
    if (job.options->tcp) {
      if (team.ranks == 2)
        add_tcp_schemes(team.rank, job.tcp, all_[HB_ALL_REDUCE]);
      else
        add_tcp_mesh_schemes(team.rank, team.ranks, job.mesh, all_[HB_ALL_REDUCE]);
      return;
    }
    add_message_schemes(team, all_[HB_ALL_REDUCE]);
    add_two_rank_slot_schemes(team, all_[HB_ALL_REDUCE]);
    add_two_rank_cma_schemes(team, all_[HB_ALL_REDUCE]);
    add_many_rank_schemes(team, all_[HB_ALL_REDUCE], meeting_);
    if (reaches_all_) add_registered_schemes(team, all_[HB_ALL_REDUCE], meeting_, arena_);
    add_broadcast_schemes(team, all_[HB_BROADCAST]);
    add_barrier_schemes(team, all_[HB_BARRIER], meeting_);
  }

  hb_ops ops() {
    hb_ops ops = {this, all_reduce, broadcast, barrier, prepare, describe, nullptr, nullptr, nullptr};
    if (reaches_all_) {
      ops.allocate = allocate;
      ops.release = release;
    }
    return ops;
  }

 private:
  static Chooser& of(void* context) { return *static_cast<Chooser*>(context); }
  static int all_reduce(void* context, const float* in, float* out, size_t count) {
    return of(context).current_->run(in, out, count) ? 0 : 1;
  }
  static int broadcast(void* context, float* data, size_t count) {
    return of(context).current_->run(data, data, count) ? 0 : 1;
  }
  static int barrier(void* context) { return of(context).current_->run(nullptr, nullptr, 0) ? 0 : 1; }
  static void* allocate(void* context, size_t bytes) { return of(context).arena_.allocate(bytes); }
  static void release(void* context, void* memory) { of(context).arena_.release(memory); }
  static int prepare(void* context, const hb_command* c) { return of(context).choose(*c) ? 0 : 1; }
  static const char* describe(void* context) { return of(context).current_->name().c_str(); }

  struct Entry {
    double us;
    Scheme* scheme;
    bool operator<(const Entry& other) const { return us < other.us; }
  };

  // The first call of a kind tries every scheme that fits and keeps the fastest few. Each call then runs those few once
  // more, for the order among them changes with what the machine is doing, and takes the best.
  bool choose(const hb_command& c) {
    std::vector<Entry>& finalists = finalists_[{c.collective, c.hot, c.bytes}];
    if (finalists.empty()) {
      for (const auto& scheme : all_[c.collective]) {
        if (scheme->fits(c.bytes)) finalists.push_back({0, scheme.get()});
      }
      if (finalists.empty()) {
        if (self_->rank == 0) {
          std::fprintf(stderr, "floors: no floor for %s of %zu bytes here\n", hb_names[c.collective],
                       static_cast<size_t>(c.bytes));
        }
        return false;
      }
      if (!run_heat(c, kFirstHeat, &finalists)) return false;
      finalists.resize(std::min(finalists.size(), kFinalists));
    }
    if (finalists.size() > 1 && !run_heat(c, kLastHeat, &finalists)) return false;
    current_ = finalists.front().scheme;
    return true;
  }

  bool run_heat(hb_command c, double milliseconds, std::vector<Entry>* entries) {
    c.milliseconds = milliseconds;
    c.min_samples = 2;
    const hb_ops run = ops();
    for (Entry& e : *entries) {
      hb_result result;
      current_ = e.scheme;
      if (hb_measure(self_, &run, &c, &result) != 0) return false;
      e.us = result.p50;
    }
    std::stable_sort(entries->begin(), entries->end());
    return true;
  }

  struct Key {
    hb_collective collective;
    int hot;
    uint64_t bytes;
    bool operator<(const Key& o) const {
      return std::tie(collective, hot, bytes) < std::tie(o.collective, o.hot, o.bytes);
    }
  };

  hb_rank* self_;
  Meeting meeting_;
  Arena arena_;
  bool reaches_all_ = false;
  Schemes all_[HB_BARRIER + 1];
  std::map<Key, std::vector<Entry>> finalists_;
  Scheme* current_ = nullptr;
};

int run_rank(int rank, void* context) {
  const Job& job = *static_cast<Job*>(context);
  const ServeOptions& o = *job.options;
  const int cpus = rk_usable_cpus(&o.pins);
  auto* control = static_cast<hb_control*>(job.shared);
  hb_rank self = hb_attach(control, rank, o.ranks, cpus);
  Team team(rank, o.ranks, cpus, static_cast<char*>(job.shared) + kControlBytes);
  Chooser chooser(&self, team, job);
  const hb_ops ops = chooser.ops();
  return hb_serve(&self, &ops, "floors");
}

}  // namespace

int serve(const ServeOptions& options) {
  Job job = {};
  job.options = &options;
  if (options.tcp && options.ranks == 1) {
    std::fprintf(stderr, "floors: --transport tcp: one rank has nobody to talk to\n");
    return 2;
  }
  if (options.tcp && !(options.ranks == 2 ? tcp_connect_all(options.hosts, &job.tcp)
                                          : tcp_connect_mesh(options.hosts, options.ranks, &job.mesh)))
    return 1;
  job.shared = mmap(nullptr, kControlBytes + kRegionBytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (job.shared == MAP_FAILED) {
    std::perror("floors: mmap of the shared region");
    return 1;
  }
  if (options.registered) job.arena = Arena::reserve(options.ranks);
  if (options.registered && job.arena == nullptr) {
    std::perror("floors: mmap of the buffers");
    return 1;
  }
  return rk_run(options.ranks, &options.pins, run_rank, &job);
}

}  // namespace floors
