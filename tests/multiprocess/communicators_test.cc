// Communicators made from communicators through the C ABI, ranks as processes: their death, their order of leaving,
// what they cost, and what happens when one cannot be made.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "hocket/hocket.h"
#include "hocket/hocket.hpp"
#include "multiprocess/meeting_place.h"

namespace hocket::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Case {
  const char* name;
  const char* transport;
  int hosts;  // pretended ones, in blocks
};

// Runs body(rank, world) in n processes of one job, each of which fails if an expectation in it does. `victim` is
// expected to die by a signal.
void run_job(int n, const Case& where, const std::function<void(int, hktComm_t)>& body, int victim = -1) {
  const MeetingPlace place;
  ASSERT_TRUE(place.ok());
  std::vector<pid_t> pids;
  std::fflush(stdout);  // or each child would print it, too
  for (int rank = 0; rank < n; ++rank) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      setenv("HOCKET_HOST_ID", ("host" + std::to_string(rank * where.hosts / n)).c_str(), 1);
      hktConfig_t config = HKT_CONFIG_INITIALIZER;
      config.transport = where.transport;
      config.timeout_ms = 20'000;
      hktComm_t world = nullptr;
      EXPECT_EQ(hktCommInitUrl(&world, place.url(rank, n).c_str(), &config), hktSuccess) << hktGetLastError();
      if (world != nullptr) body(rank, world);
      std::fflush(stdout);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    pids.push_back(pid);
  }
  for (int rank = 0; rank < n; ++rank) {
    int status = 0;
    waitpid(pids[static_cast<size_t>(rank)], &status, 0);
    if (rank == victim)
      EXPECT_TRUE(WIFSIGNALED(status));
    else
      EXPECT_EQ(status, 0) << "rank " << rank;
  }
}

hktComm_t must_split(hktComm_t parent, int color, int key = 0) {
  hktComm_t comm = nullptr;
  EXPECT_EQ(hktCommSplit(parent, color, key, &comm, nullptr), hktSuccess) << hktGetLastError();
  return comm;
}

// The sum of all ranks' `mine`, -1 on failure.
int sum(hktComm_t comm, int mine = 1) {
  int32_t out = 0;
  const int32_t in = mine;
  return hktAllReduce(&in, &out, 1, hktInt32, hktSum, comm, nullptr) == hktSuccess ? out : -1;
}

class Processes : public testing::TestWithParam<Case> {};

TEST_P(Processes, SplitDupAndCreate) {
  run_job(4, GetParam(), [](int rank, hktComm_t world) {
    hktComm_t half = must_split(world, rank % 2, -rank), none = world, twin = nullptr, pair = nullptr;
    int place = -1, size = 0;
    EXPECT_EQ(hktCommRank(half, &place), hktSuccess);
    EXPECT_EQ(hktCommCount(half, &size), hktSuccess);
    EXPECT_EQ(place, rank < 2 ? 1 : 0);
    EXPECT_EQ(size, 2);
    EXPECT_EQ(sum(half, rank), rank % 2 == 0 ? 2 : 4);
    EXPECT_EQ(hktCommSplit(world, rank == 0 ? 5 : HKT_SPLIT_NOCOLOR, 0, &none, nullptr), hktSuccess);
    EXPECT_EQ(none != nullptr, rank == 0);
    if (none != nullptr) {
      EXPECT_EQ(sum(none, 3), 3);
      EXPECT_EQ(hktCommDestroy(none), hktSuccess);
    }
    EXPECT_EQ(hktCommDup(half, &twin, nullptr), hktSuccess) << hktGetLastError();
    EXPECT_EQ(hktCommDestroy(half), hktSuccess);
    EXPECT_EQ(sum(twin, rank), rank % 2 == 0 ? 2 : 4);
    if (rank == 1 || rank == 2) {
      const int ranks[] = {2, 1};
      EXPECT_EQ(hktCommCreate(world, ranks, 2, 9, &pair, nullptr), hktSuccess) << hktGetLastError();
      EXPECT_EQ(hktCommRank(pair, &place), hktSuccess);
      EXPECT_EQ(place, rank == 2 ? 0 : 1);
    }
    EXPECT_EQ(hktCommDestroy(world), hktSuccess) << "before all that were made from it";
    if (pair != nullptr) {
      EXPECT_EQ(sum(pair, rank), 3);
      EXPECT_EQ(hktCommDestroy(pair), hktSuccess);
    }
    EXPECT_EQ(sum(twin), 2);
    EXPECT_EQ(hktCommDestroy(twin), hktSuccess);
  });
}

TEST_P(Processes, AKilledRankIsNamedOnEveryCommunicatorThatContainsIt) {
  constexpr int kVictim = 2;
  run_job(
      4, GetParam(),
      [](int rank, hktComm_t world) {
        hktComm_t twin = nullptr;
        EXPECT_EQ(hktCommDup(world, &twin, nullptr), hktSuccess);
        hktComm_t without = must_split(world, rank == kVictim ? 1 : 0, 0);
        hktComm_t unused = must_split(world, 0, -rank);  // rank 2 is rank 1 there
        hktComm_t orphan = nullptr, parent = must_split(world, 0);
        EXPECT_EQ(hktCommDup(parent, &orphan, nullptr), hktSuccess);
        EXPECT_EQ(hktCommDestroy(parent), hktSuccess);
        EXPECT_EQ(sum(orphan), 4);
        EXPECT_EQ(sum(world), 4);
        EXPECT_EQ(sum(twin), 4);
        EXPECT_EQ(sum(without), rank == kVictim ? 1 : 3);
        if (rank == kVictim) raise(SIGKILL);
        const auto start = Clock::now();
        const auto expect_named = [&](hktComm_t comm, const char* name, int victim) {
          hktResult_t r = hktSuccess;
          for (int32_t x = 1; r == hktSuccess;) r = hktAllReduce(&x, &x, 1, hktInt32, hktMax, comm, nullptr);
          EXPECT_EQ(r, hktRemoteError) << name << ": " << hktGetLastError();
          EXPECT_NE(std::string(hktGetLastError()).find("rank " + std::to_string(victim)), std::string::npos)
              << name << ": " << hktGetLastError();
        };
        expect_named(twin, "dup", kVictim);
        expect_named(world, "world", kVictim);
        expect_named(orphan, "one whose parent is gone", kVictim);
        expect_named(unused, "a child that had not been used", 1);
        EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
        EXPECT_EQ(sum(without), 3) << "the others go on: " << hktGetLastError();
        for (hktComm_t c : {world, twin, unused, orphan, without}) EXPECT_EQ(hktCommDestroy(c), hktSuccess);
      },
      kVictim);
}

// After finalize nobody needs anybody: each leaves when it likes, and its process ends.
TEST_P(Processes, AfterFinalizeTheOrderOfLeavingIsFree) {
  for (int first = 0; first < 3; ++first) {
    run_job(3, GetParam(), [first](int rank, hktComm_t world) {
      hktComm_t child = must_split(world, 0, -rank);
      EXPECT_EQ(sum(child), 3);
      EXPECT_EQ(hktCommFinalize(child), hktSuccess) << hktGetLastError();
      EXPECT_EQ(hktCommFinalize(world), hktSuccess) << hktGetLastError();
      if (rank != first) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_EQ(sum(world), -1);
      EXPECT_NE(std::string(hktGetLastError()).find("finalized"), std::string::npos) << hktGetLastError();
      const auto start = Clock::now();
      EXPECT_EQ(hktCommDestroy(rank == first ? world : child), hktSuccess);
      EXPECT_EQ(hktCommDestroy(rank == first ? child : world), hktSuccess);
      EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(500));
    });
  }
}

// No call before it: its links are made while others are leaving.
TEST_P(Processes, FinalizeMayBeTheOnlyCall) {
  for (int i = 0; i < 10; ++i) {
    run_job(3, GetParam(), [](int rank, hktComm_t world) {
      std::this_thread::sleep_for(std::chrono::milliseconds(rank == 2 ? 5 : 0));
      EXPECT_EQ(hktCommFinalize(world), hktSuccess) << hktGetLastError();
      EXPECT_EQ(hktCommDestroy(world), hktSuccess);
    });
  }
}

TEST_P(Processes, AForkedChildCannotMakeOnes) {
  run_job(2, GetParam(), [](int, hktComm_t world) {
    hktComm_t twin = nullptr;
    EXPECT_EQ(hktCommDup(world, &twin, nullptr), hktSuccess);
    EXPECT_EQ(sum(twin), 2);
    const pid_t pid = fork();
    if (pid == 0) {
      hktComm_t made = nullptr;
      const bool refused = hktCommDup(world, &made, nullptr) == hktInvalidUsage && made == nullptr &&
                           hktCommFinalize(twin) == hktInvalidUsage;
      (void)hktCommDestroy(twin);
      (void)hktCommDestroy(world);
      _exit(refused ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(sum(twin), 2);
    EXPECT_EQ(sum(world), 2);
    EXPECT_EQ(hktCommFinalize(world), hktSuccess);
    EXPECT_EQ(hktCommFinalize(twin), hktSuccess);
    EXPECT_EQ(hktCommDestroy(world), hktSuccess);
    EXPECT_EQ(hktCommDestroy(twin), hktSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Processes,
                         testing::Values(Case{"Shm", "shm", 1}, Case{"Tcp", "tcp", 1}, Case{"Mixed", "auto", 2}),
                         [](const auto& c) { return std::string(c.param.name); });

constexpr Case kShm{"Shm", "shm", 1};
constexpr Case kTcp{"Tcp", "tcp", 1};

// --- What they cost.

double resident_kib() {
  long pages = 0, resident = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(f, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1024;
}

int64_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

// What the shared files that this process has open take in memory.
double shared_kib() {
  double kib = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    struct stat info {};
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find("memfd:hocket") != std::string::npos && stat(entry.path().c_str(), &info) == 0)
      kib += static_cast<double>(info.st_blocks) / 2;
  }
  return kib;
}

TEST(Cost, OfAHundredCommunicatorsOfTwoRanks) {
  constexpr int kCount = 100;
  run_job(2, kShm, [](int, hktComm_t world) {
    // What the first ones take for good (code, arenas of the allocator, the parent's links) is not theirs.
    hktComm_t first = must_split(world, 0);
    EXPECT_EQ(sum(first), 2);
    EXPECT_EQ(hktCommDestroy(first), hktSuccess);
    EXPECT_EQ(hktBarrier(world, nullptr), hktSuccess);
    std::vector<hktComm_t> all(kCount);
    const double resident = resident_kib(), shared = shared_kib();
    const int64_t open = descriptors();
    for (hktComm_t& c : all) c = must_split(world, 0);
    EXPECT_LE(resident_kib() - resident, 64.0 * kCount);
    EXPECT_LE(descriptors() - open, 2 * kCount);
    for (hktComm_t c : all) EXPECT_EQ(sum(c), 2);
    EXPECT_LE(resident_kib() - resident, 1024.0 * kCount);
    EXPECT_LE(shared_kib() - shared, 2 * 1024.0 * kCount) << "reserved, whoever has touched it";
    for (hktComm_t c : all) EXPECT_EQ(hktCommDestroy(c), hktSuccess);
    EXPECT_EQ(hktBarrier(world, nullptr), hktSuccess);
    EXPECT_LE(shared_kib() - shared, 64.0) << "given back";
    EXPECT_EQ(descriptors(), open);
  });
}

TEST(Cost, OfAHundredUnusedCommunicatorsOverTcp) {
  run_job(2, kTcp, [](int, hktComm_t world) {
    hktComm_t first = must_split(world, 0);
    EXPECT_EQ(sum(first), 2);
    std::vector<hktComm_t> all(100);
    const double resident = resident_kib();
    const int64_t open = descriptors();
    for (hktComm_t& c : all) c = must_split(world, 0);
    EXPECT_LE(resident_kib() - resident, 64.0 * 100);
    EXPECT_LE(descriptors() - open, 2 * 100);
  });
}

// --- When one cannot be made.

class Limit {
 public:
  Limit(__rlimit_resource what, rlim_t value) : what_(what) {
    getrlimit(what, &before_);
    const rlimit now{value, before_.rlim_max};
    setrlimit(what, &now);
  }
  ~Limit() { setrlimit(what_, &before_); }

 private:
  const __rlimit_resource what_;
  rlimit before_{};
};

// Rank 1 may not make files larger: all ranks of the child hear it, and the parent goes on.
TEST(Trouble, NoMemoryForAChildIsAnErrorOnAllItsRanks) {
  run_job(3, kShm, [](int rank, hktComm_t world) {
    EXPECT_EQ(sum(world), 3);
    hktComm_t first = must_split(world, 0, rank == 1 ? 0 : 1);  // the parent's links for it stand
    {
      const Limit limit(RLIMIT_FSIZE, rank == 1 ? 1 << 20 : RLIM_INFINITY);
      hktComm_t made = world;
      EXPECT_EQ(hktCommSplit(world, 0, rank == 1 ? 0 : 1, &made, nullptr), hktSystemError);
      EXPECT_EQ(made, nullptr);
      const std::string text = hktGetLastError();
      EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
      EXPECT_NE(text.find("ulimit -f"), std::string::npos) << text;
    }
    hktComm_t next = must_split(world, 0);
    EXPECT_EQ(sum(next), 3);
    EXPECT_EQ(sum(first), 3);
    EXPECT_EQ(sum(world), 3);
  });
}

// The same when the memory is missing at the first call: it is no hang for the others.
TEST(Trouble, NoMemoryForALinkIsAnErrorOnAllRanks) {
  run_job(2, kShm, [](int rank, hktComm_t world) {
    hktComm_t child = must_split(world, 0);
    const Limit limit(RLIMIT_FSIZE, rank == 1 ? 1 << 20 : RLIM_INFINITY);
    const auto start = Clock::now();
    EXPECT_EQ(sum(child), -1);
    EXPECT_NE(std::string(hktGetLastError()).find("ulimit -f"), std::string::npos) << hktGetLastError();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  });
}

TEST(Trouble, NoDescriptorForAChildIsAnErrorOnAllItsRanks) {
  run_job(2, kTcp, [](int rank, hktComm_t world) {
    EXPECT_EQ(sum(world), 2);
    hktComm_t first = must_split(world, 0);  // the links of the exchange stand
    {
      const Limit limit(RLIMIT_NOFILE, rank == 1 ? static_cast<rlim_t>(3) : rlim_t{1024});
      hktComm_t made = nullptr;
      EXPECT_EQ(hktCommDup(world, &made, nullptr), hktSystemError);
      const std::string text = hktGetLastError();
      EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
      EXPECT_NE(text.find("ulimit -n"), std::string::npos) << text;
    }
    hktComm_t next = must_split(world, 0);
    EXPECT_EQ(sum(next), 2);
    EXPECT_EQ(sum(first), 2);
  });
}

// --- Arguments, and the C++ interface.

TEST(Arguments, WhatIsWrongIsNamed) {
  run_job(1, kShm, [](int, hktComm_t world) {
    hktComm_t made = world;
    const auto text = [](hktResult_t r) {
      EXPECT_EQ(r, hktInvalidArgument);
      return std::string(hktGetLastError());
    };
    const int ranks[] = {0, 0};
    EXPECT_EQ(text(hktCommSplit(nullptr, 0, 0, &made, nullptr)), "hktCommSplit: parent is null");
    EXPECT_EQ(made, nullptr);
    EXPECT_EQ(text(hktCommSplit(world, 0, 0, nullptr, nullptr)), "hktCommSplit: comm is null");
    EXPECT_NE(text(hktCommSplit(world, -7, 0, &made, nullptr)).find("color is -7"), std::string::npos);
    EXPECT_EQ(text(hktCommDup(world, nullptr, nullptr)), "hktCommDup: comm is null");
    EXPECT_EQ(text(hktCommCreate(world, nullptr, 1, 0, &made, nullptr)), "hktCommCreate: ranks is null");
    EXPECT_EQ(text(hktCommCreate(world, ranks, 0, 0, &made, nullptr)), "hktCommCreate: nranks is 0, must be in [1, 1]");
    EXPECT_EQ(text(hktCommCreate(world, ranks, 2, 0, &made, nullptr)), "hktCommCreate: nranks is 2, must be in [1, 1]");
    EXPECT_NE(text(hktCommFinalize(nullptr)).find("hktCommFinalize: comm is null"), std::string::npos);
    EXPECT_EQ(hktCommCreate(world, ranks, 1, 0, &made, nullptr), hktSuccess);
    EXPECT_EQ(sum(made, 4), 4);
    EXPECT_EQ(hktCommDestroy(made), hktSuccess);
    EXPECT_EQ(text(hktCommDup(made, &made, nullptr)), "hktCommDup: parent has been destroyed");
  });
}

TEST(Wrapper, MakesThemToo) {
  const MeetingPlace place;
  ASSERT_TRUE(place.ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      auto world = Communicator::from_url(place.url(rank, 3));
      auto child = world.split(rank == 2 ? HKT_SPLIT_NOCOLOR : 0, -rank);
      ASSERT_EQ(child.has_value(), rank != 2);
      if (child) {
        EXPECT_EQ(child->size(), 2);
        EXPECT_EQ(child->rank(), 1 - rank);
        child->barrier();
      }
      Communicator twin = world.dup();
      const int list[] = {2, 0};
      if (rank != 1) {
        EXPECT_EQ(twin.create(list, 1).rank(), rank == 2 ? 0 : 1);
      }
      twin.finalize();
      EXPECT_THROW(twin.barrier(), Failure);
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace hocket::test
