// kill -9 of any rank at a random moment of a running all-reduce: every other rank returns an error that names it
// within five seconds, and nothing is left behind. HOCKET_TEST_FULL=1 makes 200 kills of the 20.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "hocket/hocket.h"

namespace hocket::test {
namespace {

// What a surviving rank reports through its pipe.
struct Outcome {
  int32_t code = -1;
  int64_t returned_ns = 0;
  char text[240] = "";
};

std::vector<std::string> listing(const char* path) {
  std::vector<std::string> names;
  if (DIR* d = opendir(path)) {
    while (const dirent* e = readdir(d)) names.emplace_back(e->d_name);
    closedir(d);
  }
  return names;
}

[[noreturn]] void rank_main(const std::string& url, const char* transport, size_t count, int out) {
  Outcome o;
  hktConfig_t config = HKT_CONFIG_INITIALIZER;
  config.transport = transport;
  hktComm_t comm = nullptr;
  hktResult_t r = hktCommInitUrl(&comm, url.c_str(), &config);
  std::vector<float> data(count, 1.0f);
  if (r == hktSuccess) {
    const char ready = 1;
    if (write(out, &ready, 1) != 1) _exit(3);
    while (r == hktSuccess) r = hktAllReduce(data.data(), data.data(), count, hktFloat32, hktMax, comm, nullptr);
  }
  o.returned_ns = now_ns();
  o.code = r;
  std::strncpy(o.text, hktGetLastError(), sizeof o.text - 1);
  if (write(out, &o, sizeof o) != sizeof o) _exit(3);
  if (comm != nullptr) (void)hktCommDestroy(comm);
  _exit(0);
}

void kill_one(const char* transport, uint32_t seed) {
  std::mt19937 random(seed);
  const int n = 2 + static_cast<int>(random() % 3);
  const int victim = static_cast<int>(random() % static_cast<uint32_t>(n));
  const size_t counts[] = {1, 1000, 300'000};
  const size_t count = counts[random() % 3];
  const auto shm_before = listing("/dev/shm");

  char dir[] = "/tmp/hocket-kill.XXXXXX";
  ASSERT_NE(mkdtemp(dir), nullptr);
  std::vector<pid_t> pids;
  std::vector<int> pipes;
  for (int rank = 0; rank < n; ++rank) {
    int p[2];
    ASSERT_EQ(pipe(p), 0);
    const std::string url =
        "file://" + std::string(dir) + "/meet?rank=" + std::to_string(rank) + "&world_size=" + std::to_string(n);
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) rank_main(url, transport, count, p[1]);
    close(p[1]);
    pids.push_back(pid);
    pipes.push_back(p[0]);
  }
  for (int rank = 0; rank < n; ++rank) {
    char ready = 0;
    ASSERT_EQ(read(pipes[static_cast<size_t>(rank)], &ready, 1), 1) << "rank " << rank << " did not come up";
    ASSERT_EQ(ready, 1) << "rank " << rank << " did not come up";
  }
  usleep(static_cast<useconds_t>(random() % 100'000));
  const int64_t killed = now_ns();
  kill(pids[static_cast<size_t>(victim)], SIGKILL);
  for (int rank = 0; rank < n; ++rank) {
    if (rank == victim) continue;
    Outcome o;
    const ssize_t got = read(pipes[static_cast<size_t>(rank)], &o, sizeof o);
    ASSERT_EQ(got, static_cast<ssize_t>(sizeof o)) << "seed " << seed << ": rank " << rank << " died, too";
    EXPECT_EQ(o.code, hktRemoteError) << "seed " << seed << " rank " << rank << ": " << o.text;
    EXPECT_NE(std::string(o.text).find("rank " + std::to_string(victim)), std::string::npos)
        << "seed " << seed << " rank " << rank << " victim " << victim << ": " << o.text;
    EXPECT_LT(o.returned_ns - killed, 5'000'000'000) << "seed " << seed << " rank " << rank;
  }
  for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
  for (const int fd : pipes) close(fd);
  unlink((std::string(dir) + "/meet").c_str());
  EXPECT_EQ(rmdir(dir), 0) << "something is left in " << dir;
  EXPECT_EQ(listing("/dev/shm"), shm_before);
}

class Kill : public testing::TestWithParam<const char*> {};

TEST_P(Kill, TheOthersNameTheDeadRank) {
  const int rounds = std::getenv("HOCKET_TEST_FULL") != nullptr ? 100 : 10;
  for (int i = 0; i < rounds; ++i) {
    kill_one(GetParam(), static_cast<uint32_t>(1000 + i));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Kill, testing::Values("shm", "tcp"), [](const auto& c) { return std::string(c.param); });

}  // namespace
}  // namespace hocket::test
