// Collectives that do not block: in many orders, on several communicators, and what is left of them when something
// goes wrong.
#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>

#include "conformance/call_check.h"
#include "inprocess/calls.h"

namespace hocket::test {
namespace {

class Requests : public Places {};

void sleep_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// An all-reduce whose result tells which one it was.
struct Sum {
  std::vector<int32_t> in, out;
  hktRequest_t request = nullptr;
  int n = 0;

  Sum(Communicator& comm, size_t count, int32_t salt) : in(count), out(count), n(comm.size()) {
    for (size_t i = 0; i < count; ++i) in[i] = comm.rank() + salt * 3 + static_cast<int32_t>(i % 50);
  }
  Status start(Communicator& comm) {
    return comm.all_reduce(in.data(), out.data(), in.size(), hktInt32, hktSum, into(request));
  }
  void expect(int32_t salt) const {
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], n * (n - 1) / 2 + n * (salt * 3 + static_cast<int32_t>(i % 50))) << i << " of " << out.size();
  }
};

TEST_P(Requests, WaitedForInAnyOrder) {
  for (const int n : {1, 2, 3, 5}) {
    run_world(world(n), [](Communicator& comm, int rank) {
      std::mt19937 random(static_cast<uint32_t>(rank));
      for (int round = 0; round < 5; ++round) {
        std::vector<Sum> sums;
        sums.reserve(20);
        for (int i = 0; i < 20; ++i) {
          sums.emplace_back(comm, static_cast<size_t>(1 + 400 * i), i);
          good(sums.back().start(comm));
          ASSERT_NE(sums.back().request, nullptr);
        }
        std::vector<int> order(20);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        for (const int i : order) {
          Sum& s = sums[static_cast<size_t>(i)];
          good(wait(s.request));
          s.expect(i);
          if (HasFatalFailure()) return;
        }
      }
    });
  }
}

TEST_P(Requests, BlockingCallsComeBehindThem) {
  run_world(world(3), [](Communicator& comm, int) {
    for (int i = 0; i < 20; ++i) {
      Sum a(comm, 5000, i), b(comm, 3, i + 1);
      good(a.start(comm));
      good(b.start(comm));
      int32_t x = 1;
      good(comm.all_reduce(&x, &x, 1, hktInt32, hktSum));
      EXPECT_EQ(x, 3);
      a.expect(i);  // it went first
      b.expect(i + 1);
      good(comm.barrier());
      good(wait(b.request));
      good(wait(a.request));
    }
  });
}

TEST_P(Requests, TestAlone) {
  run_world(world(3), [](Communicator& comm, int) {
    Sum a(comm, 20'000, 5);
    hktRequest_t barrier = nullptr;
    good(a.start(comm));
    good(comm.barrier(into(barrier)));
    for (bool done = false; !done;) good(test_request(barrier, done));
    bool done = false;
    good(test_request(a.request, done));
    EXPECT_TRUE(done) << "it went before the barrier";
    a.expect(5);
  });
}

// Rank 0 waits for a first and then b, rank 1 the other way round; blocking and not.
TEST_P(Requests, CrossedWaitsOnTwoCommunicatorsByOneThread) {
  run_world(world(2), [](Communicator& a, int rank) {
    auto twin = duplicate(a, {});
    ASSERT_TRUE(twin.ok());
    Communicator& b = **twin;
    for (int i = 0; i < 20; ++i) {
      Communicator& first = rank == 0 ? a : b;
      Communicator& second = rank == 0 ? b : a;
      const int32_t of_first = rank == 0 ? i : i + 1, of_second = rank == 0 ? i + 1 : i;
      Sum x(first, 30'000, of_first), y(second, 30'000, of_second);
      good(x.start(first));
      if (i % 2 == 0) {
        good(y.start(second));
        good(wait(x.request));
        good(wait(y.request));
      } else {
        good(second.all_reduce(y.in.data(), y.out.data(), y.in.size(), hktInt32, hktSum));
        good(wait(x.request));
      }
      x.expect(of_first);
      y.expect(of_second);
      if (HasFatalFailure()) return;
    }
  });
}

// A call that takes hundreds of rounds goes on while its rank waits for something else on another communicator, and no
// slower the longer that wait is: the other rank would run into its deadline.
TEST_P(Requests, GoOnAtTheSamePaceDuringALongWait) {
  WorldSpec spec = world(2);
  spec.geometry = small_rings();
  const std::function<void(Communicator&)> waits[] = {
      [](Communicator& comm) { good(comm.barrier()); },
      [](Communicator& comm) { EXPECT_TRUE(duplicate(comm, {}).ok()); }};
  for (const auto& waits_here : waits)
    run_world(spec, [&](Communicator& comm, int rank) {
      auto twin = duplicate(comm, {});
      ASSERT_TRUE(twin.ok()) << twin.error().text;
      Sum s(**twin, 40'000, 1);
      good(s.start(**twin));
      if (rank == 0) waits_here(comm);
      good(wait(s.request));
      if (rank == 1) waits_here(comm);
      s.expect(1);
    });
}

TEST_P(Requests, CrossedWithASplit) {
  run_world(world(2), [](Communicator& a, int rank) {
    auto twin = duplicate(a, {});
    ASSERT_TRUE(twin.ok());
    Communicator& b = **twin;
    Sum x(b, 30'000, 1);
    if (rank == 0) good(x.start(b));
    auto child = split(a, {0, 0}, {});  // rank 1 comes to b later, rank 0 is needed there
    ASSERT_TRUE(child.ok()) << child.error().text;
    if (rank == 1) good(x.start(b));
    good(wait(x.request));
    x.expect(1);
    Sum y(a, 1000, 2);
    good(y.start(a));
    auto behind = duplicate(a, {});
    ASSERT_TRUE(behind.ok());
    y.expect(2);
    good(wait(y.request));
    Sum z(a, 1000, 3);
    good(z.start(a));
    good(finalize(a));
    z.expect(3);
    good(wait(z.request));
  });
}

// Issued by one thread, waited for by another.
TEST_P(Requests, HandedToAnotherThread) {
  run_world(world(2), [](Communicator& comm, int) {
    for (int i = 0; i < 10; ++i) {
      Sum a(comm, 50'000, i);
      good(a.start(comm));
      std::thread([&] { good(wait(a.request)); }).join();
      a.expect(i);
      Sum b(comm, 100, i);
      good(b.start(comm));
      good(wait(b.request));
      b.expect(i);
    }
  });
}

TEST_P(Requests, TwoThreadsInCrossedOrder) {
  run_world(world(2), [](Communicator& a, int rank) {
    auto twin = duplicate(a, {});
    ASSERT_TRUE(twin.ok());
    const auto use = [](Communicator& c) {
      for (int i = 0; i < 100; ++i) {
        Sum s(c, static_cast<size_t>(1 + i * 50), i), t(c, 10, i);
        good(s.start(c));
        good(t.start(c));
        good(wait(t.request));
        good(wait(s.request));
        s.expect(i);
        t.expect(i);
        if (HasFatalFailure()) return;
      }
    };
    Communicator& b = **twin;
    std::thread other([&] { use(rank == 0 ? b : a); });
    use(rank == 0 ? a : b);
    other.join();
  });
}

TEST_P(Requests, TimeoutNamesTheMissingRank) {
  std::atomic<bool> over{false};
  run_world(world(2), [&](Communicator& comm, int rank) {
    good(comm.barrier());
    if (rank == 1) {
      while (!over) sleep_ms(5);
      return;
    }
    hktRequest_t first = nullptr, second = nullptr;
    CallOptions o = into(first);
    o.timeout_ms = 200;
    {
      const std::string label = "bucket 9";  // gone when it is needed
      o.label = label.c_str();
      good(comm.barrier(o));
    }
    good(comm.barrier(into(second)));
    const Status s = wait(first);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktTimeout) << s.error().text;
    EXPECT_NE(s.error().text.find("rank 1"), std::string::npos) << s.error().text;
    EXPECT_NE(s.error().text.find("bucket 9"), std::string::npos) << s.error().text;
    const Status t = wait(second);
    ASSERT_FALSE(t.ok());
    EXPECT_EQ(t.error().code, hktTimeout) << t.error().text;
    over = true;
  });
}

TEST_P(Requests, AbortEndsThem) {
  run_world(world(3), [](Communicator& comm, int rank) {
    good(comm.barrier());
    if (rank == 2) {
      sleep_ms(50);
      comm.abort();
      return;
    }
    Sum a(comm, 100'000, 1);
    hktRequest_t b = nullptr;
    good(a.start(comm));
    good(comm.barrier(into(b)));
    const int64_t start = now_ns();
    Status s = wait(b);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktAborted) << s.error().text;
    bool done = false;
    s = test_request(a.request, done);
    EXPECT_TRUE(done);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktAborted) << s.error().text;
    EXPECT_LT(now_ns() - start, 2'000'000'000);
  });
}

TEST_P(Requests, MismatchIsFoundByTestAlone) {
  run_world(world(2), [](Communicator& comm, int rank) {
    int32_t x = 0;
    hktRequest_t r = nullptr;
    good(rank == 0 ? comm.all_reduce(&x, &x, 1, hktInt32, hktSum, into(r)) : comm.barrier(into(r)));
    Status s;
    for (bool done = false; !done;) s = test_request(r, done);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktMismatch) << s.error().text;
  });
}

TEST_P(Requests, OfADestroyedCommunicator) {
  run_world(world(2), [](Communicator& comm, int rank) {
    auto child = duplicate(comm, {});
    ASSERT_TRUE(child.ok());
    Sum never(**child, 10, 1);
    if (rank == 0) good(never.start(**child));
    child->reset();
    if (rank == 0) {
      const Status s = wait(never.request);
      ASSERT_FALSE(s.ok());
      EXPECT_NE(s.error().text.find("destroyed"), std::string::npos) << s.error().text;
      EXPECT_FALSE(wait(never.request).ok());
    }
    auto other = duplicate(comm, {});
    ASSERT_TRUE(other.ok());
    Sum done(**other, 10, 1);
    good(done.start(**other));
    good((*other)->barrier());
    other->reset();
    const Status s = wait(done.request);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktInvalidArgument) << s.error().text;
    good(comm.barrier());
  });
}

TEST(RequestHandles, AreCheckedAndNeverFollowed) {
  WorldSpec spec;
  spec.n = 1;
  run_world(spec, [](Communicator& comm, int) {
    const auto refused = [](hktRequest_t r) {
      bool done = true;
      const Status a = test_request(r, done);
      ASSERT_FALSE(a.ok());
      EXPECT_FALSE(done);
      EXPECT_EQ(a.error().code, hktInvalidArgument);
      EXPECT_FALSE(wait_request(r, done).ok());
    };
    refused(nullptr);
    refused(reinterpret_cast<hktRequest_t>(uintptr_t{0xdeadbeef}));
    refused(reinterpret_cast<hktRequest_t>(~uintptr_t{0}));
    hktRequest_t first = nullptr, second = nullptr;
    good(comm.barrier(into(first)));
    const hktRequest_t stale = first;
    good(wait(first));
    refused(stale);
    good(comm.barrier(into(second)));  // in the same place of the table
    EXPECT_NE(second, stale);
    refused(stale);
    good(wait(second));
    std::vector<hktRequest_t> many(3000);
    for (auto& r : many) good(comm.barrier(into(r)));
    for (auto& r : many) good(wait(r));
    for (auto& r : many) refused(r);
  });
}

// Every collective with every kind of operation, in place and not.
std::vector<Trial> every_call(const std::array<hktRedOp_t, 4>& ops, int n) {
  std::vector<Trial> trials;
  uint32_t salt = 0;
  for (const Kind& kind : all_kinds()) {
    for (size_t made = 0; made < (reduces(kind.collective) ? ops.size() : 1); ++made) {
      for (const bool in_place : {false, true}) {
        Trial t;
        t.collective = kind.collective;
        t.table = kind.table;
        t.count = std::array<uint64_t, 4>{1, 700, 0, 5000}[++salt % 4];
        t.in_place = in_place;
        t.root = static_cast<int>(salt) % n;
        t.type = hktInt32;
        t.op = ops[made];
        t.made = static_cast<OpKind>(made);
        t.salt = salt / 2;
        trials.push_back(t);
      }
    }
  }
  return trials;
}

TEST_P(Requests, EveryCollective) {
  for (const int n : {1, 2, 3}) {
    run_world(world(n), [n](Communicator& comm, int rank) {
      uint64_t folds = 0;
      std::array<hktRedOp_t, 4> ops{hktSum};
      for (size_t made = 1; made < ops.size(); ++made)
        ops[made] = *comm.make_op(make_op(static_cast<OpKind>(made), hktInt32, rank, &folds));
      std::vector<Attempt> attempts;
      const auto begin = [&](const std::function<CallOptions(size_t)>& options) {
        attempts.clear();
        const std::vector<Trial> trials = every_call(ops, n);
        for (size_t i = 0; i < trials.size(); ++i) {
          attempts.emplace_back(comm, trials[i]);
          good(attempts.back().issue(options(i)));
        }
      };
      std::vector<hktRequest_t> requests(100);
      begin([&](size_t i) { return into(requests[i]); });
      for (size_t i = attempts.size(); i-- > 0;) {
        good(wait(requests[i]));
        attempts[i].judge();
        if (HasFatalFailure()) return;
      }
      for (const bool waits : {true, false}) {
        group_start();
        begin([](size_t) { return CallOptions{}; });
        hktRequest_t all = nullptr;
        good(group_end(waits ? nullptr : &all));
        if (!waits) good(wait(all));
        for (const Attempt& a : attempts) a.judge();
        if (HasFatalFailure()) return;
      }
      for (size_t made = 1; made < ops.size(); ++made) good(comm.destroy_op(ops[made]));
    });
  }
}

TEST_P(Requests, AnOperationLivesUntilItsCallsAreDone) {
  std::atomic<bool> tried{false};
  run_world(world(2), [&](Communicator& comm, int rank) {
    const auto refused = [&](hktRedOp_t op) {
      const Status s = comm.destroy_op(op);
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, hktInvalidUsage);
      for (const char* part : {"operation 0", "outstanding", "open group"})
        EXPECT_NE(s.error().text.find(part), std::string::npos) << s.error().text;
    };
    uint64_t folds = 0;
    const hktRedOp_t op = *comm.make_op(make_op(OpKind::commutative, hktInt32, rank, &folds));
    std::vector<int32_t> x(100, 1 + rank);
    hktRequest_t r = nullptr;
    while (rank == 1 && !tried) sleep_ms(1);
    good(comm.all_reduce(x.data(), x.data(), x.size(), hktInt32, op, into(r)));
    if (rank == 0) refused(op);
    tried = true;
    good(wait(r));
    EXPECT_EQ(x[99], 3);
    group_start();
    good(comm.all_reduce(x.data(), x.data(), x.size(), hktInt32, op));
    refused(op);
    good(group_end(nullptr));
    EXPECT_EQ(x[99], 6);
    good(comm.destroy_op(op));
    EXPECT_FALSE(comm.all_reduce(x.data(), x.data(), x.size(), hktInt32, op, into(r)).ok());
    good(comm.barrier());
  });
}

// They must not, but if they do it is an error on all ranks and no buffer is used any more.
TEST_P(Requests, OperationsThatThrowEndThem) {
  run_world(world(2), [](Communicator& comm, int) {
    good(comm.barrier());  // over TCP, a fault reaches those that are connected
    Operation throws;
    throws.kind = OpKind::commutative;
    throws.fn = [](const void*, const void*, void*, size_t, hktDataType_t, void*) { throw std::runtime_error("no!"); };
    const hktRedOp_t op = *comm.make_op(throws);
    hktRequest_t first = nullptr, second = nullptr;
    {
      std::vector<int32_t> x(100'000), y(100'000);
      const Status issued = comm.all_reduce(x.data(), y.data(), x.size(), hktInt32, op, into(first));
      if (issued.ok()) {
        (void)comm.barrier(into(second));
        const Status s = wait(first);
        ASSERT_FALSE(s.ok());
        EXPECT_EQ(s.error().code, hktInternalError) << s.error().text;
        EXPECT_NE(s.error().text.find("threw: no!"), std::string::npos) << s.error().text;
      }
    }
    if (second != nullptr) {
      EXPECT_FALSE(wait(second).ok());
    }
    EXPECT_FALSE(comm.barrier().ok());
    good(comm.destroy_op(op));
  });
}

// The same in a call that blocks: the other rank hears of it and does not wait for its deadline.
TEST_P(Requests, BlockingOperationsThatThrowAreFaults) {
  run_world(world(2), [](Communicator& comm, int rank) {
    good(comm.barrier());
    bool throws = rank == 1;
    Operation operation;
    operation.kind = OpKind::commutative;
    operation.context = &throws;
    operation.fn = [](const void*, const void*, void*, size_t, hktDataType_t, void* here) {
      if (*static_cast<bool*>(here)) throw std::runtime_error("no!");
    };
    const hktRedOp_t op = *comm.make_op(operation);
    std::vector<int32_t> x(100'000), y(100'000);
    const int64_t start = now_ns();
    Status s = comm.all_reduce(x.data(), y.data(), x.size(), hktInt32, op);
    if (s.ok()) s = comm.barrier();  // rank 0 may have had all it needs
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktInternalError) << s.error().text;
    EXPECT_NE(s.error().text.find("a call on rank 1 threw: no!"), std::string::npos) << s.error().text;
    EXPECT_LT(now_ns() - start, 5'000'000'000);
    good(comm.destroy_op(op));
  });
}

// The call's error, at once, and not one of the communicator.
TEST(RequestsOfForcedAlgorithms, RefuseWhatTheyCannotServe) {
  WorldSpec spec;
  spec.n = 3;
  spec.algo = "ring";
  run_world(spec, [](Communicator& comm, int rank) {
    uint64_t folds = 0;
    const hktRedOp_t op = *comm.make_op(make_op(OpKind::in_rank_order, hktInt32, rank, &folds));
    int32_t x = 1;
    hktRequest_t r = nullptr;
    const Status s = comm.all_reduce(&x, &x, 1, hktInt32, op, into(r));
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktInvalidUsage) << s.error().text;
    EXPECT_NE(s.error().text.find("HOCKET_ALGO"), std::string::npos) << s.error().text;
    EXPECT_EQ(r, nullptr);
    good(comm.barrier());
    good(comm.destroy_op(op));
  });
}

INSTANTIATE_TEST_SUITE_P(All, Requests, testing::ValuesIn(kPlaces), place_name);

}  // namespace
}  // namespace hocket::test
