// Collectives through the public interface: what each does, in C and in C++, and what each refuses.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
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

constexpr size_t kMuch = static_cast<size_t>(INT64_MAX);
using Words = std::vector<std::string>;

// A collective of three ranks with `count` floats as each of them counts; op sum, root 1.
struct Function {
  const char* name;
  hktResult_t (*call)(const void* send, void* recv, size_t count, hktDataType_t type, hktComm_t comm);
  int sends, recvs;    // blocks of count on the root
  const char* counts;  // the name of the argument
};

const std::array kFunctions = {
    Function{"hktReduce",
             [](const void* s, void* r, size_t count, hktDataType_t type, hktComm_t comm) {
               return hktReduce(s, r, count, type, hktSum, 1, comm, nullptr);
             },
             1, 1, "count"},
    Function{"hktAllGather",
             [](const void* s, void* r, size_t count, hktDataType_t type, hktComm_t comm) {
               return hktAllGather(s, r, count, type, comm, nullptr);
             },
             1, 3, "sendcount"},
    Function{"hktReduceScatter",
             [](const void* s, void* r, size_t count, hktDataType_t type, hktComm_t comm) {
               return hktReduceScatter(s, r, count, type, hktSum, comm, nullptr);
             },
             3, 1, "recvcount"},
    Function{"hktAllToAll",
             [](const void* s, void* r, size_t count, hktDataType_t type, hktComm_t comm) {
               return hktAllToAll(s, r, count, type, comm, nullptr);
             },
             3, 3, "count"},
    Function{"hktGather",
             [](const void* s, void* r, size_t count, hktDataType_t type, hktComm_t comm) {
               return hktGather(s, r, count, type, 1, comm, nullptr);
             },
             1, 3, "sendcount"},
    Function{"hktScatter",
             [](const void* s, void* r, size_t count, hktDataType_t type, hktComm_t comm) {
               return hktScatter(s, r, count, type, 1, comm, nullptr);
             },
             3, 1, "recvcount"},
};

// A refused call counts for nothing: the ranks go on together after all of these.
TEST(NewCollectives, RefuseBadArguments) {
  with_ranks(3, [](hktComm_t comm, int rank) {
    std::array<float, 64> memory{};
    float *a = memory.data(), *b = a + 32;
    for (const Function& f : kFunctions) {
      expect_failure(f.call(a, b, 4, static_cast<hktDataType_t>(17), comm), hktInvalidArgument, {f.name, "type is 17"});
      for (const size_t count : {SIZE_MAX, kMuch / 4 + 1})
        expect_failure(f.call(a, b, count, hktFloat32, comm), hktInvalidArgument,
                       {f.name, f.counts, std::to_string(count), "float", "overflows 63 bits"});
      if (f.sends * f.recvs > 1)
        expect_failure(f.call(a, b, kMuch / 8, hktFloat32, comm), hktInvalidArgument,
                       {f.name, "for each of 3 ranks", "overflows 63 bits"});
      expect_failure(f.call(a, b, 4, hktFloat32, nullptr), hktInvalidArgument, {f.name, "comm is null"});

      if (rank != 1) continue;  // the root, and anybody where there is none
      expect_failure(f.call(nullptr, b, 4, hktFloat32, comm), hktInvalidArgument, {f.name, "sendbuf", "null"});
      expect_failure(f.call(a, nullptr, 4, hktFloat32, comm), hktInvalidArgument, {f.name, "recvbuf", "null"});
      // One element of the last block of the lower buffer is the other one's first.
      float* end = a + 4 * f.sends - 1;
      expect_failure(f.call(a, end, 4, hktFloat32, comm), hktInvalidArgument,
                     {f.name, "sendbuf and recvbuf overlap by 4 bytes", "(in place)"});
      end = a + 4 * f.recvs - 1;
      expect_failure(f.call(end, a, 4, hktFloat32, comm), hktInvalidArgument,
                     {f.name, "sendbuf and recvbuf overlap by 4 bytes", "(in place)"});
      // In place, but in the block of another rank.
      if (f.sends < f.recvs)
        expect_failure(f.call(a + 8, a, 4, hktFloat32, comm), hktInvalidArgument,
                       {f.name, "overlap by 16 bytes", "sendbuf == recvbuf + rank * sendcount"});
      if (f.sends > f.recvs)
        expect_failure(f.call(a, a + 8, 4, hktFloat32, comm), hktInvalidArgument,
                       {f.name, "overlap by 16 bytes", "recvbuf == sendbuf + rank * recvcount"});
    }
    for (const int root : {-1, 3}) {
      const Words words = {"root is " + std::to_string(root), "[0, 3)"};
      expect_failure(hktReduce(a, b, 4, hktFloat32, hktSum, root, comm, nullptr), hktInvalidArgument, words);
      expect_failure(hktGather(a, b, 4, hktFloat32, root, comm, nullptr), hktInvalidArgument, words);
      expect_failure(hktScatter(a, b, 4, hktFloat32, root, comm, nullptr), hktInvalidArgument, words);
    }
    const size_t counts[] = {1, 1, 1};
    for (const hktRedOp_t op : kNoOps) {
      const Words words = {"op is " + std::to_string(op), "hktRedOp_t"};
      expect_failure(hktReduce(a, b, 4, hktFloat32, op, 0, comm, nullptr), hktInvalidArgument, words);
      expect_failure(hktReduceScatter(a, b, 4, hktFloat32, op, comm, nullptr), hktInvalidArgument, words);
      expect_failure(hktReduceScatterV(a, b, counts, nullptr, hktFloat32, op, comm, nullptr), hktInvalidArgument,
                     words);
    }
    expect_failure(hktReduceScatter(a, b, 4, hktComplex64, hktMin, comm, nullptr), hktInvalidArgument,
                   {"hktReduceScatter", "min of complex64", "no order"});
    hktCallOptions_t options = HKT_CALL_OPTIONS_INITIALIZER;
    options.reserved = 1;
    expect_failure(hktAllToAll(a, b, 4, hktFloat32, comm, &options), hktInvalidArgument, {"hktAllToAll", "options"});
    expect_failure(hktAllGatherV(a, b, counts, nullptr, hktFloat32, comm, &options), hktInvalidArgument,
                   {"hktAllGatherV", "options"});
    EXPECT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
  });
}

TEST(NewCollectives, RefuseBadTables) {
  with_ranks(3, [](hktComm_t comm, int rank) {
    std::array<float, 64> memory{};
    float *a = memory.data(), *b = a + 32;
    const auto gather = [&](const void* s, void* r, const std::vector<size_t>& counts,
                            const std::vector<size_t>& displs) {
      return hktAllGatherV(s, r, counts.data(), displs.empty() ? nullptr : displs.data(), hktFloat32, comm, nullptr);
    };
    const auto scatter = [&](const void* s, void* r, const std::vector<size_t>& counts,
                             const std::vector<size_t>& displs) {
      return hktReduceScatterV(s, r, counts.data(), displs.empty() ? nullptr : displs.data(), hktFloat32, hktSum, comm,
                               nullptr);
    };
    expect_failure(hktAllGatherV(a, b, nullptr, nullptr, hktFloat32, comm, nullptr), hktInvalidArgument,
                   {"hktAllGatherV", "counts", "null"});
    expect_failure(hktReduceScatterV(a, b, nullptr, nullptr, hktFloat32, hktSum, comm, nullptr), hktInvalidArgument,
                   {"hktReduceScatterV", "counts", "null"});
    expect_failure(gather(a, b, {1, kMuch, 1}, {}), hktInvalidArgument,
                   {"hktAllGatherV", "counts[1] is " + std::to_string(kMuch), "overflow 63 bits"});
    expect_failure(scatter(a, b, {kMuch / 8, kMuch / 8, 8}, {}), hktInvalidArgument,
                   {"hktReduceScatterV", "counts[2] is 8", "overflow 63 bits"});
    expect_failure(gather(a, b, {1, 1, 1}, {0, 1, kMuch / 4}), hktInvalidArgument,
                   {"displs[2] is " + std::to_string(kMuch / 4), "overflows 63 bits"});
    expect_failure(gather(a, nullptr, {1, 1, 1}, {}), hktInvalidArgument, {"hktAllGatherV", "recvbuf", "null"});
    expect_failure(gather(nullptr, b, {1, 1, 1}, {}), hktInvalidArgument, {"hktAllGatherV", "sendbuf", "null"});
    expect_failure(scatter(nullptr, b, {1, 1, 1}, {}), hktInvalidArgument, {"hktReduceScatterV", "sendbuf", "null"});
    expect_failure(scatter(a, nullptr, {1, 1, 1}, {}), hktInvalidArgument, {"hktReduceScatterV", "recvbuf", "null"});
    expect_failure(gather(a, b, {4, 4, 4}, {0, 8, 6}), hktInvalidArgument,
                   {"hktAllGatherV", "blocks of ranks 1 and 2 in recvbuf overlap by 8 bytes"});
    const size_t me = static_cast<size_t>(rank);
    expect_failure(gather(b + 4 * me + 1, b, {4, 4, 4}, {}), hktInvalidArgument,
                   {"sendbuf and the block of rank " + std::to_string(rank), "overlap by 12 bytes",
                    "sendbuf == recvbuf + displs[rank]"});
    expect_failure(scatter(a, a + (4 * me + 4) % 12, {4, 4, 4}, {}), hktInvalidArgument,
                   {"recvbuf and the block of rank " + std::to_string((rank + 1) % 3), "overlap by 16 bytes",
                    "recvbuf == sendbuf + displs[rank]"});
    // Blocks that are read only may overlap, but not where the result goes.
    expect_failure(scatter(a, a, {4, 4, 4}, {0, 0, 0}), hktInvalidArgument, {"hktReduceScatterV", "overlap"});
    std::iota(a, a + 6, 1.0f);
    EXPECT_EQ(scatter(a, b, {4, 4, 4}, {0, 1, 2}), hktSuccess) << hktGetLastError();
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(b[i], 3.0f * static_cast<float>(1 + me + i));
    // In a gap between the blocks, though.
    const std::vector<size_t> counts = {2, 0, 3}, displs = {8, 0, 3};
    for (size_t i = 0; i < counts[me]; ++i) a[6 + i] = static_cast<float>(10 * rank + 1) + static_cast<float>(i);
    a[0] = -1;
    const float* own = counts[me] == 3 ? a : a + 6;
    if (rank == 2) std::iota(a, a + 3, 21.0f);
    EXPECT_EQ(gather(own, a, counts, displs), hktSuccess) << hktGetLastError();
    EXPECT_EQ((std::vector<float>(a + 3, a + 6)), (std::vector<float>{21, 22, 23}));
    EXPECT_EQ((std::vector<float>(a + 8, a + 10)), (std::vector<float>{1, 2}));
    // Nothing at all.
    EXPECT_EQ(gather(nullptr, nullptr, {0, 0, 0}, {}), hktSuccess) << hktGetLastError();
    EXPECT_EQ(scatter(nullptr, nullptr, {0, 0, 0}, {7, 7, 7}), hktSuccess) << hktGetLastError();
  });
}

TEST(NewCollectives, TakeNothingFromNullBuffers) {
  with_ranks(3, [](hktComm_t comm, int) {
    for (const Function& f : kFunctions)
      EXPECT_EQ(f.call(nullptr, nullptr, 0, hktComplex128, comm), hktSuccess) << f.name << ": " << hktGetLastError();
  });
}

TEST(NewCollectives, LeaveAloneWhatIsTheRoots) {
  with_ranks(3, [](hktComm_t comm, int rank) {
    for (int root = 0; root < 3; ++root) {
      const bool is_root = rank == root;
      const std::vector<int32_t> mine = {rank, 10 * rank}, all = {0, 0, 1, 10, 2, 20};
      std::vector<int32_t> out(6, -1);
      EXPECT_EQ(hktReduce(mine.data(), is_root ? out.data() : nullptr, 2, hktInt32, hktSum, root, comm, nullptr),
                hktSuccess)
          << hktGetLastError();
      EXPECT_EQ(out, (is_root ? std::vector<int32_t>{3, 30, -1, -1, -1, -1} : std::vector<int32_t>(6, -1)));
      // The same pointer elsewhere than on the root is no overlap.
      void* same = const_cast<int32_t*>(mine.data());
      EXPECT_EQ(hktGather(mine.data(), is_root ? out.data() : same, 2, hktInt32, root, comm, nullptr), hktSuccess)
          << hktGetLastError();
      EXPECT_EQ(mine, (std::vector<int32_t>{rank, 10 * rank}));
      if (is_root) {
        EXPECT_EQ(out, all);
      }
      std::vector<int32_t> part(2, -1);
      EXPECT_EQ(hktScatter(is_root ? all.data() : nullptr, part.data(), 2, hktInt32, root, comm, nullptr), hktSuccess)
          << hktGetLastError();
      EXPECT_EQ(part, mine);
    }
  });
}

void subtract(const void* left, const void* right, void* result, size_t count, hktDataType_t, void* context) {
  ++*static_cast<int*>(context);
  for (size_t i = 0; i < count; ++i)
    static_cast<int32_t*>(result)[i] = static_cast<const int32_t*>(left)[i] - static_cast<const int32_t*>(right)[i];
}

// Not associative either, but two ranks have one bracket.
TEST(Operations, AreMadeAndDestroyed) {
  with_ranks(2, [](hktComm_t comm, int rank) {
    const float half = 0.5f;
    int calls = 0;
    hktRedOp_t scaled = hktSum, minus = hktSum;
    expect_failure(hktRedOpCreatePreMulSum(nullptr, &half, hktFloat32, comm), hktInvalidArgument,
                   {"hktRedOpCreatePreMulSum", "op", "null"});
    expect_failure(hktRedOpCreatePreMulSum(&scaled, nullptr, hktFloat32, comm), hktInvalidArgument, {"scalar", "null"});
    expect_failure(hktRedOpCreatePreMulSum(&scaled, &half, static_cast<hktDataType_t>(17), comm), hktInvalidArgument,
                   {"type is 17"});
    expect_failure(hktRedOpCreatePreMulSum(&scaled, &half, hktFloat32, nullptr), hktInvalidArgument, {"comm is null"});
    expect_failure(hktRedOpCreate(nullptr, subtract, 0, &calls, comm), hktInvalidArgument,
                   {"hktRedOpCreate", "op", "null"});
    expect_failure(hktRedOpCreate(&minus, nullptr, 0, &calls, comm), hktInvalidArgument,
                   {"hktRedOpCreate", "fn", "null"});
    ASSERT_EQ(hktRedOpCreatePreMulSum(&scaled, &half, hktFloat32, comm), hktSuccess) << hktGetLastError();
    ASSERT_EQ(hktRedOpCreate(&minus, subtract, 0, &calls, comm), hktSuccess) << hktGetLastError();
    EXPECT_GE(scaled, 64);
    EXPECT_GE(minus, 64);
    EXPECT_NE(scaled, minus);

    std::vector<float> x(3000, static_cast<float>(rank + 1));
    EXPECT_EQ(hktAllReduce(x.data(), x.data(), x.size(), hktFloat32, scaled, comm, nullptr), hktSuccess)
        << hktGetLastError();
    EXPECT_EQ(x, std::vector<float>(3000, 1.5f));
    const std::vector<int32_t> in(5000, 10 * rank + 3);
    std::vector<int32_t> out(5000);
    EXPECT_EQ(hktAllReduce(in.data(), out.data(), in.size(), hktInt32, minus, comm, nullptr), hktSuccess)
        << hktGetLastError();
    EXPECT_EQ(out, std::vector<int32_t>(5000, -10)) << "rank 0 minus rank 1";
    EXPECT_GT(calls, 0);

    expect_failure(hktAllReduce(in.data(), out.data(), 4, hktInt32, scaled, comm, nullptr), hktInvalidArgument,
                   {"pre-multiplied sum 0", "made for float", "int32"});
    expect_failure(hktAllReduce(in.data(), out.data(), 4, hktInt32, static_cast<hktRedOp_t>(1000), comm, nullptr),
                   hktInvalidArgument, {"op is 1000", "not made on this communicator"});
    expect_failure(hktRedOpDestroy(hktMax, comm), hktInvalidArgument, {"hktRedOpDestroy", "max", "built in"});
    expect_failure(hktRedOpDestroy(static_cast<hktRedOp_t>(1000), comm), hktInvalidArgument,
                   {"hktRedOpDestroy", "1000"});
    EXPECT_EQ(hktRedOpDestroy(scaled, comm), hktSuccess) << hktGetLastError();
    expect_failure(hktRedOpDestroy(scaled, comm), hktInvalidArgument, {"hktRedOpDestroy", "has been destroyed"});
    expect_failure(hktReduceScatter(x.data(), x.data() + 2000, 4, hktFloat32, scaled, comm, nullptr),
                   hktInvalidArgument, {"op is " + std::to_string(scaled), "has been destroyed"});
    hktRedOp_t next = hktSum;
    ASSERT_EQ(hktRedOpCreatePreMulSum(&next, &half, hktFloat32, comm), hktSuccess);
    EXPECT_NE(next, scaled) << "a handle was given out twice";
    EXPECT_EQ(hktBarrier(comm, nullptr), hktSuccess) << hktGetLastError();
  });
}

TEST(Operations, StayWhileACallRuns) {
  std::atomic<bool> waits{false}, refused{false};
  with_ranks(2, [&](hktComm_t comm, int rank) {
    int calls = 0;
    hktRedOp_t minus = hktSum;
    ASSERT_EQ(hktRedOpCreate(&minus, subtract, 1, &calls, comm), hktSuccess) << hktGetLastError();
    std::thread other;
    if (rank == 0) {
      other = std::thread([&] {
        while (!waits) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        expect_failure(hktRedOpDestroy(minus, comm), hktInvalidUsage, {"hktRedOpDestroy", "operation 0", "is running"});
        refused = true;
      });
      waits = true;
    } else {
      while (!refused) std::this_thread::yield();
    }
    int32_t x = rank;
    EXPECT_EQ(hktAllReduce(&x, &x, 1, hktInt32, minus, comm, nullptr), hktSuccess) << hktGetLastError();
    EXPECT_EQ(x, -1);
    if (other.joinable()) other.join();
    EXPECT_EQ(hktRedOpDestroy(minus, comm), hktSuccess) << hktGetLastError();
  });
}

TEST(Cpp, Collectives) {
  hktUniqueId id;
  ASSERT_EQ(hktGetUniqueId(&id), hktSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      auto comm = Communicator::from_id(id, rank, 3);
      const std::vector<double> in(2, rank + 1), six = {1, 2, 3, 4, 5, 6};
      std::vector<double> two(2, -1), out(6, -1);
      comm.reduce(std::span(in), rank == 2 ? std::span(two) : std::span<double>{}, Op::sum, 2);
      EXPECT_EQ(two, std::vector<double>(2, rank == 2 ? 6 : -1));
      comm.reduce(std::span(two), Op::max, 0);
      EXPECT_EQ(two[0], rank == 0 || rank == 2 ? 6 : -1);

      const std::vector<double> gathered = {1, 1, 2, 2, 3, 3};
      comm.all_gather(std::span(in), std::span(out));
      EXPECT_EQ(out, gathered);
      std::fill(out.begin(), out.end(), -1);
      std::copy(in.begin(), in.end(), out.begin() + 2 * rank);
      comm.all_gather(std::span(out));
      EXPECT_EQ(out, gathered);

      comm.reduce_scatter(std::span(six), std::span(two), Op::sum);
      EXPECT_EQ(two, (std::vector<double>{3 * six[2 * rank], 3 * six[2 * rank + 1]}));
      out = six;
      const std::span<double> own = comm.reduce_scatter(std::span(out), Op::sum);
      EXPECT_EQ(own.data(), out.data() + 2 * rank);
      EXPECT_EQ(std::vector<double>(own.begin(), own.end()), two);

      std::vector<double> mine(6);
      for (int r = 0; r < 6; ++r) mine[r] = 10 * rank + r;
      comm.all_to_all(std::span<const double>(mine), std::span(out));
      const double first = 2 * rank;
      const std::vector<double> swapped = {first, first + 1, first + 10, first + 11, first + 20, first + 21};
      EXPECT_EQ(out, swapped);
      comm.all_to_all(std::span(mine));
      EXPECT_EQ(mine, swapped);

      comm.gather(std::span(in), rank == 1 ? std::span(out) : std::span<double>{}, 1);
      if (rank == 1) {
        EXPECT_EQ(out, gathered);
      }
      comm.scatter(rank == 1 ? std::span(six) : std::span<const double>{}, std::span(two), 1);
      EXPECT_EQ(two, (std::vector<double>{six[2 * rank], six[2 * rank + 1]}));

      const std::vector<size_t> counts = {1, 0, 2}, displs = {3, 0, 0};
      const std::vector<double> part(counts[rank], rank + 1);
      out.assign(4, -1);
      comm.all_gather_v(std::span(part), std::span(out), counts, displs);
      EXPECT_EQ(out, (std::vector<double>{3, 3, -1, 1}));
      std::vector<double> result(counts[rank]);
      comm.reduce_scatter_v(std::span(six).first(3), std::span(result), Op::sum, counts);
      EXPECT_EQ(result, (std::vector<std::vector<double>>{{3}, {}, {6, 9}}[rank]));

      const auto refused = [&](const std::function<void()>& call, const char* words) {
        try {
          call();
          ADD_FAILURE() << "not refused: " << words;
        } catch (const Failure& f) {
          EXPECT_EQ(f.code(), hktInvalidArgument);
          EXPECT_NE(std::string(f.what()).find(words), std::string::npos) << f.what();
        }
      };
      const Op scaled = comm.pre_mul_sum(2.0);
      two.assign(2, 1);
      comm.all_reduce(std::span(two), scaled);
      EXPECT_EQ(two, (std::vector<double>(2, 6)));
      comm.destroy(scaled);
      const Op leftmost =
          comm.make_op([](const void* left, const void*, void* to, size_t count, hktDataType_t,
                          void*) { std::copy_n(static_cast<const double*>(left), count, static_cast<double*>(to)); },
                       Commutes::no);
      two.assign(2, rank + 5);
      comm.all_reduce(std::span(two), leftmost);
      EXPECT_EQ(two, (std::vector<double>(2, 5)));

      refused([&] { comm.all_gather(std::span(in), std::span(two)); }, "out has 2 elements; there must be 6");
      refused([&] { comm.all_to_all(std::span(two)); }, "2 elements are no equal blocks for 3 ranks");
      refused([&] { comm.all_gather_v(std::span(part), std::span(two), counts, displs); },
              "block of rank 0 reaches past the buffer's 2 elements");
      refused([&] { comm.all_gather_v(std::span(six), std::span(out), counts); }, "in has 6 elements");
      comm.barrier();
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace hocket::test
