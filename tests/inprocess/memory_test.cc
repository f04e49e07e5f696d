// Memory that is refused in the middle of making a communicator or of finalize: the k-th request for it of one rank,
// for many k, and for every one with HOCKET_TEST_FULL=1. No rank waits for its deadline, and either nobody has a new
// communicator and the parent lives on, or what they had has failed on all ranks, with an error that names the rank.
#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "comm/children.h"
#include "inprocess/calls.h"
#include "sanitizers.h"

namespace {
// Of this thread: how many requests are still served before one is refused. 0: all are.
thread_local uint64_t refuse_at = 0;
thread_local bool refused = false;
}  // namespace

// Sanitizers bring allocators of their own, which stay.
#if !HOCKET_TEST_ASAN && !HOCKET_TEST_TSAN
namespace {
bool refuses() {
  if (refuse_at == 0) return false;
  --refuse_at;
  refused = refused || refuse_at == 0;
  return refuse_at == 0;
}
}  // namespace

// Not inlined: GCC takes pairs of them for mistakes.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  void* const p = refuses() ? nullptr : std::malloc(bytes != 0 ? bytes : 1);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
__attribute__((noinline)) void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return refuses() ? nullptr : std::malloc(bytes != 0 ? bytes : 1);
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace hocket::test {
namespace {

constexpr int kRanks = 3, kPoor = 1;

struct Making {
  const char* name;
  // `ranks` is the caller's own list, made before.
  Status (*call)(Communicator& comm, std::vector<int>& ranks, std::unique_ptr<Communicator>& made);
};
Status keep(Result<std::unique_ptr<Communicator>> result, std::unique_ptr<Communicator>& made) {
  if (!result.ok()) return std::move(result.error());
  made = std::move(*result);
  return {};
}
constexpr Making kMakings[] = {
    {"split", [](Communicator& c, auto&, auto& made) { return keep(split(c, {0, -c.rank()}, {}), made); }},
    {"dup", [](Communicator& c, auto&, auto& made) { return keep(duplicate(c, {}), made); }},
    {"create",
     [](Communicator& c, auto& ranks, auto& made) { return keep(create_child(c, std::move(ranks), 5, {}), made); }},
    {"finalize", [](Communicator& c, auto&, auto&) { return finalize(c); }},
};

// What the ranks tell each other of a trial, beside the communicators that it is about.
struct Trial {
  std::mutex mutex;
  bool refused = false;
  std::array<bool, kRanks> made{};
  std::array<std::string, kRanks> errors;  // of the call, or else of the next one
};

// False: rank 1 needs no more than `k` requests, which is the end.
bool attempt(Communicator& comm, const Making& making, uint64_t k, Trial& trial) {
  auto parent = duplicate(comm, {});
  EXPECT_TRUE(parent.ok()) << parent.error().text;
  if (!parent.ok()) return false;
  const auto me = static_cast<size_t>(comm.rank());
  const int64_t start = now_ns();
  std::unique_ptr<Communicator> child;
  std::vector<int> ranks = {2, 1, 0};
  if (comm.rank() == kPoor) {
    refused = false;
    refuse_at = k;
  }
  const Status first = making.call(**parent, ranks, child);
  refuse_at = 0;
  // Nobody finds a communicator as good as the others think it is.
  const Status second = first.ok() && child == nullptr ? Status() : (*parent)->barrier();
  EXPECT_LT(now_ns() - start, 5'000'000'000) << making.name << " " << k << " rank " << comm.rank();
  {
    const std::lock_guard<std::mutex> lock(trial.mutex);
    if (comm.rank() == kPoor) trial.refused = refused;
    trial.made[me] = first.ok();
    trial.errors[me] = !second.ok() ? second.error().text : "";
    if (!first.ok()) {
      EXPECT_NE(first.error().text.find("rank 1"), std::string::npos)
          << making.name << " " << k << ": " << first.error().text;
    }
  }
  good(comm.barrier());
  const bool goes_on = trial.refused;
  const bool all = trial.made[0] && trial.made[1] && trial.made[2];
  const bool none = !trial.made[0] && !trial.made[1] && !trial.made[2];
  const bool alive = trial.errors[me].empty();
  if (!all && !(none && alive)) {  // somebody has what another one has not
    if (child != nullptr || !trial.made[me]) {
      EXPECT_FALSE(alive) << making.name << " " << k << " rank " << comm.rank();
    }
  }
  if (!alive) {
    EXPECT_NE(trial.errors[me].find("rank 1"), std::string::npos)
        << making.name << " " << k << ": " << trial.errors[me];
  }
  good(comm.barrier());
  return goes_on;
}

class Memory : public Places {};

TEST_P(Memory, RefusedOnOneRankIsAnErrorOnAll) {
  if (HOCKET_TEST_ASAN || HOCKET_TEST_TSAN) GTEST_SKIP() << "sanitizers have allocators of their own";
  for (const Making& making : kMakings) {
    std::array<uint64_t, kRanks> trials{};
    std::vector<Trial> all(2000);
    const uint64_t step = std::getenv("HOCKET_TEST_FULL") != nullptr || making.name == std::string("finalize") ? 1 : 7;
    run_world(world(kRanks), [&](Communicator& comm, int rank) {
      uint64_t k = step;
      while (k < all.size() && attempt(comm, making, k, all[k]) && !HasFailure()) k += step;
      trials[static_cast<size_t>(rank)] = k;
    });
    EXPECT_GT(trials[0], 5u) << making.name;
    EXPECT_LT(trials[0], all.size()) << making.name;
    std::printf("%s: about %llu requests for memory\n", making.name, static_cast<unsigned long long>(trials[0] - step));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Memory, testing::Values(kPlaces[0], kPlaces[2], kPlaces[4]), place_name);

}  // namespace
}  // namespace hocket::test
