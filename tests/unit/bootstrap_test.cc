// Bring-up over each kind of store: all ranks meet, or all that can be reached are told why not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "unit/bootstrap_jobs.h"

namespace hocket::bringup {
namespace {

using namespace std::chrono_literals;

class EveryStore : public testing::TestWithParam<Kind> {};

TEST_P(EveryStore, AllRanksMeetAndExchange) {
  for (const int n : {1, 2, 3, 8, 64}) {
    Place place(GetParam());
    std::mutex mutex;
    std::set<uint64_t> nonces;
    std::vector<Process> all = processes(up_to(n), n);
    for (Process& p : all) {
      p.body = [&](Rendezvous& r) -> Status {
        {
          const std::lock_guard lock(mutex);
          nonces.insert(r.nonce());
        }
        for (int round = 0; round < 2; ++round) {
          // Values of any bytes and of different lengths, none among them, and longer than a first guess of a buffer.
          const auto value = [&](int rank) { return std::string(static_cast<size_t>(rank * 200), '\0') + "v"; };
          HKT_ASSIGN(const std::vector<std::string> got,
                     r.all_gather("round" + std::to_string(round), r.rank() == 0 ? "" : value(r.rank())));
          EXPECT_EQ(got.size(), static_cast<size_t>(n));
          for (int i = 0; i < n; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], i == 0 ? "" : value(i));
        }
        HKT_TRY(r.barrier("end"));
        return r.leave();
      };
    }
    for (const std::string& error : run(place, all, 20'000)) EXPECT_EQ(error, "") << n;
    EXPECT_EQ(nonces.size(), 1u);
    EXPECT_NE(*nonces.begin(), 0u);
    EXPECT_NE(access(place.path().c_str(), F_OK), 0) << "the file stayed";
  }
}

TEST_P(EveryStore, RanksThatNeverComeAreNamedOnAllThatDid) {
  Place place(GetParam());
  const auto errors = run(place, processes({0, 1, 3, 4}, 8), 500);
  expect_all_say(errors, "ranks 2, 5-7 of 8 did not come within 0.5 s: ");
  EXPECT_NE(access(place.path().c_str(), F_OK), 0) << "the file stayed";
}

TEST_P(EveryStore, RankZeroThatNeverComesIsNamed) {
  Place place(GetParam());
  const auto errors = run(place, processes({1, 3}, 4), 500);
  if (GetParam() == Kind::tcp) {
    expect_all_say(errors, "of 4 could not reach rank 0 at " + place.url() + " before the deadline: cannot connect");
  } else {
    expect_all_say(errors, "ranks 0, 2 of 4 did not come within 0.5 s: ");
  }
}

TEST_P(EveryStore, TwoProcessesWithOneRankAreAnErrorOnAll) {
  // Rank 2 comes late, or the three might be up before the fourth is here.
  Place place(GetParam());
  std::vector<Process> all = processes({0, 1, 1, 2}, 3);
  all[3].after_ms = 100;
  const auto errors = run(place, all, 10'000);
  expect_all_say(errors, "two processes say they are rank 1 of 3: host ");
}

TEST_P(EveryStore, DifferentWorldSizesAreAnErrorOnAll) {
  for (const int odd : {0, 2}) {
    Place place(GetParam());
    std::vector<Process> all = processes({0, 1, 2, 3, 4}, 4);
    all[static_cast<size_t>(odd)].nranks = 5;
    all[4].nranks = 5;
    all[4].after_ms = 100;
    const auto errors = run(place, all, 10'000);
    expect_all_say(errors, "give all the same WORLD_SIZE");
    expect_all_say(errors, "of 5");
  }
}

TEST_P(EveryStore, AnotherVersionIsAnErrorOnAll) {
  for (const int odd : {0, 2}) {
    Place place(GetParam());
    std::vector<Process> all = processes({0, 1, 2}, 3);
    all[static_cast<size_t>(odd)].options.version = 70809;
    const auto errors = run(place, all, 10'000);
    expect_all_say(errors, "install the same version for all ranks");
    expect_all_say(errors, "7.8.9");
  }
}

TEST_P(EveryStore, AnErrorOfOneRankReachesAll) {
  for (const int odd : {0, 2}) {
    Place place(GetParam());
    std::vector<Process> all = processes(up_to(4), 4);
    for (Process& p : all) {
      p.body = [&](Rendezvous& r) -> Status {
        if (r.rank() == odd) {
          const Error mine = error(hktSystemError, "rank %d has no memory", r.rank());
          r.fail(mine);
          return mine;
        }
        return r.barrier("step");
      };
    }
    expect_all_say(run(place, all, 10'000), "rank " + std::to_string(odd) + " has no memory");
  }
}

TEST_P(EveryStore, ARankThatGivesUpIsNamed) {
  Place place(GetParam());
  std::vector<Process> all = processes(up_to(3), 3);
  for (Process& p : all) {
    p.body = [&](Rendezvous& r) -> Status { return r.rank() == 1 ? Status() : r.barrier("step"); };
  }
  const auto errors = run(place, all, 10'000);
  EXPECT_EQ(errors[1], "");
  for (const size_t i : {0, 2}) EXPECT_TRUE(contains(errors[i], "rank 1 of 3 gave up during bring-up")) << errors[i];
}

TEST_P(EveryStore, ARankThatIsSlowInALaterStepIsNamed) {
  Place place(GetParam());
  std::vector<Process> all = processes(up_to(3), 3);
  for (Process& p : all) {
    p.body = [&](Rendezvous& r) -> Status {
      if (r.rank() == 2) std::this_thread::sleep_for(600ms);
      return r.barrier("connect");
    };
  }
  expect_all_say(run(place, all, 400), "rank 2 of 3 did not get to the step 'connect' of bring-up within 0.4 s");
}

TEST_P(EveryStore, RanksMayComeInAnyOrder) {
  Place place(GetParam());
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int rank = 2; rank >= 0; --rank) {
    threads.emplace_back([&, rank]() {
      auto r = place.open(rank, 3, Deadline::in_ms(10'000));
      const Status status = r ? (*r)->leave() : Status(r.error());
      errors[static_cast<size_t>(rank)] = status.ok() ? "" : status.error().text;
    });
    std::this_thread::sleep_for(40ms);
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  constexpr const char* kNames[] = {"tcp", "file", "unique_id", "callbacks"};
  return kNames[static_cast<size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Stores, EveryStore,
                         testing::Values(Kind::tcp, Kind::file, Kind::unique_id, Kind::callbacks_refuse), kind_name);

TEST(CallbackStore, OneThatOverwritesInSilenceHidesNoClash) {
  for (int i = 0; i < 5; ++i) {
    Place place(Kind::callbacks_overwrite);
    const auto errors = run(place, processes({0, 1, 1}, 3), 10'000);
    // Two puts at the same moment may both pass; then the one that is lost is missed afterwards.
    const bool overwritten = contains(errors[0], "two processes wrote the key 'hocket/card/1' of the store");
    expect_all_say(errors, overwritten ? errors[0] : "two processes say they are rank 1 of 3: host ");
  }
}

TEST(UniqueId, TwoJobsDoNotMeet) {
  Place one(Kind::unique_id);
  Place two(Kind::unique_id);
  std::vector<std::string> first;
  std::thread other([&]() { first = run(one, processes(up_to(3), 3), 10'000); });
  const auto second = run(two, processes(up_to(5), 5), 10'000);
  other.join();
  for (const std::string& error : first) EXPECT_EQ(error, "");
  for (const std::string& error : second) EXPECT_EQ(error, "");
}

TEST(UniqueId, AUsedOneIsOver) {
  Place place(Kind::unique_id);
  for (const std::string& error : run(place, processes(up_to(2), 2), 10'000)) EXPECT_EQ(error, "");
  const auto again = run(place, processes({0}, 2), 300);
  EXPECT_TRUE(contains(again[0], "could not reach the process that made the unique id (")) << again[0];
}

TEST(Rendezvous, ArgumentsAreChecked) {
  MemoryStore memory(MemoryStore::Twice::refuse);
  EXPECT_FALSE(Rendezvous::open(memory.callbacks(), 2, 2, Deadline::in_ms(10)));
  EXPECT_FALSE(Rendezvous::open(memory.callbacks(), 0, 0, Deadline::in_ms(10)));
  EXPECT_FALSE(Rendezvous::open(hktUniqueId{}, 1, 0, Deadline::in_ms(10)));
  hktStore_t no_wait = memory.callbacks();
  no_wait.wait = nullptr;
  const auto refused = Rendezvous::open(no_wait, 1, 0, Deadline::in_ms(10));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, hktInvalidArgument);
}

TEST(Rendezvous, FailingCallbacksAreNamed) {
  MemoryStore memory(MemoryStore::Twice::refuse);
  hktStore_t broken = memory.callbacks();
  broken.put = [](void*, const char*, const void*, size_t) { return 42; };
  const auto refused = Rendezvous::open(broken, 1, 0, Deadline::in_ms(1000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text, "the put callback of the store returned 42 for key 'hocket/card/0'");
}

}  // namespace
}  // namespace hocket::bringup
