// What requests, messages, groups, collectives of messages and handles refuse, with which words. A refused call counts
// for nothing: the ranks go on together after each of these.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "api_ranks.h"
#include "hocket/hocket.h"

namespace hocket::test {
namespace {

using Counts = std::vector<size_t>;
constexpr size_t kMuch = static_cast<size_t>(INT64_MAX);

const size_t* pointer(const Counts& c) { return c.empty() ? nullptr : c.data(); }

// The ranks are in step.
void expect_works(hktComm_t comm, int nranks) {
  int32_t x = 1;
  EXPECT_EQ(hktAllReduce(&x, &x, 1, hktInt32, hktSum, comm, nullptr), hktSuccess) << hktGetLastError();
  EXPECT_EQ(x, nranks);
}

TEST(Misuse, OfMessages) {
  with_ranks(2, [](hktComm_t comm, int) {
    float x = 0;
    struct Function {
      const char* name;
      hktResult_t (*call)(void*, size_t, hktDataType_t, int, int, hktComm_t, const hktCallOptions_t*);
    };
    const Function functions[] = {
        {"hktSend", [](void* buf, size_t count, hktDataType_t type, int peer, int tag, hktComm_t c,
                       const hktCallOptions_t* o) { return hktSend(buf, count, type, peer, tag, c, o); }},
        {"hktRecv", hktRecv}};
    for (const Function& f : functions) {
      const auto refused = [&](void* buf, size_t count, int peer, int tag, const std::string& words) {
        expect_failure(f.call(buf, count, hktFloat32, peer, tag, comm, nullptr), hktInvalidArgument, {f.name, words});
      };
      for (const int peer : {2, -1, INT32_MAX, INT32_MIN})
        refused(&x, 1, peer, 0, "peer is " + std::to_string(peer) + ", must be in [0, 2)");
      for (const int tag : {-1, INT32_MIN})
        refused(&x, 1, 0, tag, "tag is " + std::to_string(tag) + ", must not be negative");
      refused(nullptr, 1, 0, 0, "buf is null");
      for (const size_t count : {SIZE_MAX, kMuch / 4 + 1})
        refused(&x, count, 0, 0, "count " + std::to_string(count) + " of float overflows 63 bits");
      for (const hktDataType_t type : kNoTypes)
        expect_failure(f.call(&x, 1, type, 0, 0, comm, nullptr), hktInvalidArgument,
                       {f.name, "type is " + std::to_string(type)});
      expect_failure(f.call(&x, 1, hktFloat32, 0, 0, nullptr, nullptr), hktInvalidArgument, {f.name, "comm is null"});
      hktCallOptions_t options = HKT_CALL_OPTIONS_INITIALIZER;
      options.reserved = 1;
      expect_failure(f.call(&x, 1, hktFloat32, 0, 0, comm, &options), hktInvalidArgument, {f.name, "options"});
    }
    // The largest tag and nothing at all are right.
    good(hktSend(nullptr, 0, hktFloat32, 0, INT32_MAX, comm, nullptr));
    good(hktSend(nullptr, 0, hktFloat32, 1, INT32_MAX, comm, nullptr));
    for (const int peer : {0, 1}) good(hktRecv(nullptr, 0, hktFloat32, peer, INT32_MAX, comm, nullptr));
    expect_works(comm, 2);
  });
}

TEST(Misuse, OfAllToAllV) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    std::array<float, 64> memory{};
    float *a = memory.data(), *b = a + 32;
    struct Side {
      Counts counts = {4, 4}, displs;
    };
    const auto refused = [&](const float* from, const Side& send, float* to, const Side& receive,
                             const std::vector<std::string>& words) {
      expect_failure(hktAllToAllV(from, pointer(send.counts), pointer(send.displs), to, pointer(receive.counts),
                                  pointer(receive.displs), hktFloat32, comm, nullptr),
                     hktInvalidArgument, words);
    };
    const std::string name = "hktAllToAllV";
    const Side right, none{{}, {}}, huge{{SIZE_MAX, 1}, {}}, sum{{kMuch / 4, 4}, {}}, far{{4, 4}, {0, kMuch / 4}};
    refused(a, none, b, right, {name, "sendcounts is null"});
    refused(a, right, b, none, {name, "recvcounts is null"});
    refused(nullptr, right, b, right, {name, "sendbuf is null"});
    refused(a, right, nullptr, right, {name, "recvbuf is null"});
    refused(a, huge, b, right, {name, "sendcounts[0] is " + std::to_string(SIZE_MAX), "overflows 63 bits"});
    refused(a, right, b, sum, {name, "recvcounts[1] is 4", "overflows 63 bits"});
    refused(a, far, b, right, {name, "sendcounts[1] is 4, from element " + std::to_string(kMuch / 4), "overflows"});
    refused(a, right, b, far, {name, "recvcounts[1] is 4, from element " + std::to_string(kMuch / 4), "overflows"});
    refused(a, right, b, {{4, 4}, {0, 3}}, {name, "blocks of ranks 0 and 1 in recvbuf overlap by 4 bytes"});
    refused(a, right, b, {{4, 4}, {2, 0}}, {name, "blocks of ranks 0 and 1 in recvbuf overlap by 8 bytes"});
    refused(a, right, b, {{5, 5}, {}},
            {name, "rank " + std::to_string(rank) + " sends 4 elements to itself and expects 5"});
    refused(a, right, a, right, {name, "two buffers"});
    refused(a, right, a + 7, right, {name, "overlap"});
    refused(a + 7, right, a, right, {name, "overlap"});
    for (const hktDataType_t type : kNoTypes)
      expect_failure(
          hktAllToAllV(a, pointer(right.counts), nullptr, b, pointer(right.counts), nullptr, type, comm, nullptr),
          hktInvalidArgument, {name, "type is"});
    expect_failure(hktAllToAllV(a, pointer(right.counts), nullptr, b, pointer(right.counts), nullptr, hktFloat32,
                                nullptr, nullptr),
                   hktInvalidArgument, {name, "comm is null"});
    // Blocks that are only read may share elements, and what comes in may have gaps and any order.
    std::fill_n(a, 8, static_cast<float>(rank));
    const Counts same = {0, 0}, turned = {6, 1};
    good(hktAllToAllV(a, pointer(right.counts), same.data(), b, pointer(right.counts), turned.data(), hktFloat32, comm,
                      nullptr));
    EXPECT_EQ(b[6], 0);
    EXPECT_EQ(b[1], 1);
    expect_works(comm, 2);
  });
}

TEST(Misuse, OfGatherVAndScatterV) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    std::array<float, 64> memory{};
    float *a = memory.data(), *b = a + 32;
    const auto gather = [&](const float* from, size_t count, float* to, const Counts& counts, const Counts& displs,
                            const std::vector<std::string>& words) {
      expect_failure(hktGatherV(from, count, to, pointer(counts), pointer(displs), hktFloat32, rank, comm, nullptr),
                     hktInvalidArgument, words);
    };
    const auto scatter = [&](const float* from, const Counts& counts, const Counts& displs, float* to, size_t count,
                             const std::vector<std::string>& words) {
      expect_failure(hktScatterV(from, pointer(counts), pointer(displs), to, count, hktFloat32, rank, comm, nullptr),
                     hktInvalidArgument, words);
    };
    const Counts right = {4, 4};
    const std::string me = "[" + std::to_string(rank) + "]";
    // Each rank as the root, which has the table.
    gather(a, 4, b, {}, {}, {"hktGatherV", "recvcounts is null"});
    gather(nullptr, 4, b, right, {}, {"hktGatherV", "sendbuf is null"});
    gather(a, 4, nullptr, right, {}, {"hktGatherV", "recvbuf is null"});
    gather(a, SIZE_MAX, b, right, {}, {"hktGatherV", "count " + std::to_string(SIZE_MAX), "overflows 63 bits"});
    gather(a, 4, b, {4, kMuch / 4}, {}, {"hktGatherV", "recvcounts[1] is " + std::to_string(kMuch / 4), "overflows"});
    gather(a, 4, b, right, {kMuch, 0}, {"hktGatherV", "recvcounts[0] is 4, from element", "overflows"});
    gather(a, 4, b, right, {3, 0}, {"hktGatherV", "blocks of ranks 0 and 1 in recvbuf overlap by 4 bytes"});
    gather(a, 5, b, right, {}, {"hktGatherV", "own block has 5 elements, recvcounts" + me + " is 4"});
    gather(b + 3, 4, b, right, {}, {"hktGatherV", "sendbuf and the block of rank", "overlap", "in place"});
    gather(rank == 0 ? b + 4 : b, 4, b, right, {},
           {"hktGatherV", "block of rank " + std::to_string(1 - rank) + " in recvbuf overlap"});
    scatter(a, {}, {}, b, 4, {"hktScatterV", "sendcounts is null"});
    scatter(nullptr, right, {}, b, 4, {"hktScatterV", "sendbuf is null"});
    scatter(a, right, {}, nullptr, 4, {"hktScatterV", "recvbuf is null"});
    scatter(a, right, {}, b, kMuch / 4 + 1, {"hktScatterV", "overflows 63 bits"});
    scatter(a, {SIZE_MAX, 4}, {}, b, 4, {"hktScatterV", "sendcounts[0]", "overflows"});
    scatter(a, right, {0, kMuch}, b, 4, {"hktScatterV", "sendcounts[1] is 4, from element", "overflows"});
    scatter(a, right, {}, b, 3, {"hktScatterV", "own block has 3 elements, sendcounts" + me + " is 4"});
    scatter(a, right, {}, a + 2, 4, {"hktScatterV", "recvbuf and the block of rank", "overlap", "in place"});
    // And those without.
    for (const int root : {-1, 2, INT32_MAX}) {
      const std::string words = "root is " + std::to_string(root) + ", must be in [0, 2)";
      expect_failure(hktGatherV(a, 4, b, right.data(), nullptr, hktFloat32, root, comm, nullptr), hktInvalidArgument,
                     {"hktGatherV", words});
      expect_failure(hktScatterV(a, right.data(), nullptr, b, 4, hktFloat32, root, comm, nullptr), hktInvalidArgument,
                     {"hktScatterV", words});
    }
    expect_failure(hktGatherV(nullptr, 4, nullptr, nullptr, nullptr, hktFloat32, 1 - rank, comm, nullptr),
                   hktInvalidArgument, {"hktGatherV", "sendbuf is null"});
    expect_failure(hktScatterV(nullptr, nullptr, nullptr, nullptr, 4, hktFloat32, 1 - rank, comm, nullptr),
                   hktInvalidArgument, {"hktScatterV", "recvbuf is null"});
    for (const hktDataType_t type : kNoTypes) {
      expect_failure(hktGatherV(a, 4, b, right.data(), nullptr, type, 0, comm, nullptr), hktInvalidArgument,
                     {"hktGatherV", "type is"});
      expect_failure(hktScatterV(a, right.data(), nullptr, b, 4, type, 0, comm, nullptr), hktInvalidArgument,
                     {"hktScatterV", "type is"});
    }
    expect_failure(hktGatherV(a, 4, b, right.data(), nullptr, hktFloat32, 0, nullptr, nullptr), hktInvalidArgument,
                   {"hktGatherV", "comm is null"});
    expect_failure(hktScatterV(a, right.data(), nullptr, b, 4, hktFloat32, 0, nullptr, nullptr), hktInvalidArgument,
                   {"hktScatterV", "comm is null"});
    // The root's own block may lie in a gap of the others.
    const Counts gaps = {8, 0};
    std::fill_n(b, 16, static_cast<float>(rank));
    good(hktGatherV(b + 4, 4, b, right.data(), gaps.data(), hktFloat32, 0, comm, nullptr));
    if (rank == 0) {
      EXPECT_EQ((std::vector<float>(b, b + 12)), (std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
    }
    expect_works(comm, 2);
  });
}

TEST(Misuse, OfRequests) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    int32_t x = rank, y = 0;
    int done = 7;
    hktRequest_t request = nullptr, copy = nullptr;
    const hktCallOptions_t o = into(request);
    good(hktAllReduce(&x, &y, 1, hktInt32, hktSum, comm, &o));
    copy = request;
    good(hktRequestWait(&request));
    // Twice: the handle is null now; a copy of it is nobody's.
    expect_failure(hktRequestWait(&request), hktInvalidArgument, {"hktRequestWait", "the request is null"});
    expect_failure(hktRequestTest(&request, &done), hktInvalidArgument, {"hktRequestTest", "the request is null"});
    EXPECT_EQ(done, 0);
    expect_failure(hktRequestWait(&copy), hktInvalidArgument, {"hktRequestWait", "no such request", "finished"});
    expect_failure(hktRequestTest(&copy, &done), hktInvalidArgument, {"hktRequestTest", "no such request", "finished"});
    auto garbage = reinterpret_cast<hktRequest_t>(uintptr_t{0x1234567});
    expect_failure(hktRequestWait(&garbage), hktInvalidArgument, {"no such request"});
    expect_failure(hktRequestWait(nullptr), hktInvalidArgument, {"hktRequestWait", "request is null"});
    expect_failure(hktRequestTest(nullptr, &done), hktInvalidArgument, {"hktRequestTest", "request is null"});
    expect_failure(hktRequestTest(&copy, nullptr), hktInvalidArgument, {"hktRequestTest", "done is null"});
    // A call that is refused leaves none.
    expect_failure(hktAllReduce(nullptr, &y, 1, hktInt32, hktSum, comm, &o), hktInvalidArgument, {"sendbuf"});
    EXPECT_EQ(request, nullptr);
    expect_failure(hktSend(&x, 1, hktInt32, 5, 0, comm, &o), hktInvalidArgument, {"peer is 5"});
    EXPECT_EQ(request, nullptr);
    expect_works(comm, 2);
  });
}

TEST(Misuse, OfGroups) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    float x = 1, y = 0;
    hktRequest_t request = nullptr;
    const hktCallOptions_t o = into(request);
    expect_failure(hktGroupEnd(nullptr), hktInvalidUsage, {"hktGroupEnd", "no group is open in this thread"});
    expect_failure(hktGroupEnd(&o), hktInvalidUsage, {"no group is open in this thread"});
    EXPECT_EQ(request, nullptr);

    // A request of its own, for a call in a group.
    good(hktGroupStart());
    expect_failure(hktBarrier(comm, &o), hktInvalidUsage, {"a call in a group has no request", "hktGroupEnd"});
    expect_failure(hktGroupEnd(nullptr), hktInvalidUsage,
                   {"hktGroupEnd", "nothing of the group was issued", "request"});

    // Options of an end that are those of calls.
    good(hktGroupStart());
    hktCallOptions_t late = HKT_CALL_OPTIONS_INITIALIZER;
    late.timeout_ms = 5;
    expect_failure(hktGroupEnd(&late), hktInvalidUsage, {"hktGroupEnd", "options.timeout_ms", "calls of a group"});
    late.reserved = 1;
    expect_failure(hktGroupEnd(&late), hktInvalidArgument, {"hktGroupEnd", "HKT_CALL_OPTIONS_INITIALIZER"});
    expect_failure(hktGroupEnd(nullptr), hktInvalidUsage, {"nothing of the group was issued"});

    // Left open: the communicator stays, and nothing of other kinds can be done with it.
    hktComm_t made = nullptr;
    good(hktGroupStart());
    good(hktSend(&x, 1, hktFloat32, 1 - rank, 0, comm, nullptr));
    const std::array ranks = {0, 1};
    expect_failure(hktCommSplit(comm, 0, 0, &made, nullptr), hktInvalidUsage, {"hktCommSplit", "group that is open"});
    expect_failure(hktCommDup(comm, &made, nullptr), hktInvalidUsage, {"hktCommDup", "group that is open"});
    expect_failure(hktCommCreate(comm, ranks.data(), 2, 0, &made, nullptr), hktInvalidUsage,
                   {"hktCommCreate", "group that is open"});
    expect_failure(hktCommFinalize(comm), hktInvalidUsage, {"hktCommFinalize", "group that is open"});
    expect_failure(hktCommDestroy(comm), hktInvalidUsage, {"hktCommDestroy", "group that is open", "hktGroupEnd"});
    expect_failure(hktGroupEnd(nullptr), hktInvalidUsage, {"nothing of the group was issued"});
    expect_works(comm, 2);

    // By a thread that ends: what was in it is given up, and this thread is in no group.
    std::thread([&] {
      good(hktGroupStart());
      good(hktSend(&x, 1, hktFloat32, 1 - rank, 0, comm, nullptr));
    }).join();
    expect_works(comm, 2);
    x = static_cast<float>(rank + 5);
    good(hktSend(&x, 1, hktFloat32, 1 - rank, 0, comm, nullptr));
    good(hktRecv(&y, 1, hktFloat32, 1 - rank, 0, comm, nullptr));
    EXPECT_EQ(y, static_cast<float>(6 - rank)) << "not one of those that were given up";
  });
}

TEST(Misuse, OfOperationsInUse) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    const float two = 2;
    hktRedOp_t op = hktSum;
    good(hktRedOpCreatePreMulSum(&op, &two, hktFloat32, comm));
    const auto in_use = [&] {
      expect_failure(hktRedOpDestroy(op, comm), hktInvalidUsage,
                     {"hktRedOpDestroy", "pre-multiplied sum 0", "outstanding or in an open group"});
    };
    std::vector<float> x(100, static_cast<float>(rank + 1));
    hktRequest_t first = nullptr, second = nullptr;
    const hktCallOptions_t to_first = into(first), to_second = into(second);
    // Behind a receive's message that has not come, so the call is outstanding for sure.
    int32_t go = 0;
    if (rank == 0) good(hktRecv(&go, 1, hktInt32, 1, 0, comm, &to_first));
    if (rank == 0) {
      good(hktAllReduce(x.data(), x.data(), x.size(), hktFloat32, op, comm, &to_second));
      in_use();
      good(hktSend(&go, 1, hktInt32, 1, 1, comm, nullptr));
    } else {
      good(hktRecv(&go, 1, hktInt32, 0, 1, comm, nullptr));
      good(hktSend(&go, 1, hktInt32, 0, 0, comm, nullptr));
      good(hktAllReduce(x.data(), x.data(), x.size(), hktFloat32, op, comm, &to_second));
    }
    good(hktRequestWait(&second));
    if (rank == 0) good(hktRequestWait(&first));
    EXPECT_EQ(x, std::vector<float>(100, 6));
    good(hktGroupStart());
    good(hktAllReduce(x.data(), x.data(), x.size(), hktFloat32, op, comm, nullptr));
    in_use();
    expect_failure(hktGroupEnd(nullptr), hktInvalidUsage, {"nothing of the group was issued"});
    good(hktRedOpDestroy(op, comm));
    expect_failure(hktRedOpDestroy(op, comm), hktInvalidArgument, {"hktRedOpDestroy", "has been destroyed"});
    expect_failure(hktAllReduce(x.data(), x.data(), x.size(), hktFloat32, op, comm, &to_second), hktInvalidArgument,
                   {"has been destroyed"});
    EXPECT_EQ(second, nullptr);
    expect_works(comm, 2);
  });
}

// A split without a color leaves no communicator; a list without the caller is refused.
TEST(Misuse, OfRegisteredMemory) {
  void* memory = nullptr;
  expect_failure(hktMemAlloc(nullptr, 8), hktInvalidArgument, {"hktMemAlloc", "ptr is null"});
  for (const size_t bytes : {size_t{0}, SIZE_MAX, kMuch})
    expect_failure(hktMemAlloc(&memory, bytes), hktInvalidArgument, {"hktMemAlloc", "bytes"});
  EXPECT_EQ(memory, nullptr);
  expect_failure(hktMemFree(&memory), hktInvalidArgument, {"hktMemFree", "not what hktMemAlloc has returned"});
  good(hktMemFree(nullptr));
  with_ranks(2, [](hktComm_t comm, int rank) {
    void* mine = nullptr;
    good(hktMemAlloc(&mine, 10'000));
    hktRegistration_t registration = nullptr;
    // What is wrong on every rank in the same way is refused before anything is sent.
    expect_failure(hktCommRegister(comm, mine, 10'000, nullptr), hktInvalidArgument,
                   {"hktCommRegister", "registration is null"});
    expect_failure(hktCommRegister(comm, nullptr, 10'000, &registration), hktInvalidArgument,
                   {"hktCommRegister", "there is no memory at"});
    expect_failure(hktCommRegister(nullptr, mine, 10'000, &registration), hktInvalidArgument,
                   {"hktCommRegister", "comm is null"});
    expect_failure(hktCommDeregister(comm, nullptr), hktInvalidArgument,
                   {"hktCommDeregister", "no registration of this communicator"});
    // What is wrong on one rank is told to all.
    const std::string who = rank == 1 ? "only 12288 of the 999999 bytes" : "rank 1 cannot register its memory: only";
    expect_failure(hktCommRegister(comm, mine, rank == 1 ? 999'999 : 10'000, &registration), hktInvalidArgument,
                   {"hktCommRegister", who});
    EXPECT_EQ(registration, nullptr);
    good(hktCommRegister(comm, mine, 10'000, &registration));
    expect_failure(hktMemFree(mine), hktInvalidUsage, {"hktMemFree", "hktCommDeregister"});
    good(hktGroupStart());
    good(hktBarrier(comm, nullptr));
    hktRegistration_t in_group = nullptr;
    expect_failure(hktCommRegister(comm, nullptr, 0, &in_group), hktInvalidUsage, {"hktCommRegister", "group"});
    expect_failure(hktCommDeregister(comm, registration), hktInvalidUsage, {"hktCommDeregister", "group"});
    expect_failure(hktGroupEnd(nullptr), hktInvalidUsage, {"hktGroupEnd", "nothing of the group was issued"});
    good(hktCommDeregister(comm, registration));
    expect_failure(hktCommDeregister(comm, registration), hktInvalidArgument, {"hktCommDeregister", "no longer one"});
    good(hktMemFree(mine));
    expect_works(comm, 2);
    // Some ranks may have nothing to give.
    good(hktMemAlloc(&mine, 10'000));
    good(hktCommRegister(comm, rank == 0 ? mine : nullptr, rank == 0 ? 10'000 : 0, &registration));
    expect_works(comm, 2);
    good(hktCommDeregister(comm, registration));
    good(hktMemFree(mine));
  });
}

TEST(Misuse, OfCommunicatorsOfOthers) {
  with_ranks(3, [](hktComm_t world, int rank) {
    hktComm_t part = nullptr;
    good(hktCommSplit(world, rank == 2 ? HKT_SPLIT_NOCOLOR : 0, 0, &part, nullptr));
    if (rank == 2) {
      EXPECT_EQ(part, nullptr);
      float x = 0;
      const size_t counts[] = {1, 1};
      const std::vector<std::string> words = {"comm is null", "HKT_SPLIT_NOCOLOR"};
      expect_failure(hktBarrier(part, nullptr), hktInvalidArgument, words);
      expect_failure(hktAllReduce(&x, &x, 1, hktFloat32, hktSum, part, nullptr), hktInvalidArgument, words);
      expect_failure(hktSend(&x, 1, hktFloat32, 0, 0, part, nullptr), hktInvalidArgument, words);
      expect_failure(hktAllGatherV(&x, &x, counts, nullptr, hktFloat32, part, nullptr), hktInvalidArgument, words);
      expect_failure(hktCommDestroy(part), hktInvalidArgument, words);
      const std::array others = {0, 1};
      expect_failure(hktCommCreate(world, others.data(), 2, 0, &part, nullptr), hktInvalidArgument,
                     {"hktCommCreate", "ranks does not have the calling rank, 2"});
      EXPECT_EQ(part, nullptr);
    } else {
      expect_works(part, 2);
      // The ranks of the parent are not those of the child.
      float x = 0;
      expect_failure(hktSend(&x, 1, hktFloat32, 2, 0, part, nullptr), hktInvalidArgument, {"peer is 2", "[0, 2)"});
      expect_failure(hktBroadcast(&x, &x, 1, hktFloat32, 2, part, nullptr), hktInvalidArgument,
                     {"root is 2", "[0, 2)"});
      hktRedOp_t op = hktSum;
      good(hktRedOpCreatePreMulSum(&op, &x, hktFloat32, part));
      expect_failure(hktAllReduce(&x, &x, 1, hktFloat32, op, world, nullptr), hktInvalidArgument,
                     {"op is " + std::to_string(op), "not made on this communicator"});
      good(hktCommDestroy(part));
    }
    expect_works(world, 3);
  });
}

// What an operation does that calls Hocket all the same, in the middle of a call of `comm`.
struct Caller {
  hktComm_t comm = nullptr;
  hktRedOp_t op = hktSum;
  std::atomic<int> ran{0};

  static void add(const void* left, const void* right, void* result, size_t count, hktDataType_t, void* context) {
    for (size_t i = 0; i < count; ++i)
      static_cast<int32_t*>(result)[i] = static_cast<const int32_t*>(left)[i] + static_cast<const int32_t*>(right)[i];
    static_cast<Caller*>(context)->call_back();
  }
  void call_back() {
    if (ran != 0) return;  // once is enough
    int32_t x = 1;
    hktComm_t child = nullptr;
    hktRequest_t r = nullptr;
    const auto refused = [](hktResult_t result) { expect_failure(result, hktInvalidUsage, {"must not call Hocket"}); };
    refused(hktAllReduce(&x, &x, 1, hktInt32, hktSum, comm, nullptr));
    refused(hktBarrier(comm, nullptr));
    const hktCallOptions_t o = into(r);
    refused(hktBroadcast(&x, &x, 1, hktInt32, 0, comm, &o));
    refused(hktSend(&x, 1, hktInt32, 0, 0, comm, nullptr));
    refused(hktRequestWait(&r));
    refused(hktGroupStart());
    refused(hktCommDup(comm, &child, nullptr));
    refused(hktCommFinalize(comm));
    hktRegistration_t registration = nullptr;
    refused(hktCommRegister(comm, nullptr, 0, &registration));
    refused(hktCommDeregister(comm, registration));
    refused(hktRedOpDestroy(op, comm));
    refused(hktCommDestroy(comm));
    int n = 0;
    size_t bytes = 0;
    good(hktCommCount(comm, &n));
    good(hktGetTypeSize(hktInt32, &bytes));
    ran = 1;
  }
};

// In a call that blocks, in a wait for something else, and on the progress thread.
TEST(Misuse, OfOperationsThatCallBack) {
  for (const bool helped : {false, true}) {
    if (helped) setenv("HOCKET_PROGRESS", "thread", 1);
    with_ranks(2, [&](hktComm_t comm, int) {
      hktComm_t other = nullptr;
      good(hktCommDup(comm, &other, nullptr));
      for (const bool blocking : {true, false}) {
        Caller caller;
        caller.comm = comm;
        good(hktRedOpCreate(&caller.op, &Caller::add, 1, &caller, comm));
        std::vector<int32_t> x(100'000, 1), y(x.size());
        hktRequest_t r = nullptr;
        const hktCallOptions_t o = into(r);
        good(hktAllReduce(x.data(), y.data(), x.size(), hktInt32, caller.op, comm, blocking ? nullptr : &o));
        while (caller.ran == 0 && !blocking && helped) std::this_thread::yield();
        if (!blocking && !helped)
          for (int i = 0; i < 1000; ++i) expect_works(other, 2);  // moves the other one along
        if (!blocking) good(hktRequestWait(&r));
        EXPECT_EQ(caller.ran, 1);
        EXPECT_EQ(y, std::vector<int32_t>(y.size(), 2));
        expect_works(comm, 2);
        good(hktRedOpDestroy(caller.op, comm));
      }
      good(hktCommDestroy(other));
    });
    unsetenv("HOCKET_PROGRESS");
  }
}

// A child that an operation forks and that ends there, on whatever thread: nobody waits for anything.
TEST(Misuse, OfOperationsThatFork) {
  struct Forker {
    std::atomic<int> children{0};
    static void add(const void* left, const void* right, void* result, size_t count, hktDataType_t, void* context) {
      for (size_t i = 0; i < count; ++i)
        static_cast<int32_t*>(result)[i] = static_cast<const int32_t*>(left)[i] + static_cast<const int32_t*>(right)[i];
      auto& me = *static_cast<Forker*>(context);
      if (me.children != 0) return;
      const pid_t child = fork();
      if (child == 0) _exit(7);
      int status = 0;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
      ++me.children;
    }
  };
  setenv("HOCKET_PROGRESS", "thread", 1);
  with_ranks(2, [](hktComm_t comm, int) {
    Forker forker;
    hktRedOp_t op = hktSum;
    good(hktRedOpCreate(&op, &Forker::add, 1, &forker, comm));
    std::vector<int32_t> x(100'000, 1), y(x.size());
    hktRequest_t r = nullptr;
    const hktCallOptions_t o = into(r);
    good(hktAllReduce(x.data(), y.data(), x.size(), hktInt32, op, comm, &o));
    while (forker.children == 0) std::this_thread::yield();
    good(hktRequestWait(&r));
    EXPECT_EQ(y, std::vector<int32_t>(y.size(), 2));
    expect_works(comm, 2);
    good(hktRedOpDestroy(op, comm));
  });
  unsetenv("HOCKET_PROGRESS");
}

}  // namespace
}  // namespace hocket::test
