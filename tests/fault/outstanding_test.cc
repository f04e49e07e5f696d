// kill -9 of a rank while the others have requests outstanding: each of them ends with an error that names it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "hocket/hocket.h"

namespace hocket::test {
namespace {

using Clock = std::chrono::steady_clock;

// Rank 1 dies in the middle; what the others have issued needs it, directly or through others.
void survivor(hktComm_t comm, int rank) {
  std::vector<float> sum(300'000, 1), in(300'000), out(300'000), small(30'000), other(30'000);
  hktRequest_t r[5] = {};
  const auto into = [&](int i) {
    hktCallOptions_t o = HKT_CALL_OPTIONS_INITIALIZER;
    o.request = &r[i];
    return o;
  };
  const hktCallOptions_t o[5] = {into(0), into(1), into(2), into(3), into(4)};
  void* const list[] = {small.data(), in.data(), other.data()};
  const size_t counts[] = {small.size(), 0, other.size()};
  EXPECT_EQ(hktRecv(in.data(), in.size(), hktFloat32, 1, 4, comm, &o[0]), hktSuccess);
  EXPECT_EQ(hktSend(out.data(), out.size(), hktFloat32, 1, 4, comm, &o[1]), hktSuccess);
  EXPECT_EQ(hktAllReduce(sum.data(), sum.data(), sum.size(), hktFloat32, hktSum, comm, &o[2]), hktSuccess);
  EXPECT_EQ(hktAllReduceList(list, list, counts, 3, hktFloat32, hktSum, comm, &o[4]), hktSuccess);
  EXPECT_EQ(hktBarrier(comm, &o[3]), hktSuccess);
  const auto start = Clock::now();
  for (const int i : {3, 0, 1, 2, 4}) {
    const hktResult_t result = hktRequestWait(&r[i]);
    EXPECT_EQ(result, hktRemoteError) << "rank " << rank << " request " << i << ": " << hktGetLastError();
    EXPECT_NE(std::string(hktGetLastError()).find("rank 1"), std::string::npos) << hktGetLastError();
    EXPECT_EQ(r[i], nullptr);
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

class Outstanding : public testing::TestWithParam<const char*> {};

TEST_P(Outstanding, RequestsEndWhenARankIsKilled) {
  for (int round = 0; round < 5; ++round) {
    char dir[] = "/tmp/hocket-outstanding.XXXXXX";
    ASSERT_NE(mkdtemp(dir), nullptr);
    std::vector<pid_t> pids;
    std::fflush(stdout);
    for (int rank = 0; rank < 3; ++rank) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        const std::string url = "file://" + std::string(dir) + "/meet?rank=" + std::to_string(rank) + "&world_size=3";
        hktConfig_t config = HKT_CONFIG_INITIALIZER;
        config.transport = GetParam();
        config.timeout_ms = 20'000;
        hktComm_t comm = nullptr;
        EXPECT_EQ(hktCommInitUrl(&comm, url.c_str(), &config), hktSuccess) << hktGetLastError();
        EXPECT_EQ(hktBarrier(comm, nullptr), hktSuccess);
        if (rank == 1) {
          usleep(static_cast<useconds_t>(round) * 5000);
          kill(getpid(), SIGKILL);
        }
        survivor(comm, rank);
        (void)hktCommDestroy(comm);
        std::fflush(stdout);
        _exit(testing::Test::HasFailure() ? 1 : 0);
      }
      pids.push_back(pid);
    }
    for (size_t rank = 0; rank < 3; ++rank) {
      int status = 0;
      waitpid(pids[rank], &status, 0);
      EXPECT_TRUE(rank == 1 ? WIFSIGNALED(status) : status == 0) << "rank " << rank << " round " << round;
    }
    unlink((std::string(dir) + "/meet").c_str());
    rmdir(dir);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Outstanding, testing::Values("shm", "tcp"),
                         [](const auto& c) { return std::string(c.param); });

}  // namespace
}  // namespace hocket::test
