// Ranks that call different collectives: every rank gets an error that names both calls, from that call or, if it had
// already returned, from its next one, within seconds; never a hang, never a wrong result.
#include <string>

#include "base/deadline.h"
#include "inprocess/world.h"

namespace hocket::test {
namespace {

struct Mismatch {
  const char* name;
  // What the odd rank calls and what the others call.
  std::function<Status(Communicator&)> odd, others;
  const char *odd_text, *others_text;  // how the error names them
};

std::vector<float> buffer() { return std::vector<float>(4096, 1.0f); }

Status reduce(Communicator& c, uint64_t count, hktDataType_t type, hktRedOp_t op) {
  std::vector<float> data = buffer();
  return c.all_reduce(data.data(), data.data(), count, type, op);
}

Status cast(Communicator& c, uint64_t count, hktDataType_t type, int root) {
  std::vector<float> data = buffer();
  return c.broadcast(data.data(), data.data(), count, type, root);
}

std::vector<Mismatch> matrix() {
  const auto sum = [](Communicator& c) { return reduce(c, 100, hktFloat32, hktSum); };
  const auto from0 = [](Communicator& c) { return cast(c, 100, hktFloat32, 0); };
  return {
      {"collective", [](Communicator& c) { return c.barrier(); }, sum, "barrier()",
       "all_reduce(count 100, float, sum)"},
      {"collective2", from0, sum, "broadcast(count 100, float, root 0)", "all_reduce(count 100, float, sum)"},
      {"barrier", from0, [](Communicator& c) { return c.barrier(); }, "broadcast(count 100, float, root 0)",
       "barrier()"},
      {"count", [](Communicator& c) { return reduce(c, 101, hktFloat32, hktSum); }, sum, "count 101", "count 100"},
      {"large_count", [](Communicator& c) { return reduce(c, 4096, hktFloat32, hktSum); }, sum, "count 4096",
       "count 100"},
      {"empty", [](Communicator& c) { return reduce(c, 0, hktFloat32, hktSum); }, sum, "count 0", "count 100"},
      {"type", [](Communicator& c) { return reduce(c, 100, hktInt32, hktSum); }, sum, "int32", "float"},
      {"op", [](Communicator& c) { return reduce(c, 100, hktFloat32, hktMax); }, sum, "max", "sum"},
      {"root", [](Communicator& c) { return cast(c, 100, hktFloat32, 1); }, from0, "root 1", "root 0"},
      {"broadcast_count", [](Communicator& c) { return cast(c, 99, hktFloat32, 0); }, from0, "count 99", "count 100"},
  };
}

struct Case {
  int n;
  const char* transport;
};

class MismatchTest : public testing::TestWithParam<Case> {};

TEST_P(MismatchTest, EveryRankHearsOfBothCalls) {
  const int n = GetParam().n;
  const char* transport = GetParam().transport;
  for (const Mismatch& m : matrix()) {
    for (const int odd : {0, n - 1}) {
      WorldSpec spec;
      spec.n = n;
      spec.transport = transport;
      spec.timeout_ms = 15'000;
      std::vector<std::string> texts(static_cast<size_t>(n));
      run_world(spec, [&](Communicator& comm, int rank) {
        Status s = comm.barrier();  // all are there
        ASSERT_TRUE(s.ok()) << s.error().text;
        const int64_t start = now_ns();
        s = rank == odd ? m.odd(comm) : m.others(comm);
        // A rank that had nothing to wait for learns it from its next call, its async error or at the latest by
        // waiting.
        while (s.ok() && now_ns() - start < 5'000'000'000) {
          if (comm.async_error() != hktSuccess) s = comm.barrier();
          timespec nap{0, 1'000'000};
          nanosleep(&nap, nullptr);
        }
        const double seconds = static_cast<double>(now_ns() - start) / 1e9;
        ASSERT_FALSE(s.ok()) << m.name << ": rank " << rank << " of " << n << " saw no error";
        EXPECT_EQ(s.error().code, hktMismatch) << m.name << ": rank " << rank << ": " << s.error().text;
        EXPECT_LT(seconds, 5.0) << m.name;
        texts[static_cast<size_t>(rank)] = s.error().text;
      });
      for (int rank = 0; rank < n; ++rank) {
        const std::string& text = texts[static_cast<size_t>(rank)];
        EXPECT_NE(text.find(m.odd_text), std::string::npos)
            << m.name << " rank " << rank << " of " << n << ": " << text;
        EXPECT_NE(text.find(m.others_text), std::string::npos)
            << m.name << " rank " << rank << " of " << n << ": " << text;
        EXPECT_NE(text.find("rank " + std::to_string(odd) + " called"), std::string::npos) << m.name << ": " << text;
      }
      if (HasFailure()) return;
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* t : {"shm", "tcp"})
    for (const int n : {2, 3, 4, 5}) all.push_back({n, t});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Matrix, MismatchTest, testing::ValuesIn(cases()),
                         [](const auto& c) { return std::string(c.param.transport) + std::to_string(c.param.n); });

}  // namespace
}  // namespace hocket::test
