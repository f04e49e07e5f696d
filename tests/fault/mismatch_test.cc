// Ranks that call different collectives: every rank gets an error that names both calls, from that call or, if it had
// already returned, from its next one, within seconds; never a hang, never a wrong result.
#include <string>

#include "base/deadline.h"
#include "comm/fused.h"
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

Status all_reduce(Communicator& c, uint64_t count, hktDataType_t type, hktRedOp_t op) {
  std::vector<float> data = buffer();
  return c.all_reduce(data.data(), data.data(), count, type, op);
}

Status cast(Communicator& c, uint64_t count, hktDataType_t type, int root) {
  std::vector<float> data = buffer();
  return c.broadcast(data.data(), data.data(), count, type, root);
}

// A call of `count` floats (or what `type` says) with root 0, unless told otherwise.
struct Asked {
  Collective collective;
  uint64_t count = 100;
  hktDataType_t type = hktFloat32;
  hktRedOp_t op = hktSum;
  int root = 0;
};

std::function<Status(Communicator&)> call(const Asked& a) {
  return [a](Communicator& c) -> Status {
    std::vector<float> in = buffer(), out = buffer();
    const Data data{in.data(), out.data(), a.count, a.type};
    switch (a.collective) {
      case Collective::reduce:
        return c.reduce(data, a.op, a.root);
      case Collective::all_gather:
        return c.all_gather(data);
      case Collective::reduce_scatter:
        return c.reduce_scatter(data, a.op);
      case Collective::all_to_all:
        return c.all_to_all(data);
      case Collective::gather:
        return c.gather(data, a.root);
      case Collective::scatter:
        return c.scatter(data, a.root);
      default:
        return error(hktInternalError, "not in this matrix");
    }
  };
}

// 100 elements for each rank but the first, which has `first`.
std::function<Status(Communicator&)> by_table(Collective collective, size_t first, size_t gap = 0) {
  return [=](Communicator& c) {
    std::vector<float> in = buffer(), out = buffer();
    std::vector<size_t> counts(static_cast<size_t>(c.size()), 100), displs;
    counts[0] = first;
    for (size_t r = 0; r < counts.size(); ++r) displs.push_back(r == 0 ? 0 : displs[r - 1] + counts[r - 1] + gap);
    const BlockData data{in.data(), out.data(), counts.data(), displs.data(), hktFloat32};
    return collective == Collective::all_gather ? c.all_gather_v(data) : c.reduce_scatter_v(data, hktSum);
  };
}

std::function<Status(Communicator&)> list(const std::vector<size_t>& counts, hktRedOp_t op = hktSum) {
  return [=](Communicator& c) {
    std::vector<float> data = buffer();
    std::vector<void*> bufs;
    for (size_t b = 0, at = 0; b < counts.size(); at += counts[b++] + 1) bufs.push_back(&data[at]);
    return all_reduce_list(c, {bufs.data(), bufs.data(), counts.data(), counts.size(), hktFloat32}, op);
  };
}

std::vector<Mismatch> matrix() {
  const auto sum = [](Communicator& c) { return all_reduce(c, 100, hktFloat32, hktSum); };
  const auto from0 = [](Communicator& c) { return cast(c, 100, hktFloat32, 0); };
  return {
      {"collective", [](Communicator& c) { return c.barrier(); }, sum, "barrier()",
       "all_reduce(count 100, float, sum)"},
      {"collective2", from0, sum, "broadcast(count 100, float, root 0)", "all_reduce(count 100, float, sum)"},
      {"barrier", from0, [](Communicator& c) { return c.barrier(); }, "broadcast(count 100, float, root 0)",
       "barrier()"},
      {"count", [](Communicator& c) { return all_reduce(c, 101, hktFloat32, hktSum); }, sum, "count 101", "count 100"},
      {"large_count", [](Communicator& c) { return all_reduce(c, 4096, hktFloat32, hktSum); }, sum, "count 4096",
       "count 100"},
      {"empty", [](Communicator& c) { return all_reduce(c, 0, hktFloat32, hktSum); }, sum, "count 0", "count 100"},
      {"type", [](Communicator& c) { return all_reduce(c, 100, hktInt32, hktSum); }, sum, "int32", "float"},
      {"op", [](Communicator& c) { return all_reduce(c, 100, hktFloat32, hktMax); }, sum, "max", "sum"},
      {"root", [](Communicator& c) { return cast(c, 100, hktFloat32, 1); }, from0, "root 1", "root 0"},
      {"broadcast_count", [](Communicator& c) { return cast(c, 99, hktFloat32, 0); }, from0, "count 99", "count 100"},

      {"reduce_or_all", call({Collective::reduce}), sum, "reduce(count 100, float, sum, root 0)",
       "all_reduce(count 100, float, sum)"},
      {"reduce_root", call({Collective::reduce, 100, hktFloat32, hktSum, 1}), call({Collective::reduce}), "root 1",
       "root 0"},
      {"reduce_op", call({Collective::reduce, 100, hktFloat32, hktMin}), call({Collective::reduce}), "min", "sum"},
      {"gathers", call({Collective::gather}), call({Collective::all_gather}), "gather(count 100, float, root 0)",
       "all_gather(count 100, float)"},
      {"all_gather_count", call({Collective::all_gather, 101}), call({Collective::all_gather}), "count 101",
       "count 100"},
      {"scatter_op", call({Collective::reduce_scatter, 100, hktFloat32, hktMax}), call({Collective::reduce_scatter}),
       "reduce_scatter(count 100, float, max)", "reduce_scatter(count 100, float, sum)"},
      {"to_all_type", call({Collective::all_to_all, 100, hktInt32}), call({Collective::all_to_all}),
       "all_to_all(count 100, int32)", "all_to_all(count 100, float)"},
      {"to_all_empty", call({Collective::all_to_all, 0}), call({Collective::all_to_all}), "count 0", "count 100"},
      {"gather_root", call({Collective::gather, 100, hktFloat32, hktSum, 1}), call({Collective::gather}), "root 1",
       "root 0"},
      {"gather_count", call({Collective::gather, 99}), call({Collective::gather}), "count 99", "count 100"},
      {"scatter_root", call({Collective::scatter, 100, hktFloat32, hktSum, 1}), call({Collective::scatter}), "root 1",
       "root 0"},
      {"scatter_type", call({Collective::scatter, 100, hktUint32}), call({Collective::scatter}),
       "scatter(count 100, uint32, root 0)", "scatter(count 100, float, root 0)"},
      {"table", by_table(Collective::all_gather, 99), by_table(Collective::all_gather, 100), "all_gather_v(count ",
       " in all, float, table "},
      {"scatter_table", by_table(Collective::reduce_scatter, 0), by_table(Collective::reduce_scatter, 100),
       "reduce_scatter_v(count ", " in all, float, table "},
      {"displacements", by_table(Collective::all_gather, 100, 1), by_table(Collective::all_gather, 100),
       "all_gather_v(count ", " in all, float, table "},
      {"table_or_not", by_table(Collective::all_gather, 100), call({Collective::all_gather}), "all_gather_v(count ",
       "all_gather(count 100, float)"},
      {"lists", list({10, 20, 70}), list({10, 21, 69}), "all_reduce_list(3 buffers, count 100, float, table ",
       "all_reduce_list(3 buffers, count 100, float, table "},
      {"shorter_list", list({100}), list({100, 0}), "1 buffers", "2 buffers"},
      {"list_order", list({10, 20}), list({20, 10}), "table ", "2 buffers, count 30"},
      {"list_op", list({10, 20}, hktMax), list({10, 20}), "max", "sum"},
      {"empty_list", list({}), list({10, 20}), "0 buffers, count 0", "2 buffers, count 30"},
      {"list_or_one", list({100}), sum, "all_reduce_list(1 buffers, count 100, float, table ",
       "all_reduce(count 100, float, sum)"},
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
  const std::vector<Mismatch> all = matrix();
  for (size_t i = 0; i < all.size(); ++i) {
    const Mismatch& m = all[i];
    const int odd = (i + static_cast<size_t>(n)) % 2 == 0 ? 0 : n - 1;  // both, over the numbers of ranks
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
      EXPECT_NE(text.find(m.odd_text), std::string::npos) << m.name << " rank " << rank << " of " << n << ": " << text;
      EXPECT_NE(text.find(m.others_text), std::string::npos)
          << m.name << " rank " << rank << " of " << n << ": " << text;
      EXPECT_NE(text.find("rank " + std::to_string(odd) + " called"), std::string::npos) << m.name << ": " << text;
    }
    if (HasFailure()) return;
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
