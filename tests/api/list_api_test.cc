// All-reduce of a list through the public interface: what it does, in C and in C++, and what it refuses.
#include <array>
#include <string>
#include <vector>

#include "api_ranks.h"
#include "hocket/hocket.h"
#include "hocket/hocket.hpp"

namespace hocket::test {
namespace {

// Three buffers of floats, apart from each other, that a test changes.
struct Args {
  std::array<float, 64> memory{};
  std::array<const void*, 3> in{&memory[0], &memory[8], &memory[16]};
  std::array<void*, 3> out{&memory[32], &memory[40], &memory[48]};
  std::array<size_t, 3> counts{8, 8, 8};

  hktResult_t call(hktComm_t comm, hktDataType_t type = hktFloat32, hktRedOp_t op = hktSum) {
    return hktAllReduceList(in.data(), out.data(), counts.data(), 3, type, op, comm, nullptr);
  }
};

// A refused call counts for nothing: the ranks go on together after all of these.
TEST(ListsInC, RefuseBadArguments) {
  with_ranks(2, [](hktComm_t comm, int) {
    Args a;
    const auto call = [&](const void* const* in, void* const* out, const size_t* counts) {
      return hktAllReduceList(in, out, counts, 3, hktFloat32, hktSum, comm, nullptr);
    };
    const std::string name = "hktAllReduceList";
    expect_failure(call(nullptr, a.out.data(), a.counts.data()), hktInvalidArgument, {name, "sendbufs is null"});
    expect_failure(call(a.in.data(), nullptr, a.counts.data()), hktInvalidArgument, {name, "recvbufs is null"});
    expect_failure(call(a.in.data(), a.out.data(), nullptr), hktInvalidArgument, {name, "counts is null"});
    expect_failure(a.call(nullptr), hktInvalidArgument, {name, "comm is null"});
    for (const hktDataType_t type : kNoTypes)
      expect_failure(a.call(comm, type), hktInvalidArgument, {name, "type is "});
    for (const hktRedOp_t op : kNoOps)
      expect_failure(a.call(comm, hktFloat32, op), hktInvalidArgument, {name, "op is "});
    expect_failure(a.call(comm, hktFloat32, hktBitXor), hktInvalidArgument, {name, "float"});
    expect_failure(hktAllReduceList(a.in.data(), a.out.data(), a.counts.data(), size_t{1} << 32, hktFloat32, hktSum,
                                    comm, nullptr),
                   hktInvalidArgument, {name, "nbufs is 4294967296"});

    const auto changed = [&](const std::function<void(Args&)>& change, const std::vector<std::string>& words) {
      Args b;
      change(b);
      expect_failure(b.call(comm), hktInvalidArgument, words);
    };
    changed([](Args& b) { b.in[1] = nullptr; }, {name, "sendbufs[1] is null", "counts[1] is 8"});
    changed([](Args& b) { b.out[2] = nullptr; }, {name, "recvbufs[2] is null", "counts[2] is 8"});
    changed([](Args& b) { b.counts[0] = SIZE_MAX; }, {name, "counts[0]", "overflow 63 bits"});
    changed([](Args& b) { b.counts[1] = static_cast<size_t>(INT64_MAX) / 4; }, {name, "counts[1]", "all buffers"});
    changed([](Args& b) { b.in[2] = &b.memory[49]; },
            {name, "sendbufs[2] and recvbufs[2] overlap by 28 bytes", "equal"});
    changed([](Args& b) { b.in[2] = &b.memory[33]; }, {name, "sendbufs[2] and recvbufs[0] overlap by 28 bytes"});
    changed([](Args& b) { b.in[0] = &b.memory[26]; }, {name, "sendbufs[0] and recvbufs[0] overlap by 8 bytes"});
    changed([](Args& b) { b.out[2] = &b.memory[39]; }, {name, "recvbufs[0] and recvbufs[2] overlap by 4 bytes"});
    // In place, and the buffer is another one's output as well.
    changed([](Args& b) { b.in[2] = b.out[2] = b.out[1]; }, {name, "recvbufs[1] and recvbufs[2] overlap by 32 bytes"});
    changed([](Args& b) { b.in[0] = b.out[1]; }, {name, "sendbufs[0] and recvbufs[1] overlap by 32 bytes"});
    EXPECT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
  });
}

TEST(ListsInC, InPlaceAndNotEmptyAndShared) {
  with_ranks(3, [](hktComm_t comm, int rank) {
    Args a;
    for (size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<float>(rank + static_cast<int>(i));
    a.in[0] = a.in[2];                      // inputs may share
    a.out[1] = const_cast<void*>(a.in[1]);  // in place
    ASSERT_EQ(a.call(comm), hktSuccess) << hktGetLastError();
    for (size_t i = 0; i < 8; ++i) {
      const auto f = static_cast<float>(i);
      EXPECT_EQ(a.memory[32 + i], 3 + 3 * (16 + f));
      EXPECT_EQ(a.memory[8 + i], 3 + 3 * (8 + f));
      EXPECT_EQ(a.memory[48 + i], 3 + 3 * (16 + f));
    }
    ASSERT_EQ(hktAllReduceList(nullptr, nullptr, nullptr, 0, hktFloat32, hktSum, comm, nullptr), hktSuccess);
    a.counts = {0, 0, 1};
    a.in = {nullptr, nullptr, &a.memory[0]};
    a.out = {nullptr, nullptr, &a.memory[0]};
    hktRequest_t request = nullptr;
    hktCallOptions_t options = HKT_CALL_OPTIONS_INITIALIZER;
    options.request = &request;
    ASSERT_EQ(hktAllReduceList(a.in.data(), a.out.data(), a.counts.data(), 3, hktFloat32, hktMax, comm, &options),
              hktSuccess);
    ASSERT_EQ(hktRequestWait(&request), hktSuccess) << hktGetLastError();
    EXPECT_EQ(a.memory[0], 2);
  });
}

TEST(ListsInCpp, DoTheSame) {
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&id, rank] {
      auto comm = hocket::Communicator::from_id(id, rank, 2);
      std::vector<double> a(5, rank + 1.0), b(1000, 2.0), c(5), d(1000);
      comm.all_reduce_list(std::vector<std::span<double>>{a, b}, Op::sum);
      EXPECT_EQ(a, std::vector<double>(5, 3.0));
      EXPECT_EQ(b, std::vector<double>(1000, 4.0));
      comm.all_reduce_list(std::vector<std::span<const double>>{a, b}, std::vector<std::span<double>>{c, d}, Op::avg);
      EXPECT_EQ(c, a);
      EXPECT_EQ(d, b);
      auto request = comm.start_all_reduce_list(std::vector<std::span<double>>{c, d}, Op::prod);
      request.wait();
      EXPECT_EQ(c, std::vector<double>(5, 9.0));
      const std::vector<std::span<const double>> one{a};
      const std::vector<std::span<double>> two{c, d}, other{d};
      EXPECT_THROW(comm.all_reduce_list(one, two, Op::sum), Failure);
      EXPECT_THROW(comm.all_reduce_list(one, other, Op::sum), Failure);
      comm.barrier();
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace hocket::test
