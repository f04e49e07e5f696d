// What ranks cost: resident memory beyond the program and its buffers, and CPU time while they wait.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "hocket/hocket.h"
#include "multiprocess/meeting_place.h"

namespace hocket::test {
namespace {

struct Usage {
  int64_t resident_kib = 0;  // anonymous, file and shared memory that this process has touched
  int64_t cpu_us = 0;
  int32_t failed = 0;
};

int64_t resident_kib() {
  long pages = 0, resident = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(f, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return resident * sysconf(_SC_PAGESIZE) / 1024;
}

int64_t cpu_us() {
  rusage r{};
  getrusage(RUSAGE_SELF, &r);
  return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1'000'000 + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
}

void nap_ms(int64_t ms) {
  const timespec t{ms / 1000, (ms % 1000) * 1'000'000};
  nanosleep(&t, nullptr);
}

// Runs body(comm, rank) in n processes of one job and returns what each used.
std::vector<Usage> run_job(int n, const char* transport, const std::function<Usage(hktComm_t, int)>& body) {
  const MeetingPlace place;
  EXPECT_TRUE(place.ok());
  std::vector<int> pipes;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < n; ++rank) {
    int p[2];
    EXPECT_EQ(pipe(p), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      hktConfig_t config = HKT_CONFIG_INITIALIZER;
      config.transport = transport;
      hktComm_t comm = nullptr;
      Usage u;
      u.failed = 1;
      const int64_t before = resident_kib();
      if (hktCommInitUrl(&comm, place.url(rank, n).c_str(), &config) == hktSuccess) {
        u = body(comm, rank);
        u.resident_kib -= before;
        (void)hktCommDestroy(comm);
      } else {
        std::fprintf(stderr, "rank %d: %s\n", rank, hktGetLastError());
      }
      _exit(write(p[1], &u, sizeof u) == sizeof u ? 0 : 1);
    }
    close(p[1]);
    pipes.push_back(p[0]);
    pids.push_back(pid);
  }
  std::vector<Usage> all(static_cast<size_t>(n));
  for (int rank = 0; rank < n; ++rank) {
    const auto r = static_cast<size_t>(rank);
    EXPECT_EQ(read(pipes[r], &all[r], sizeof(Usage)), static_cast<ssize_t>(sizeof(Usage)))
        << "rank " << rank << " died";
    EXPECT_EQ(all[r].failed, 0) << "rank " << rank;
    close(pipes[r]);
  }
  for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
  EXPECT_EQ(place.contents(), std::set<std::string>{});
  return all;
}

// All-reduces of every size up to 4 MiB, so that every plan has been used; what is left beyond the two buffers is
// Hocket's.
Usage all_sizes(hktComm_t comm, int) {
  constexpr size_t kMost = size_t{1} << 20;
  Usage u;
  std::vector<float> in(kMost, 1.0f), out(kMost);
  for (size_t count = 1; count <= kMost && u.failed == 0; count *= 4) {
    u.failed |= hktAllReduce(in.data(), out.data(), count, hktFloat32, hktSum, comm, nullptr) != hktSuccess;
    u.failed |= hktBroadcast(in.data(), out.data(), count, hktFloat32, 0, comm, nullptr) != hktSuccess;
  }
  u.failed |= hktBarrier(comm, nullptr) != hktSuccess;
  u.resident_kib = resident_kib() - static_cast<int64_t>(2 * kMost * sizeof(float) / 1024);
  return u;
}

TEST(Resources, TwoRanksStayBelow16MiB) {
  for (const Usage& u : run_job(2, "shm", all_sizes)) EXPECT_LE(u.resident_kib, 16 * 1024);
}

TEST(Resources, SixtyFourRanksStayBelow64MiBEach) {
  for (const Usage& u : run_job(64, "shm", all_sizes)) EXPECT_LE(u.resident_kib, 64 * 1024);
}

// Rank 0 comes two seconds late; the others must not burn the CPUs meanwhile. More ranks than CPUs.
class Idle : public testing::TestWithParam<const char*> {};

TEST_P(Idle, AWaitingRankUsesAtMostOnePercentOfACpu) {
  constexpr int64_t kLateMs = 2000;
  const int n = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) + 1;
  const auto used = run_job(n, GetParam(), [](hktComm_t comm, int rank) {
    Usage u;
    u.failed = hktBarrier(comm, nullptr) != hktSuccess;
    if (rank == 0) nap_ms(kLateMs);
    const int64_t before = cpu_us();
    u.failed |= hktBarrier(comm, nullptr) != hktSuccess;
    u.cpu_us = cpu_us() - before;
    return u;
  });
  for (int rank = 1; rank < n; ++rank)
    EXPECT_LE(used[static_cast<size_t>(rank)].cpu_us, kLateMs * 1000 / 100) << "rank " << rank << " of " << n;
}

INSTANTIATE_TEST_SUITE_P(All, Idle, testing::Values("shm", "tcp"), [](const auto& c) { return std::string(c.param); });

}  // namespace
}  // namespace hocket::test
