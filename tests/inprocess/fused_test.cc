// All-reduce of a list of buffers, and calls that are made of stages in general.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>
#include <random>

#include "base/types.h"
#include "comm/fused.h"
#include "conformance/call_check.h"
#include "inprocess/calls.h"
#include "sanitizers.h"
#include "unit/kernels_reference.h"

namespace {
thread_local uint64_t allocations = 0;
}  // namespace

// Sanitizers bring allocators of their own, which stay.
#if !HOCKET_TEST_ASAN && !HOCKET_TEST_TSAN
// What a steady call must not do is counted. Not inlined: GCC takes pairs of them for mistakes.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const p = std::malloc(bytes != 0 ? bytes : 1); p != nullptr) return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes != 0 ? bytes : 1);
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace hocket::test {
namespace {

class Fused : public Places {};

// A list as a trial makes them: every buffer an all-reduce of its own, some in place.
class List {
 public:
  List(Communicator& comm, Trial base, const std::vector<uint64_t>& counts) : base_(base) {
    for (const uint64_t count : counts) {
      base.count = count;
      base.salt = base_.salt * 1000 + static_cast<uint32_t>(attempts_.size());
      base.in_place = base.salt % 3 == 0;
      attempts_.emplace_back(comm, base);
      const bool empty = count == 0 && base.salt % 2 == 0;
      in_.push_back(empty ? nullptr : attempts_.back().in());
      out_.push_back(empty ? nullptr : attempts_.back().out());
      counts_.push_back(count);
    }
  }
  Status issue(Communicator& comm, const CallOptions& options = {}) {
    std::vector<const void*> in = in_;
    std::vector<void*> out = out_;
    std::vector<size_t> counts = counts_;
    const BufferList list{in.data(), out.data(), counts.data(), counts.size(), base_.type};
    Status s = all_reduce_list(comm, list, base_.op, options);
    // Copied: nobody reads them when the call has returned.
    std::fill(in.begin(), in.end(), nullptr);
    std::fill(out.begin(), out.end(), nullptr);
    std::fill(counts.begin(), counts.end(), SIZE_MAX / 64);
    return s;
  }
  void judge() const {
    for (const Attempt& a : attempts_) {
      a.judge();
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  const Trial base_;
  std::vector<Attempt> attempts_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::vector<size_t> counts_;
};

// In floats: empty lists, single ones, below, at and above what is packed, buckets that end exactly, one too early and
// one too late, large ones between small ones.
std::vector<std::vector<uint64_t>> lists(const Communicator& comm) {
  const FusedSizes sizes = fused_sizes(comm.parts().facts.hosts);
  const uint64_t large = sizes.large / 4, small = large - 1;
  EXPECT_EQ(sizes.bucket, 4 * sizes.large);
  std::vector<std::vector<uint64_t>> l = {{},
                                          {0},
                                          {0, 0, 0},
                                          {1},
                                          {3, 0, 5},
                                          {small},
                                          {large},
                                          {large + 1, 1},
                                          {1, large, 2, 2 * large, 3},
                                          {small, small, small, small},
                                          {small, small, small, small, 4},
                                          {small, small, small, small, 5},
                                          {small, small, small, small, 4, 1},
                                          std::vector<uint64_t>(300, 7)};
  std::mt19937 random(7);
  l.emplace_back();
  for (int i = 0; i < 60; ++i) l.back().push_back(random() % 8 == 0 ? random() % (2 * large) : random() % 3000);
  return l;
}

TEST_P(Fused, MatchesTheReference) {
  for (const int n : {1, 2, 3}) {
    run_world(world(n), [](Communicator& comm, int) {
      Trial t;
      for (const auto& counts : lists(comm)) {
        ++t.salt;
        List list(comm, t, counts);
        good(list.issue(comm));
        list.judge();
        if (HasFatalFailure()) return;
      }
    });
  }
}

TEST_P(Fused, OutstandingAndInGroups) {
  run_world(world(3), [](Communicator& comm, int rank) {
    auto twin = duplicate(comm, {});
    ASSERT_TRUE(twin.ok());
    const auto all = lists(comm);
    std::mt19937 random(static_cast<uint32_t>(rank));
    for (const char* how : {"requests", "group", "group with a request", "behind others"}) {
      const bool grouped = how[0] == 'g', behind = how[0] == 'b';
      std::vector<List> under_way;
      std::vector<int32_t> sums(20, 1);
      std::vector<hktRequest_t> requests(20);
      Trial t;
      if (grouped) group_start();
      for (size_t i = 0; i < 20; ++i) {
        Communicator& c = i % 3 == 2 ? **twin : comm;
        t.salt = static_cast<uint32_t>(i + 1);
        if (i % 5 == 4) {
          good(c.all_reduce(&sums[i], &sums[i], 1, hktInt32, hktSum, grouped ? CallOptions{} : into(requests[i])));
          continue;
        }
        under_way.emplace_back(c, t, all[i % all.size()]);
        const bool waits = grouped || (behind && i % 2 == 1);
        good(under_way.back().issue(c, waits ? CallOptions{} : into(requests[i])));
        if (!grouped && waits) under_way.back().judge();
      }
      if (grouped) {
        hktRequest_t one = nullptr;
        good(group_end(how[5] != '\0' ? &one : nullptr));
        if (one != nullptr) good(wait(one));
      }
      std::shuffle(requests.begin(), requests.end(), random);
      for (const hktRequest_t r : requests)
        if (r != nullptr) good(wait(r));
      for (const List& l : under_way) l.judge();
      for (size_t i = 4; i < 20; i += 5) ASSERT_EQ(sums[i], 3) << how;
      if (HasFatalFailure()) return;
    }
  });
}

TEST_P(Fused, EveryTypeAndOperation) {
  run_world(world(3), [](Communicator& comm, int rank) {
    uint64_t folds = 0;
    Trial t;
    const auto attempt = [&] {
      ++t.salt;
      // In bytes, what is packed is the same for all types; the last one is large.
      const uint64_t large = t.made == OpKind::built_in && t.salt % 8 == 0 ? 131'072 / type_size(t.type) : 40;
      List list(comm, t, {50, 0, 3, 1, 200, large});
      good(list.issue(comm));
      list.judge();
    };
    for (const hktDataType_t type : kAllTypes) {
      t.type = type;
      t.made = OpKind::built_in;
      for (const hktRedOp_t op : kAllOps) {
        if (unsupported(type, op) != nullptr) continue;
        t.op = op;
        attempt();
        if (HasFatalFailure()) return;
      }
      for (const OpKind made : {OpKind::pre_mul_sum, OpKind::commutative, OpKind::in_rank_order}) {
        t.made = made;
        t.op = *comm.make_op(make_op(made, type, rank, &folds));
        attempt();
        good(comm.destroy_op(t.op));  // nothing that is kept for the next list holds on to it
        if (HasFatalFailure()) return;
      }
    }
  });
}

// Buffers that follow one another on some ranks only: who packs is each rank's own affair.
TEST_P(Fused, JoinedOnSomeRanks) {
  run_world(world(3), [](Communicator& comm, int rank) {
    std::vector<int32_t> memory(4000);
    std::iota(memory.begin(), memory.end(), rank);
    const size_t gap = rank == 1 ? 0 : 7, counts[] = {1000, 10, 0, 1500};
    const void* in[4];
    void* out[4];
    size_t at = 0;
    for (size_t b = 0; b < 4; at += counts[b++] + gap) in[b] = out[b] = &memory[at];
    std::vector<int32_t> expected = memory;
    at = 0;
    for (size_t b = 0; b < 4; at += counts[b++] + gap)
      for (size_t i = 0; i < counts[b]; ++i) {
        expected[at + i] = 0;
        for (int r = 0; r < 3; ++r) {
          size_t theirs = i;
          for (size_t before = 0; before < b; ++before) theirs += counts[before] + (r == 1 ? 0 : 7);
          expected[at + i] += static_cast<int32_t>(theirs) + r;
        }
      }
    good(all_reduce_list(comm, {in, out, counts, 4, hktInt32}, hktSum));
    EXPECT_EQ(memory, expected);
  });
}

TEST_P(Fused, SteadyCallsAllocateNothing) {
  if (HOCKET_TEST_ASAN || HOCKET_TEST_TSAN) GTEST_SKIP() << "nothing is counted with a sanitizer's allocator";
  run_world(world(2), [](Communicator& comm, int) {
    std::vector<float> a(1000, 1), b(50'000, 1), c(77, 1);
    const void* in[] = {a.data(), b.data(), c.data()};
    void* out[] = {a.data(), b.data(), c.data()};
    const size_t counts[] = {a.size(), b.size(), c.size()};
    const BufferList list{in, out, counts, 3, hktFloat32};
    // Who waits for long looks for faults, which is not steady: the best of some counts.
    for (const bool waits : {true, false}) {
      uint64_t least = UINT64_MAX;
      for (int i = 0; i < 50; ++i) {
        const uint64_t before = allocations;
        hktRequest_t r = nullptr;
        good(all_reduce_list(comm, list, hktMax, waits ? CallOptions{} : into(r)));
        if (!waits) good(wait(r));
        if (i >= 5) least = std::min(least, allocations - before);
      }
      EXPECT_EQ(least, 0u) << (waits ? "blocking" : "with a request");
    }
  });
}

TEST_P(Fused, AnOperationThatThrowsEndsAllOfIt) {
  run_world(world(2), [](Communicator& comm, int) {
    good(comm.barrier());
    Operation throws;
    throws.kind = OpKind::commutative;
    throws.fn = [](const void*, const void*, void*, size_t, hktDataType_t, void*) { throw std::runtime_error("no!"); };
    const hktRedOp_t op = *comm.make_op(throws);
    Trial t;
    t.made = OpKind::commutative;
    t.op = op;
    List list(comm, t, {50'000, 3, 5});
    const Status s = list.issue(comm);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktInternalError) << s.error().text;
    EXPECT_NE(s.error().text.find("threw: no!"), std::string::npos) << s.error().text;
    EXPECT_FALSE(comm.barrier().ok());
    good(comm.destroy_op(op));
  });
}

TEST_P(Fused, ADeadlineIsThatOfTheWholeCall) {
  std::atomic<bool> over{false};
  run_world(world(2), [&](Communicator& comm, int rank) {
    good(comm.barrier());
    if (rank == 1) {
      while (!over) std::this_thread::yield();
      return;
    }
    Trial t;
    List list(comm, t, {40'000, 3, 5});
    CallOptions o;
    o.timeout_ms = 200;
    const Status s = list.issue(comm, o);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktTimeout) << s.error().text;
    for (const char* part : {"all_reduce_list(3 buffers, count 40008, float, table ", ", sum)", "rank 1"})
      EXPECT_NE(s.error().text.find(part), std::string::npos) << s.error().text;
    over = true;
  });
}

TEST(FusedOfForcedAlgorithms, RefuseWhatTheyCannotServe) {
  WorldSpec spec;
  spec.n = 3;
  spec.algo = "ring";
  run_world(spec, [](Communicator& comm, int rank) {
    uint64_t folds = 0;
    Trial t;
    t.made = OpKind::in_rank_order;
    t.op = *comm.make_op(make_op(t.made, t.type, rank, &folds));
    List list(comm, t, {1, 2});
    const Status s = list.issue(comm);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktInvalidUsage) << s.error().text;
    EXPECT_NE(s.error().text.find("HOCKET_ALGO"), std::string::npos) << s.error().text;
    good(comm.barrier());
    good(comm.destroy_op(t.op));
  });
}

// Stages that have several kinds of runs, and one that none of them can begin.
class Chained final : public Stages {
 public:
  explicit Chained() = default;
  Order sum, most;
  int32_t value = 0;
  bool throws = false;
  int at = 0;

  bool next(Order& run, Staging& staging) override {
    auto* const memory = reinterpret_cast<int32_t*>(staging.take(2 * sizeof(int32_t)));
    if (at == 0) {
      memory[0] = value;
    } else if (at == 1) {
      if (throws) throw std::bad_alloc();
      memory[0] += 1;
      memory[1] = memory[0];
    } else {
      value = memory[1];
      return false;
    }
    run = at == 0 ? sum : most;
    run.call.in = &memory[at];
    run.call.out = &memory[at];
    run.call.elems = run.record.count = 1;
    ++at;
    return true;
  }
};

Status chained(Communicator& comm, Chained*& used, int32_t value, bool throws, const CallOptions& options = {}) {
  return comm.staged<Chained>(options, [&](Chained& c) -> Result<Order> {
    used = &c;
    c.at = 0;
    c.value = value;
    c.throws = throws;
    c.sum = c.most = Communicator::order(Collective::all_reduce, {nullptr, nullptr, 0, hktInt32});
    HKT_TRY(comm.set_op(c.sum, hktSum));
    HKT_TRY(comm.set_op(c.most, hktMax));
    Order call;
    call.record.collective = static_cast<uint32_t>(Meeting::all_reduce_list);
    return call;
  });
}

TEST_P(Fused, StagesOfSeveralOperations) {
  run_world(world(3), [](Communicator& comm, int rank) {
    Chained* used = nullptr;
    Chained* other = nullptr;
    good(chained(comm, used, rank, false));
    EXPECT_EQ(used->value, 4);
    hktRequest_t a = nullptr, b = nullptr;
    good(chained(comm, used, rank, false, into(a)));
    good(chained(comm, other, 10 + rank, false, into(b)));
    good(wait(b));
    good(wait(a));
    EXPECT_EQ(other->value, 34);
    // What is done before the next begins lends it its stages.
    if (used != other) {
      EXPECT_EQ(used->value, 4);
    }
  });
}

TEST_P(Fused, WhatAStageThrowsEndsTheCallOnAllRanks) {
  run_world(world(3), [](Communicator& comm, int rank) {
    good(comm.barrier());
    std::vector<int32_t> x(3, 1);
    good(comm.all_reduce(x.data(), x.data(), x.size(), hktInt32, hktSum));
    Chained* used = nullptr;
    const Status s = chained(comm, used, rank, rank == 1);
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().text.find("rank 1"), std::string::npos) << s.error().text;
    EXPECT_FALSE(comm.barrier().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(All, Fused, testing::ValuesIn(kPlaces), place_name);

}  // namespace
}  // namespace hocket::test
