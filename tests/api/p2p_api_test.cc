// Requests, messages and groups through the C ABI and the C++ wrapper: what they do, and what they refuse.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "hocket/hocket.h"
#include "hocket/hocket.hpp"

namespace hocket::test {
namespace {

void with_ranks(int n, const std::function<void(hktComm_t, int)>& body) {
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess) << hktGetLastError();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      hktConfig_t config = HKT_CONFIG_INITIALIZER;
      config.timeout_ms = 20'000;
      hktComm_t comm = nullptr;
      ASSERT_EQ(hktCommInitRank(&comm, n, id, rank, &config), hktSuccess) << hktGetLastError();
      body(comm, rank);
      EXPECT_EQ(hktCommDestroy(comm), hktSuccess) << hktGetLastError();
    });
  }
  for (std::thread& t : threads) t.join();
}

void good(hktResult_t r) { ASSERT_EQ(r, hktSuccess) << hktGetLastError(); }
void refused(hktResult_t r, hktResult_t code, const std::vector<std::string>& words) {
  EXPECT_EQ(r, code);
  for (const std::string& w : words)
    EXPECT_NE(std::string(hktGetLastError()).find(w), std::string::npos)
        << "no '" << w << "' in: " << hktGetLastError();
}
hktCallOptions_t into(hktRequest_t& request) {
  hktCallOptions_t o = HKT_CALL_OPTIONS_INITIALIZER;
  o.request = &request;
  return o;
}

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
    refused(hktRequestWait(&a), hktInvalidArgument, {"hktRequestWait", "null"});
    hktRequest_t again = stale;
    refused(hktRequestWait(&again), hktInvalidArgument, {"no such request"});
    int done = 7;
    refused(hktRequestTest(&again, &done), hktInvalidArgument, {"hktRequestTest", "no such request"});
    EXPECT_EQ(done, 0);
    refused(hktRequestTest(nullptr, &done), hktInvalidArgument, {"request"});
    refused(hktRequestTest(&again, nullptr), hktInvalidArgument, {"done"});
    refused(hktRequestWait(nullptr), hktInvalidArgument, {"request"});
  });
}

TEST(MessagesInC, RefuseBadArguments) {
  with_ranks(2, [](hktComm_t comm, int) {
    float x = 0;
    refused(hktSend(&x, 1, hktFloat32, 2, 0, comm, nullptr), hktInvalidArgument, {"hktSend", "peer is 2", "[0, 2)"});
    refused(hktRecv(&x, 1, hktFloat32, -1, 0, comm, nullptr), hktInvalidArgument, {"hktRecv", "peer is -1"});
    refused(hktSend(&x, 1, hktFloat32, 0, -3, comm, nullptr), hktInvalidArgument, {"tag is -3"});
    refused(hktSend(nullptr, 1, hktFloat32, 0, 0, comm, nullptr), hktInvalidArgument, {"buf is null"});
    refused(hktSend(&x, SIZE_MAX, hktFloat32, 0, 0, comm, nullptr), hktInvalidArgument, {"overflows"});
    refused(hktSend(&x, 1, static_cast<hktDataType_t>(31), 0, 0, comm, nullptr), hktInvalidArgument, {"type is 31"});
    refused(hktSend(&x, 1, hktFloat32, 0, 0, nullptr, nullptr), hktInvalidArgument, {"comm is null"});
    good(hktSend(nullptr, 0, hktFloat32, 0, 0, comm, nullptr) == hktSuccess ? hktSuccess : hktInternalError);
  });
}

TEST(VectorsInC, RefuseBadArguments) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    std::vector<float> in(20), out(20);
    const size_t counts[2] = {4, 6}, own_differs[2] = {5, 5}, huge[2] = {SIZE_MAX, 1};
    const auto call = [&](void* to, const size_t* send, const size_t* receive) {
      return hktAllToAllV(in.data(), send, nullptr, to, receive, nullptr, hktFloat32, comm, nullptr);
    };
    refused(call(out.data(), nullptr, counts), hktInvalidArgument, {"sendcounts is null"});
    refused(call(out.data(), counts, nullptr), hktInvalidArgument, {"recvcounts is null"});
    refused(call(nullptr, counts, counts), hktInvalidArgument, {"recvbuf is null"});
    refused(call(out.data(), huge, counts), hktInvalidArgument, {"sendcounts[0]", "overflows"});
    refused(call(out.data(), counts, own_differs), hktInvalidArgument, {"to itself"});
    refused(call(in.data(), counts, counts), hktInvalidArgument, {"two buffers"});
    refused(call(in.data() + 3, counts, counts), hktInvalidArgument, {"overlap"});
    if (rank == 1) {
      refused(hktGatherV(in.data(), 5, out.data(), counts, nullptr, hktFloat32, 1, comm, nullptr), hktInvalidArgument,
              {"recvcounts[1] is 6"});
      refused(hktGatherV(out.data() + 3, 6, out.data(), counts, nullptr, hktFloat32, 1, comm, nullptr),
              hktInvalidArgument, {"overlaps", "in place"});
      refused(hktScatterV(in.data(), nullptr, nullptr, out.data(), 6, hktFloat32, 1, comm, nullptr), hktInvalidArgument,
              {"sendcounts is null"});
    }
    refused(hktGatherV(in.data(), 4, nullptr, nullptr, nullptr, hktFloat32, 2, comm, nullptr), hktInvalidArgument,
            {"root is 2"});
    // And what is right still works: in place on the root.
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
    refused(hktGroupEnd(nullptr), hktInvalidUsage, {"no group is open"});
    good(hktGroupStart());
    good(hktSend(&x, 1, hktFloat32, 1 - rank, 0, comm, nullptr));
    refused(hktRecv(&y, 1, hktFloat32, 7, 0, comm, nullptr), hktInvalidArgument, {"peer is 7"});
    refused(hktGroupEnd(nullptr), hktInvalidArgument, {"hktGroupEnd", "nothing", "peer is 7"});

    good(hktGroupStart());
    good(hktBarrier(comm, nullptr));
    refused(hktCommDestroy(comm), hktInvalidUsage, {"hktCommDestroy", "group that is open"});
    refused(hktGroupEnd(nullptr), hktInvalidUsage, {"group that is open"});

    good(hktGroupStart());
    good(hktGroupStart());
    hktRequest_t r = nullptr;
    const hktCallOptions_t o = into(r);
    refused(hktGroupEnd(&o), hktInvalidUsage, {"outermost"});
    good(hktGroupEnd(nullptr));
    refused(hktGroupEnd(nullptr), hktInvalidUsage, {"outermost"});

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
