#include <sys/mman.h>

#include <algorithm>
#include <chrono>

#include "primitives.h"

namespace floors {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Launch {
  void* shared;
  int ranks;
  int cpus;
  const Bench::Body* body;
};

int run_body(int rank, void* context) {
  const Launch& l = *static_cast<Launch*>(context);
  Team team(rank, l.ranks, l.cpus, l.shared);
  Samples* samples = team.take<Samples>();
  return (*l.body)(team, samples) ? 0 : 1;
}

}  // namespace

bool Bench::run(const std::string& name, const std::string& unit, int ranks, const Body& body) {
  void* shared = mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("floors: mmap of the shared region");
    return false;
  }
  Launch launch{shared, ranks, rk_usable_cpus(&pins_), &body};
  bool good = rk_run(ranks, &pins_, run_body, &launch) == 0;
  const Samples& s = *static_cast<Samples*>(shared);
  std::vector<double> sorted(s.value, s.value + s.count);
  munmap(shared, kRegionBytes);
  if (!good || sorted.empty()) {
    std::fprintf(stderr, "floors: %s: not measured\n", name.c_str());
    return false;
  }
  std::sort(sorted.begin(), sorted.end());
  if (unit != "us") std::reverse(sorted.begin(), sorted.end());
  rows_.push_back({name, unit, sorted[sorted.size() / 10], sorted[sorted.size() / 2]});
  const Row& row = rows_.back();
  std::printf("%-58s %10.3f %10.3f  %s\n", row.name.c_str(), row.p10, row.p50, row.unit.c_str());
  std::fflush(stdout);
  return true;
}

bool Bench::sample(Team& team, Samples* samples, const std::function<bool(int)>& batch,
                   const std::function<double(double)>& value) const {
  struct Plan {
    std::atomic<int> operations;  // of the next batch; 0 ends
  };
  constexpr double kBatchSeconds = 0.3e-3;
  Plan* plan = team.take<Plan>();
  Meeting meeting(team);
  const double deadline = seconds() + milliseconds_ * 1e-3;
  int next = 1;
  bool sized = false;
  for (;;) {
    if (team.rank == 0) plan->operations.store(next, std::memory_order_relaxed);
    meeting.meet();
    const int operations = plan->operations.load(std::memory_order_relaxed);
    if (operations == 0) return true;
    meeting.meet();
    const double begun = seconds();
    if (!batch(operations)) return false;
    const double each = (seconds() - begun) / operations;
    if (team.rank != 0) continue;
    if (sized) samples->add(value(each));
    const double fit = std::min(1e6, std::max(1.0, kBatchSeconds / each));
    sized = sized || fit < 2 * operations;  // grows until a batch is long enough; then that size stays
    if (!sized) next = static_cast<int>(fit < 8 * operations ? fit : 8 * operations);
    if (seconds() > deadline && samples->count >= 5) next = 0;
  }
}

}  // namespace floors
