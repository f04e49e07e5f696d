// Deadlines, aborts and ranks that leave: each ends every waiting call with an error that names who is to blame.
#include <thread>

#include "base/deadline.h"
#include "inprocess/world.h"

namespace hocket::test {
namespace {

void sleep_ms(int64_t ms) {
  const timespec t{ms / 1000, (ms % 1000) * 1'000'000};
  nanosleep(&t, nullptr);
}

class FaultTest : public testing::TestWithParam<const char*> {
 protected:
  WorldSpec spec(int n) {
    WorldSpec s;
    s.n = n;
    s.transport = GetParam();
    return s;
  }
};

TEST_P(FaultTest, ATimeoutNamesTheMissingRank) {
  run_world(spec(3), [](Communicator& comm, int rank) {
    ASSERT_TRUE(comm.barrier().ok());
    if (rank == 2) {
      sleep_ms(1500);  // never calls
      return;
    }
    std::vector<float> data(10, 1.0f);
    CallOptions options;
    options.timeout_ms = 300;
    options.label = "gradient bucket 7";
    const int64_t start = now_ns();
    const Status s = comm.all_reduce(data.data(), data.data(), data.size(), hktFloat32, hktSum, options);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktTimeout) << s.error().text;
    EXPECT_NE(s.error().text.find("rank 2"), std::string::npos) << s.error().text;
    EXPECT_NE(s.error().text.find("gradient bucket 7"), std::string::npos) << s.error().text;
    EXPECT_LT(now_ns() - start, 2'000'000'000);
    // The communicator has failed for good.
    const Status next = comm.barrier();
    ASSERT_FALSE(next.ok());
    EXPECT_EQ(next.error().code, hktTimeout);
    EXPECT_EQ(comm.async_error(), hktTimeout);
  });
}

TEST_P(FaultTest, AbortFromAnotherThreadEndsTheCallsOfAllRanks) {
  run_world(spec(3), [](Communicator& comm, int rank) {
    ASSERT_TRUE(comm.barrier().ok());
    if (rank == 2) {
      sleep_ms(1000);  // never calls
      EXPECT_NE(comm.async_error(), hktSuccess);
      return;
    }
    std::thread aborter;
    if (rank == 0) {
      aborter = std::thread([&comm] {
        sleep_ms(100);
        comm.abort();
      });
    }
    std::vector<float> data(10, 1.0f);
    const int64_t start = now_ns();
    const Status s = comm.all_reduce(data.data(), data.data(), data.size(), hktFloat32, hktSum);
    if (aborter.joinable()) aborter.join();
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktAborted) << s.error().text;
    EXPECT_NE(s.error().text.find("rank 0"), std::string::npos) << s.error().text;
    EXPECT_LT(now_ns() - start, 2'000'000'000);
  });
}

TEST_P(FaultTest, ARankThatHasDestroyedItsCommunicatorIsNamed) {
  run_world(spec(3), [](Communicator& comm, int rank) {
    ASSERT_TRUE(comm.barrier().ok());
    if (rank == 1) return;  // destroys it
    std::vector<float> data(10, 1.0f);
    const int64_t start = now_ns();
    const Status s = comm.all_reduce(data.data(), data.data(), data.size(), hktFloat32, hktSum);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktRemoteError) << s.error().text;
    EXPECT_NE(s.error().text.find("rank 1"), std::string::npos) << s.error().text;
    EXPECT_LT(now_ns() - start, 3'000'000'000);
  });
}

TEST_P(FaultTest, LeavingInGoodOrderDisturbsNobody) {
  run_world(spec(4), [](Communicator& comm, int rank) {
    std::vector<float> data(10000, 1.0f);
    for (int i = 0; i < 20; ++i) {
      const Status s = comm.all_reduce(data.data(), data.data(), data.size(), hktFloat32, hktMax);
      ASSERT_TRUE(s.ok()) << "rank " << rank << ": " << s.error().text;
    }
    if (rank % 2 == 1) return;  // at once, while the others may still be in the last call
    sleep_ms(100);
    EXPECT_EQ(comm.async_error(), hktSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(All, FaultTest, testing::Values("shm", "tcp"),
                         [](const auto& c) { return std::string(c.param); });

}  // namespace
}  // namespace hocket::test
