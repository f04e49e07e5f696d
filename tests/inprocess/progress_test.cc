// HOCKET_PROGRESS=thread: what is outstanding goes on while its owners are in no call, faults and deadlines are found,
// and the thread costs nothing when there is nothing to do. That requests work at all with it is tested by
// requests_test and others, which run in this way as well.
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "comm/fused.h"
#include "inprocess/calls.h"
#include "multiprocess/meeting_place.h"
#include "sanitizers.h"

namespace hocket::test {
namespace {

class Progress : public Places {
 protected:
  WorldSpec helped(int n) const {
    WorldSpec spec = world(n);
    spec.progress = "thread";
    return spec;
  }
};

constexpr int64_t kSecond = 1'000'000'000;

void sleep_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

template <class Condition>
bool comes_true(Condition&& condition, int64_t seconds = 15) {
  const int64_t until = now_ns() + seconds * kSecond;
  while (!condition()) {
    if (now_ns() > until) return false;
    sleep_ms(1);
  }
  return true;
}

int64_t cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

int threads() {
  int n = 0;
  if (DIR* d = opendir("/proc/self/task"); d != nullptr) {
    while (const dirent* e = readdir(d)) n += e->d_name[0] != '.' ? 1 : 0;
    closedir(d);
  }
  return n;
}

// Rank 0 issues and does not call again until the others are done, which need it: to fold, and to pass on.
TEST_P(Progress, OthersFinishWhileOneComputes) {
  const uint64_t count = GetParam().small ? 30'000 : 1'000'000;
  std::atomic<int> finished{0};
  run_world(helped(3), [&](Communicator& comm, int rank) {
    auto twin = duplicate(comm, {});
    ASSERT_TRUE(twin.ok());
    std::vector<int32_t> sum(count, rank), a(100, rank), b(count / 8, rank);
    std::vector<unsigned char> sent = message(rank, 1, count), got(count);
    void* const list[] = {a.data(), b.data()};
    const size_t counts[] = {a.size(), b.size()};
    hktRequest_t r[5] = {};
    good(comm.all_reduce(sum.data(), sum.data(), count, hktInt32, hktSum, into(r[0])));
    good(comm.transfer(send_to((rank + 1) % 3, 1, sent), into(r[1])));
    good(comm.transfer(recv_from((rank + 2) % 3, 1, got), into(r[2])));
    good(all_reduce_list(**twin, {list, list, counts, 2, hktInt32}, hktSum, into(r[3])));
    good((*twin)->barrier(into(r[4])));
    if (rank == 0) {
      EXPECT_TRUE(comes_true([&] { return finished == 2; }));
    }
    for (const int i : {4, 1, 0, 3, 2}) good(wait(r[i]));
    ++finished;
    EXPECT_EQ(sum, std::vector<int32_t>(count, 3));
    EXPECT_EQ(a, std::vector<int32_t>(a.size(), 3));
    EXPECT_EQ(b, std::vector<int32_t>(b.size(), 3));
    expect_message(got, (rank + 2) % 3, 1);
    good(comm.barrier());
  });
}

TEST_P(Progress, FindsADeadlineOnItsOwn) {
  run_world(helped(2), [](Communicator& comm, int rank) {
    good(comm.barrier());
    int32_t x = 0;
    hktRequest_t r = nullptr;
    CallOptions o = into(r);
    o.timeout_ms = 100;
    if (rank == 0) good(comm.all_reduce(&x, &x, 1, hktInt32, hktSum, o));
    // Nobody waits for anything, and both hear of it.
    EXPECT_TRUE(comes_true([&] { return comm.async_error() == hktTimeout; }, 5)) << "rank " << rank;
    if (r == nullptr) return;
    const Status s = wait(r);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktTimeout) << s.error().text;
  });
}

TEST_P(Progress, SleepsWhenThereIsNothingToDo) {
  std::atomic<int> ready{0};
  run_world(helped(2), [&](Communicator& comm, int rank) {
    for (int i = 0; i < 10; ++i) {
      int32_t x = 1;
      hktRequest_t r = nullptr;
      good(comm.all_reduce(&x, &x, 1, hktInt32, hktSum, into(r)));
      good(wait(r));
    }
    good(comm.barrier());
    ++ready;
    if (rank == 1) {
      while (ready != 3) sleep_ms(50);
      return;
    }
    while (ready != 2) sleep_ms(1);
    sleep_ms(50);
    const int64_t before = cpu_ns();
    sleep_ms(500);
    EXPECT_LT(cpu_ns() - before, 5'000'000) << "of 500 ms";
    ++ready;
  });
}

// Communicators come and go under its eyes, finalized or not, with requests that nobody waits for.
TEST_P(Progress, CommunicatorsThatGo) {
  run_world(helped(2), [](Communicator& comm, int) {
    for (int i = 0; i < 20; ++i) {
      auto child = duplicate(comm, {});
      ASSERT_TRUE(child.ok()) << child.error().text;
      std::vector<int32_t> x(10'000, 1);
      hktRequest_t r = nullptr;
      good((*child)->all_reduce(x.data(), x.data(), x.size(), hktInt32, hktSum, into(r)));
      if (i % 2 == 0) {
        good(finalize(**child));
        EXPECT_EQ(x.back(), 2);
      }
      child->reset();
      (void)wait(r);
      good(comm.barrier());
    }
  });
}

// One process of a job of two. With a request outstanding it forks a child, and ends by exit() with the communicator
// alive and in use.
[[noreturn]] void fork_and_exit(const MeetingPlace& place, int rank) {
  hktConfig_t config = HKT_CONFIG_INITIALIZER;
  config.timeout_ms = 20'000;
  static hktComm_t comm = nullptr;
  static std::vector<float> x(4'000'000, 1), y(x.size());
  int wrong = hktCommInitUrl(&comm, place.url(rank, 2).c_str(), &config) == hktSuccess ? 0 : 1;
  wrong += threads() == 2 ? 0 : 2;
  for (int i = 0; i < 30 && wrong == 0; ++i) {
    hktRequest_t r = nullptr;
    hktCallOptions_t o = HKT_CALL_OPTIONS_INITIALIZER;
    o.request = &r;
    wrong += hktAllReduce(x.data(), y.data(), x.size(), hktFloat32, hktSum, comm, &o) == hktSuccess ? 0 : 4;
    usleep(static_cast<useconds_t>(i) * 50);  // into the middle of it
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a gate that was in use when it was forked stays in use
      int bad = threads() == 1 ? 0 : 1;
      bad += hktBarrier(comm, nullptr) == hktInvalidUsage ? 0 : 2;
      bad += hktCommDestroy(comm) == hktSuccess ? 0 : 4;
      // It may have communicators and a thread of its own.
      hktUniqueId id;
      hktComm_t own = nullptr;
      bad += hktGetUniqueId(&id) == hktSuccess && hktCommInitRank(&own, 1, id, 0, nullptr) == hktSuccess ? 0 : 8;
      bad += threads() >= 2 ? 0 : 16;
      exit(bad);
    }
    int status = 0;
    waitpid(child, &status, 0);
    wrong += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 8;
    wrong += hktRequestWait(&r) == hktSuccess && y.back() == 2 ? 0 : 16;
    if (wrong != 0) std::fprintf(stderr, "rank %d: %d, child %x: %s\n", rank, wrong, status, hktGetLastError());
  }
  hktRequest_t last = nullptr;
  hktCallOptions_t o = HKT_CALL_OPTIONS_INITIALIZER;
  o.request = &last;
  wrong += hktAllReduce(x.data(), y.data(), x.size(), hktFloat32, hktSum, comm, &o) == hktSuccess ? 0 : 32;
  exit(wrong);
}

TEST(ProgressOfProcesses, ForksAndEndsInGoodOrder) {
  if (HOCKET_TEST_TSAN) GTEST_SKIP() << "ThreadSanitizer has a thread of its own and lets forked children start none";
  const MeetingPlace place;
  ASSERT_TRUE(place.ok());
  setenv("HOCKET_PROGRESS", "thread", 1);
  std::fflush(stdout);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 2; ++rank) {
    pids.push_back(fork());
    if (pids.back() == 0) fork_and_exit(place, rank);
  }
  unsetenv("HOCKET_PROGRESS");
  for (const pid_t pid : pids) {
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST(ProgressOfProcesses, AWrongValueIsRefused) {
  setenv("HOCKET_PROGRESS", "always", 1);
  hktUniqueId id;
  hktComm_t comm = nullptr;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess);
  EXPECT_EQ(hktCommInitRank(&comm, 1, id, 0, nullptr), hktInvalidUsage);
  EXPECT_NE(std::string(hktGetLastError()).find("HOCKET_PROGRESS"), std::string::npos) << hktGetLastError();
  unsetenv("HOCKET_PROGRESS");
}

INSTANTIATE_TEST_SUITE_P(All, Progress, testing::ValuesIn(kPlaces), place_name);

}  // namespace
}  // namespace hocket::test
