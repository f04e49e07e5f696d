// Operations that a program makes, on every planner that folds, against a scalar reference.
#include <array>

#include "algorithms/catalog.h"
#include "base/types.h"
#include "conformance/call_check.h"
#include "inprocess/world.h"

namespace hocket::test {
namespace {

constexpr std::array kAlgos = {"",
                               "ring,chain",
                               "recursive_doubling,binomial,direct",
                               "one_shot,flat",
                               "two_shot",
                               "double_tree",
                               "circulant",
                               "nhr,halving_doubling",
                               "gather_reduce"};

// The planner that a name in HOCKET_ALGO asks for, for an operation in the order of ranks.
bool folds_in_rank_order(const Communicator& comm, Collective collective, const std::string& algo) {
  for (const CatalogEntry& e : catalog())
    if (e.collective == collective && ("," + algo + ",").find("," + std::string(e.name) + ",") != std::string::npos)
      return e.folds_in_rank_order;
  return comm.size() > 0;  // the static choice
}

void check_kind(Communicator& comm, OpKind made, const std::string& algo) {
  constexpr std::array<uint64_t, 5> kCounts = {0, 1, 17, 700, 5000};
  uint64_t calls = 0;
  uint32_t salt = static_cast<uint32_t>(made) * 1000;
  for (const hktDataType_t type : kAllTypes) {
    Result<hktRedOp_t> op = comm.make_op(make_op(made, type, comm.rank(), &calls));
    ASSERT_TRUE(op.ok()) << op.error().text;
    for (const Kind& kind : all_kinds()) {
      if (!reduces(kind.collective)) continue;
      Trial t;
      t.collective = kind.collective;
      t.table = kind.table;
      t.salt = ++salt;
      t.count = kCounts[salt % kCounts.size()];
      t.in_place = salt % 2 == 0;
      t.root = static_cast<int>(salt / 3) % comm.size();
      t.type = type;
      t.op = *op;
      t.made = made;
      if (made != OpKind::in_rank_order || folds_in_rank_order(comm, kind.collective, algo)) {
        check_call(comm, t);
        if (testing::Test::HasFatalFailure()) return;
        continue;
      }
      const Data data{nullptr, nullptr, 0, type};
      const Status s = kind.collective == Collective::all_reduce ? comm.all_reduce(nullptr, nullptr, 0, type, *op)
                       : kind.collective == Collective::reduce   ? comm.reduce(data, *op, 0)
                                                                 : comm.reduce_scatter(data, *op);
      ASSERT_FALSE(s.ok()) << to_string(t) << " with " << algo;
      EXPECT_EQ(s.error().code, hktInvalidUsage);
      EXPECT_NE(s.error().text.find("HOCKET_ALGO"), std::string::npos) << s.error().text;
      EXPECT_NE(s.error().text.find("not commutative"), std::string::npos) << s.error().text;
    }
    ASSERT_TRUE(comm.destroy_op(*op).ok());
  }
  // Nobody folds without it; on which rank is the plan's.
  if (made > OpKind::pre_mul_sum && comm.size() == 2 && algo == "two_shot") {
    EXPECT_GT(calls, 0u);
  }
}

class MadeOperations : public testing::TestWithParam<WorldSpec> {};

TEST_P(MadeOperations, MatchTheReference) {
  run_world(GetParam(), [](Communicator& comm, int) {
    for (const OpKind made : {OpKind::pre_mul_sum, OpKind::commutative, OpKind::in_rank_order}) {
      check_kind(comm, made, GetParam().algo);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

std::vector<WorldSpec> specs() {
  std::vector<WorldSpec> all;
  for (const char* algo : kAlgos) {
    for (const int n : {1, 2, 3, 4}) {
      for (const char* transport : {"shm", "tcp"}) {
        WorldSpec s;
        s.n = n;
        s.transport = transport;
        s.algo = algo;
        // Messages of several tiles, sent from where they are over TCP, and of less than one.
        s.geometry = n % 2 == 0 ? small_rings() : RingGeometry{2, 32 * 1024, 1};
        all.push_back(s);
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, MadeOperations, testing::ValuesIn(specs()), [](const auto& c) {
  std::string label = c.param.label();
  std::replace(label.begin(), label.end(), ',', '_');
  return label;
});

// Ranks that mean different operations hear of it.
TEST(MadeOperationsMismatch, NamesBoth) {
  WorldSpec spec;
  spec.n = 3;
  run_world(spec, [](Communicator& comm, int rank) {
    uint64_t calls = 0;
    Result<hktRedOp_t> first = comm.make_op(make_op(OpKind::commutative, hktInt32, rank, &calls));
    Result<hktRedOp_t> second =
        comm.make_op(make_op(rank == 1 ? OpKind::in_rank_order : OpKind::pre_mul_sum, hktInt32, rank, &calls));
    ASSERT_TRUE(first.ok() && second.ok());
    std::array<int32_t, 10> data{};
    Status s = comm.all_reduce(data.data(), data.data(), data.size(), hktInt32, *first);
    ASSERT_TRUE(s.ok()) << s.error().text;
    s = comm.all_reduce(data.data(), data.data(), data.size(), hktInt32, *second);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktMismatch);
    for (const char* words : {"operation 1 in order", "pre-multiplied sum 1", "rank 1 called"})
      EXPECT_NE(s.error().text.find(words), std::string::npos) << s.error().text;
  });
}

}  // namespace
}  // namespace hocket::test
