// Many ranks with few descriptors: no process of a job needs as many as there are ranks, but for the one that they meet
// at.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "hocket/hocket.h"
#include "sanitizers.h"
#include "unit/bootstrap_jobs.h"

namespace hocket::test {
namespace {

// One rank: 0 if it came up, met all others, and ended well.
int run_rank(const std::string& place, int rank, int nranks, const char* transport) {
  rlimit few{1024, 1024};
  if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 3;
  const std::string url = place + "?rank=" + std::to_string(rank) + "&world_size=" + std::to_string(nranks);
  hktConfig_t config = HKT_CONFIG_INITIALIZER;
  config.transport = transport;
  hktComm_t comm = nullptr;
  int64_t one = 1, sum = 0;
  const bool good = hktCommInitUrl(&comm, url.c_str(), &config) == hktSuccess &&
                    hktAllReduce(&one, &sum, 1, hktInt64, hktSum, comm, nullptr) == hktSuccess &&
                    hktCommFinalize(comm) == hktSuccess && hktCommDestroy(comm) == hktSuccess;
  if (!good) std::fprintf(stderr, "rank %d: %s\n", rank, hktGetLastError());
  return good && sum == nranks ? 0 : 1;
}

void run_job(int nranks, const char* transport) {
  const std::string place = "tcp://127.0.0.1:" + std::to_string(bringup::free_port());
  std::vector<pid_t> pids;
  for (int rank = 0; rank < nranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) _exit(run_rank(place, rank, nranks, transport));
    ASSERT_GT(pid, 0);
    pids.push_back(pid);
  }
  for (const pid_t pid : pids) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
}

// A process with a sanitizer needs as much memory as a dozen without.
constexpr int kMany = HOCKET_TEST_ASAN || HOCKET_TEST_TSAN ? 64 : 256;

TEST(ManyRanks, ComeUpOverTcpWith1024Descriptors) { run_job(kMany, "tcp"); }
TEST(ManyRanks, ComeUpInSharedMemoryWith1024Descriptors) { run_job(64, "shm"); }

}  // namespace
}  // namespace hocket::test
