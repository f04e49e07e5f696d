// Requests, messages and groups through the C ABI and the C++ wrapper: what they do, and how they fail. (What they
// refuse: misuse_test.cc.)
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "api_ranks.h"
#include "hocket/hocket.h"
#include "hocket/hocket.hpp"

namespace hocket::test {
namespace {

TEST(RequestsInC, WaitAndTestSetTheHandleToNull) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    int32_t x = rank + 1, y = 0;
    hktRequest_t a = nullptr, b = nullptr, c = nullptr;
    const hktCallOptions_t to_a = into(a), to_b = into(b), to_c = into(c);
    good(hktAllReduce(&x, &y, 1, hktInt32, hktSum, comm, &to_a));
    good(hktSend(&x, 1, hktInt32, 1 - rank, 5, comm, &to_b));
    int32_t theirs = 0;
    good(hktRecv(&theirs, 1, hktInt32, 1 - rank, 5, comm, &to_c));
    const hktRequest_t stale = a;
    good(hktRequestWait(&a));
    EXPECT_EQ(a, nullptr);
    EXPECT_EQ(y, 3);
    for (int done = 0; done == 0;) good(hktRequestTest(&c, &done));
    EXPECT_EQ(c, nullptr);
    EXPECT_EQ(theirs, 2 - rank);
    good(hktRequestWait(&b));
    expect_failure(hktRequestWait(&a), hktInvalidArgument, {"hktRequestWait", "null"});
    hktRequest_t again = stale;
    expect_failure(hktRequestWait(&again), hktInvalidArgument, {"no such request"});
    int done = 7;
    expect_failure(hktRequestTest(&again, &done), hktInvalidArgument, {"hktRequestTest", "no such request"});
    EXPECT_EQ(done, 0);
    expect_failure(hktRequestTest(nullptr, &done), hktInvalidArgument, {"request"});
    expect_failure(hktRequestTest(&again, nullptr), hktInvalidArgument, {"done"});
    expect_failure(hktRequestWait(nullptr), hktInvalidArgument, {"request"});
  });
}

TEST(VectorsInC, InPlaceAndUneven) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    std::vector<float> in(20), out(20);
    const size_t counts[2] = {4, 6};
    std::iota(in.begin(), in.end(), static_cast<float>(100 * rank));
    const size_t mine = counts[rank];
    if (rank == 1) std::copy_n(in.begin(), 6, out.begin() + 4);
    good(hktGatherV(rank == 1 ? out.data() + 4 : in.data(), mine, out.data(), counts, nullptr, hktFloat32, 1, comm,
                    nullptr));
    if (rank == 1) {
      EXPECT_EQ(out[3], 3);
      EXPECT_EQ(out[9], 105);
    }
    const size_t all[2][2] = {{3, 2}, {1, 4}}, from[2][2] = {{3, 1}, {2, 4}};
    good(hktAllToAllV(in.data(), all[rank], nullptr, out.data(), from[rank], nullptr, hktFloat32, comm, nullptr));
    EXPECT_EQ(out[0], rank == 0 ? 0 : 3);
    EXPECT_EQ(out[3], rank == 0 ? 100 : 102);
  });
}

TEST(GroupsInC, ErrorsSurfaceAtTheEndAndNothingIsIssued) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    float x = 1, y = 0;
    expect_failure(hktGroupEnd(nullptr), hktInvalidUsage, {"no group is open"});
    good(hktGroupStart());
    good(hktSend(&x, 1, hktFloat32, 1 - rank, 0, comm, nullptr));
    expect_failure(hktRecv(&y, 1, hktFloat32, 7, 0, comm, nullptr), hktInvalidArgument, {"peer is 7"});
    expect_failure(hktGroupEnd(nullptr), hktInvalidArgument, {"hktGroupEnd", "nothing", "peer is 7"});

    good(hktGroupStart());
    good(hktBarrier(comm, nullptr));
    expect_failure(hktCommDestroy(comm), hktInvalidUsage, {"hktCommDestroy", "group that is open"});
    expect_failure(hktGroupEnd(nullptr), hktInvalidUsage, {"group that is open"});

    good(hktGroupStart());
    good(hktGroupStart());
    hktRequest_t r = nullptr;
    const hktCallOptions_t o = into(r);
    expect_failure(hktGroupEnd(&o), hktInvalidUsage, {"outermost"});
    good(hktGroupEnd(nullptr));
    expect_failure(hktGroupEnd(nullptr), hktInvalidUsage, {"outermost"});

    // The message of the first group was not sent: this one comes first.
    x = 7;
    good(hktGroupStart());
    good(hktRecv(&y, 1, hktFloat32, 1 - rank, 0, comm, nullptr));
    good(hktSend(&x, 1, hktFloat32, 1 - rank, 0, comm, nullptr));
    good(hktGroupEnd(&o));
    good(hktRequestWait(&r));
    EXPECT_EQ(y, 7);
  });
}

TEST(WrapperOfMessages, RequestsSendsAndGroups) {
  hktUniqueId id;
  good(hktGetUniqueId(&id));
  const auto body = [&](int rank) {
    auto comm = Communicator::from_id(id, rank, 2);
    std::vector<double> out(1000, rank), in(1000), sum(1000, 1.0);
    {
      Group group;
      comm.recv(std::span(in), 1 - rank, 3);
      comm.send(std::span<const double>(out), 1 - rank, 3);
      group.end();
    }
    EXPECT_EQ(in[999], 1 - rank);
    Request r = comm.start_all_reduce(std::span(sum), Op::sum);
    Request s = comm.start_recv(std::span(in), 1 - rank, 4);
    Request t = comm.start_send(std::span<const double>(sum.data(), 0), 1 - rank, 4);
    s.wait();
    t.wait();
    while (!r.test()) {
    }
    EXPECT_FALSE(static_cast<bool>(r));
    EXPECT_EQ(sum[999], 2.0);
    EXPECT_THROW(r.wait(), Failure);
    EXPECT_THROW(comm.send(std::span<const double>(out), 2, 0), Failure);
    comm.finalize();
  };
  std::thread other([&] { body(1); });
  body(0);
  other.join();
}

}  // namespace
}  // namespace hocket::test
