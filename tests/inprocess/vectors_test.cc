// The collectives that are made of messages, against what each rank knows the others have: uneven and zero counts,
// gaps, in place, and ranks that disagree.
#include <atomic>
#include <functional>
#include <random>

#include "inprocess/calls.h"

namespace hocket::test {
namespace {

class Vectors : public Places {};

constexpr float kGap = -1;

// What rank `from` has for rank `to`; `seed` makes uneven tables, with zeros.
uint64_t count_of(int from, int to, uint32_t seed) {
  std::mt19937 random(seed * 1009 + static_cast<uint32_t>(from * 31 + to));
  const uint64_t most[] = {0, 1, 3, 50, 700, 30'000};
  return most[random() % (seed % 4 == 3 ? 6 : 5)] * (1 + random() % 2);
}
float value(int from, int to, uint64_t i) {
  return static_cast<float>(from * 1000 + to * 100) + static_cast<float>(i % 97);
}

// Counts of one side, and places: packed, or backwards with gaps.
struct TestTable {
  std::vector<uint64_t> counts, displs;
  uint64_t total = 0;
  bool packed;

  TestTable(int n, bool is_packed, const std::function<uint64_t(int)>& count) : packed(is_packed) {
    for (int r = 0; r < n; ++r) counts.push_back(count(r));
    displs.resize(counts.size());
    for (size_t k = 0; k < counts.size(); ++k) {
      const size_t r = packed ? k : counts.size() - 1 - k;
      displs[r] = total;
      total += counts[r] + (packed ? 0 : 3);
    }
  }
  BlockTable blocks() const { return {counts.data(), packed ? nullptr : displs.data()}; }
  std::vector<float> filled(const std::function<float(int, uint64_t)>& v) const {
    std::vector<float> buf(total + 1, kGap);
    for (size_t r = 0; r < counts.size(); ++r)
      for (uint64_t i = 0; i < counts[r]; ++i) buf[displs[r] + i] = v(static_cast<int>(r), i);
    return buf;
  }
};

TEST_P(Vectors, AllToAllV) {
  for (const int n : {1, 2, 3, 5}) {
    run_world(world(n), [n](Communicator& comm, int me) {
      for (uint32_t seed = 0; seed < 8; ++seed) {
        const TestTable send(n, seed % 2 == 0, [&](int r) { return count_of(me, r, seed); });
        const TestTable receive(n, seed % 3 == 0, [&](int r) { return count_of(r, me, seed); });
        const auto in = send.filled([&](int r, uint64_t i) { return value(me, r, i); });
        std::vector<float> out(receive.total + 1, kGap);
        hktRequest_t r = nullptr;
        good(all_to_all_v(comm, {in.data(), send.blocks()}, {out.data(), receive.blocks()}, hktFloat32,
                          seed % 2 == 0 ? CallOptions{} : into(r)));
        if (r != nullptr) good(wait(r));
        ASSERT_EQ(out, receive.filled([&](int from, uint64_t i) { return value(from, me, i); })) << "seed " << seed;
      }
    });
  }
}

TEST_P(Vectors, GatherVAndScatterV) {
  for (const int n : {1, 2, 4}) {
    run_world(world(n), [n](Communicator& comm, int me) {
      for (uint32_t seed = 0; seed < 8; ++seed) {
        const int root = static_cast<int>(seed) % n;
        const bool in_place = seed % 3 == 1;
        const TestTable all(n, seed % 2 == 0, [&](int r) { return count_of(r, root, seed); });
        const auto own = static_cast<size_t>(me);
        std::vector<float> mine(all.counts[own]);
        for (uint64_t i = 0; i < mine.size(); ++i) mine[i] = value(me, root, i);
        const auto expected = all.filled([&](int r, uint64_t i) { return value(r, root, i); });
        std::vector<float> out(all.total + 1, kGap);
        float* from = mine.data();
        if (in_place && me == root) {
          from = out.data() + all.displs[own];
          std::copy(mine.begin(), mine.end(), from);
        }
        good(gather_v(comm, {from, nullptr, mine.size()}, {out.data(), all.blocks()}, {root, hktFloat32}, {}));
        if (me == root) {
          ASSERT_EQ(out, expected) << "seed " << seed;
        }

        std::vector<float> back(all.counts[own], kGap), table = expected;
        float* to = in_place && me == root ? table.data() + all.displs[own] : back.data();
        good(scatter_v(comm, {table.data(), all.blocks()}, {nullptr, to, back.size()}, {root, hktFloat32}, {}));
        for (uint64_t i = 0; i < back.size(); ++i) ASSERT_EQ(to[i], value(me, root, i)) << "seed " << seed;
      }
    });
  }
}

// Issued on all ranks with other calls around them, in groups too.
TEST_P(Vectors, AmongOtherCalls) {
  run_world(world(3), [](Communicator& comm, int me) {
    for (uint32_t seed = 0; seed < 6; ++seed) {
      const TestTable send(3, true, [&](int r) { return count_of(me, r, seed); });
      const TestTable receive(3, true, [&](int r) { return count_of(r, me, seed); });
      const auto in = send.filled([&](int r, uint64_t i) { return value(me, r, i); });
      std::vector<float> a(receive.total + 1, kGap), b = a;
      auto out = message(me, 5, 100'000);
      std::vector<unsigned char> got(100'000);
      hktRequest_t r[4] = {};
      const VectorSend from{in.data(), send.blocks()};
      good(comm.transfer(recv_from((me + 2) % 3, 5, got), into(r[0])));
      good(all_to_all_v(comm, from, {a.data(), receive.blocks()}, hktFloat32, into(r[1])));
      int32_t x = 1;
      good(comm.all_reduce(&x, &x, 1, hktInt32, hktSum, into(r[2])));
      good(comm.transfer(send_to((me + 1) % 3, 5, out), into(r[3])));
      group_start();
      good(all_to_all_v(comm, from, {b.data(), receive.blocks()}, hktFloat32, {}));
      good(comm.barrier());
      good(group_end(nullptr));
      for (hktRequest_t one : r) good(wait(one));
      const auto expected = receive.filled([&](int f, uint64_t i) { return value(f, me, i); });
      ASSERT_EQ(a, expected);
      ASSERT_EQ(b, expected);
      ASSERT_EQ(x, 3);
      expect_message(got, (me + 2) % 3, 5);
      if (HasFatalFailure()) return;
    }
  });
}

// Rank 1 has `wrong` elements for rank 0, which expects 10: every rank hears of both.
TEST_P(Vectors, CountsThatDoNotMatchAreAnErrorOnAllRanks) {
  for (const uint64_t wrong : {9ull, 11ull, 0ull, 100'000ull}) {
    run_world(world(3), [wrong](Communicator& comm, int me) {
      good(comm.barrier());  // over TCP, a fault reaches those that are connected
      const TestTable send(3, true, [&](int r) { return me == 1 && r == 0 ? wrong : 10; });
      const TestTable receive(3, true, [](int) { return 10; });
      std::vector<float> in(send.total + 1), out(receive.total + 1);
      const int64_t start = now_ns();
      Status s = all_to_all_v(comm, {in.data(), send.blocks()}, {out.data(), receive.blocks()}, hktFloat32, {});
      if (s.ok()) s = comm.barrier();  // a rank that was done already hears of it in its next call
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, hktMismatch) << s.error().text;
      for (const std::string& part :
           {std::string("rank 1 sends ") + std::to_string(wrong), std::string("rank 0"), std::string("expects 10")})
        EXPECT_NE(s.error().text.find(part), std::string::npos) << s.error().text;
      EXPECT_LT(now_ns() - start, 5'000'000'000);
    });
  }
}

TEST_P(Vectors, OtherCallsDoNotMatch) {
  run_world(world(3), [](Communicator& comm, int me) {
    good(comm.barrier());  // over TCP, a fault reaches those that are connected
    const TestTable table(3, true, [](int) { return 10; });
    std::vector<float> in(31), out(31);
    const VectorSend from{in.data(), table.blocks()};
    const Status s = me == 2 ? comm.barrier() : all_to_all_v(comm, from, {out.data(), table.blocks()}, hktFloat32, {});
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktMismatch) << s.error().text;
    EXPECT_NE(s.error().text.find("all_to_all_v(float)"), std::string::npos) << s.error().text;
  });
}

TEST_P(Vectors, AMissingRankIsNamed) {
  std::atomic<int> over{0};
  run_world(world(3), [&](Communicator& comm, int me) {
    good(comm.barrier());
    if (me == 2) {
      while (over != 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    const TestTable table(3, true, [](int) { return 10; });
    std::vector<float> in(31), out(31);
    CallOptions o;
    o.timeout_ms = 200;
    const Status s = all_to_all_v(comm, {in.data(), table.blocks()}, {out.data(), table.blocks()}, hktFloat32, o);
    ++over;
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktTimeout) << s.error().text;
    EXPECT_NE(s.error().text.find("rank 2"), std::string::npos) << s.error().text;
  });
}

INSTANTIATE_TEST_SUITE_P(All, Vectors, testing::ValuesIn(kPlaces), place_name);

}  // namespace
}  // namespace hocket::test
