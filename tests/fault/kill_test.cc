// kill -9 of any rank at a random moment of a running collective, any of them: every other rank returns an error that
// names it within five seconds, and nothing is left behind. HOCKET_TEST_FULL=1 makes 400 kills of the 44.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "hocket/hocket.h"
#include "multiprocess/meeting_place.h"

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

// Runs the `which`-th collective of `count` elements for each rank.
class Caller {
 public:
  Caller(uint32_t which, size_t count, int nranks)
      : which_(which), count_(count), in_(count * static_cast<size_t>(nranks), 1.0f), out_(in_) {
    for (int r = 0; r < nranks; ++r) counts_.push_back(r == 0 ? 0 : count);
  }
  static constexpr uint32_t kCollectives = 12;

  hktResult_t call(hktComm_t comm) {
    const int n = static_cast<int>(counts_.size()), root = calls_++ % n;
    const float* in = in_.data();
    float* out = out_.data();
    switch (which_) {
      case 0:
        return hktAllReduce(in, out, count_, hktFloat32, hktMax, comm, nullptr);
      case 1:
        return hktBroadcast(out, out, count_, hktFloat32, root, comm, nullptr);
      case 2:
        return hktBarrier(comm, nullptr);
      case 3:
        return hktReduce(in, out, count_, hktFloat32, hktSum, root, comm, nullptr);
      case 4:
        return hktAllGather(in, out, count_, hktFloat32, comm, nullptr);
      case 5:
        return hktReduceScatter(in, out, count_, hktFloat32, hktSum, comm, nullptr);
      case 6:
        return hktAllToAll(in, out, count_, hktFloat32, comm, nullptr);
      case 7:
        return hktGather(in, out, count_, hktFloat32, root, comm, nullptr);
      case 8:
        return hktScatter(in, out, count_, hktFloat32, root, comm, nullptr);
      case 9:
        return hktAllGatherV(in, out, counts_.data(), nullptr, hktFloat32, comm, nullptr);
      case 10:
        return list(comm);
      default:
        return hktReduceScatterV(in, out, counts_.data(), nullptr, hktFloat32, hktSum, comm, nullptr);
    }
  }

 private:
  // Seven pieces: of the largest count, large ones and packed ones.
  hktResult_t list(hktComm_t comm) {
    std::vector<const void*> in;
    std::vector<void*> out;
    std::vector<size_t> counts;
    for (size_t at = 0, b = 1; at < count_; at += counts.back(), ++b) {
      counts.push_back(b == 7 ? count_ - at : std::min(count_ - at, b * count_ / 28));
      in.push_back(&in_[at]);
      out.push_back(&out_[at]);
    }
    return hktAllReduceList(in.data(), out.data(), counts.data(), counts.size(), hktFloat32, hktMax, comm, nullptr);
  }
  const uint32_t which_;
  const size_t count_;
  int calls_ = 0;
  std::vector<float> in_, out_;
  std::vector<size_t> counts_;
};

[[noreturn]] void rank_main(const std::string& url, const char* transport, Caller caller, int out) {
  Outcome o;
  hktConfig_t config = HKT_CONFIG_INITIALIZER;
  config.transport = transport;
  hktComm_t comm = nullptr;
  hktResult_t r = hktCommInitUrl(&comm, url.c_str(), &config);
  if (r == hktSuccess) {
    const char ready = 1;
    if (write(out, &ready, 1) != 1) _exit(3);
    while (r == hktSuccess) r = caller.call(comm);
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
  const auto which = static_cast<uint32_t>(random() % Caller::kCollectives);
  const auto shm_before = listing("/dev/shm");

  const MeetingPlace place;
  ASSERT_TRUE(place.ok());
  std::vector<pid_t> pids;
  std::vector<int> pipes;
  for (int rank = 0; rank < n; ++rank) {
    int p[2];
    ASSERT_EQ(pipe(p), 0);
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) rank_main(place.url(rank, n), transport, Caller(which, count, n), p[1]);
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
    ASSERT_EQ(got, static_cast<ssize_t>(sizeof o))
        << "seed " << seed << " collective " << which << ": rank " << rank << " died, too";
    EXPECT_EQ(o.code, hktRemoteError) << "seed " << seed << " collective " << which << " rank " << rank << ": "
                                      << o.text;
    EXPECT_NE(std::string(o.text).find("rank " + std::to_string(victim)), std::string::npos)
        << "seed " << seed << " collective " << which << " rank " << rank << " victim " << victim << ": " << o.text;
    EXPECT_LT(o.returned_ns - killed, 5'000'000'000) << "seed " << seed << " collective " << which << " rank " << rank;
  }
  for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
  for (const int fd : pipes) close(fd);
  std::set<std::string> left = place.contents();
  left.erase("meet");  // of the victim's job
  EXPECT_EQ(left, std::set<std::string>{});
  EXPECT_EQ(listing("/dev/shm"), shm_before);
}

class Kill : public testing::TestWithParam<const char*> {};

TEST_P(Kill, TheOthersNameTheDeadRank) {
  const int rounds = std::getenv("HOCKET_TEST_FULL") != nullptr ? 200 : 22;
  for (int i = 0; i < rounds; ++i) {
    kill_one(GetParam(), static_cast<uint32_t>(1000 + i));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Kill, testing::Values("shm", "tcp"), [](const auto& c) { return std::string(c.param); });

}  // namespace
}  // namespace hocket::test
