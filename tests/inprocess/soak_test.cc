// A random program: all collectives, operations of its own, messages, collectives of messages, sizes, communicators,
// blocking, not, in groups;
// every bit compared. All ranks draw the same program from one seed, which is printed, and each its own order of
// waiting. HOCKET_TEST_SEED repeats a run; HOCKET_TEST_FULL=1 makes it ten times as long.
#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include "conformance/call_check.h"
#include "inprocess/calls.h"

namespace hocket::test {
namespace {

uint32_t seed() {
  if (const char* given = std::getenv("HOCKET_TEST_SEED"); given != nullptr)
    return static_cast<uint32_t>(std::strtoul(given, nullptr, 10));
  return std::random_device{}();
}

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t operator()() { return static_cast<uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

// One call of the program on one rank, with all that it needs to be judged.
struct Done {
  std::vector<int32_t> in, out, expected;
  std::vector<uint64_t> counts, other_counts;
  std::optional<Attempt> attempt;
  hktRequest_t request = nullptr;

  void judge() const {
    if (attempt) return attempt->judge();
    ASSERT_EQ(out, expected);
  }
};

class Program {
 public:
  Program(std::vector<Communicator*> comms, int rank, uint32_t seed)
      : comms_(std::move(comms)),
        n_(comms_.front()->size()),
        rank_(rank),
        shared_(seed),
        own_(seed + 77 + static_cast<uint32_t>(rank)) {
    for (Communicator* comm : comms_)
      for (size_t made = 1; made < kOpKinds; ++made)
        ops_[comm][made] = *comm->make_op(make_op(static_cast<OpKind>(made), hktInt32, comm->rank(), &folds_));
  }

  void run(int calls) {
    for (int i = 0; i < calls && !testing::Test::HasFailure(); ++i) {
      const uint32_t form = shared_() % 8;
      if (form == 0) {
        const uint32_t members = 1 + shared_() % 5;
        group_start();
        std::deque<Done> group;
        for (uint32_t k = 0; k < members; ++k) call(group.emplace_back(), CallOptions{});
        const bool waits = shared_() % 2 == 0;
        hktRequest_t r = nullptr;
        good(group_end(waits ? nullptr : &r));
        if (r != nullptr) good(wait(r));
        for (const Done& d : group) d.judge();
      } else if (form < 3) {
        Done d;
        call(d, CallOptions{});
        d.judge();
      } else {
        Done& d = outstanding_.emplace_back();
        call(d, into(d.request));
        if (outstanding_.size() > 30 || own_() % 4 == 0) finish_some();
      }
    }
    while (!outstanding_.empty() && !testing::Test::HasFailure()) finish_some();
    for (Communicator* comm : comms_)
      for (size_t made = 1; made < kOpKinds; ++made) good(comm->destroy_op(ops_[comm][made]));
  }

 private:
  static constexpr size_t kOpKinds = 4;  // OpKind has so many

  // Any collective, in place or not, with a built-in operation or one of the program's.
  void any_collective(Communicator& comm, Done& d, const CallOptions& options) {
    static const std::vector<Kind> kinds = all_kinds();
    const Kind kind = kinds[shared_() % kinds.size()];
    Trial t;
    t.collective = kind.collective;
    t.table = kind.table;
    t.in_place = shared_() % 2 == 0;
    t.root = static_cast<int>(shared_() % static_cast<uint32_t>(n_));
    t.type = hktInt32;
    t.salt = shared_() % 100'000;
    t.count = size();
    if (const size_t made = shared_() % kOpKinds; reduces(t.collective) && made != 0) {
      t.made = static_cast<OpKind>(made);
      t.op = ops_[&comm][made];
      t.count %= 300;  // the reference takes its time
    }
    d.attempt.emplace(comm, t);
    good(d.attempt->issue(options));
  }
  int32_t value(int rank, uint64_t i, uint32_t salt) const {
    return static_cast<int32_t>(salt * 2'654'435'761u + static_cast<uint32_t>(rank) * 40'503u +
                                static_cast<uint32_t>(i) * 97u);
  }
  uint64_t size() {
    const uint64_t most[] = {1, 16, 300, 4000, 30'000};
    return shared_() % (most[shared_() % 20 == 0 ? 4 : shared_() % 4] + 1);
  }
  std::vector<int32_t> data(int rank, uint64_t count, uint32_t salt) const {
    std::vector<int32_t> v(count);
    for (uint64_t i = 0; i < count; ++i) v[i] = value(rank, i, salt);
    return v;
  }

  void call(Done& d, const CallOptions& options) {
    Communicator& comm = *comms_[shared_() % comms_.size()];
    const uint32_t what = shared_() % 12, salt = shared_();
    const uint64_t count = size();
    const int root = static_cast<int>(shared_() % static_cast<uint32_t>(n_));
    if (what >= 8) return any_collective(comm, d, options);
    if (what < 2) {
      d.in = data(rank_, count, salt);
      d.out.resize(count);
      d.expected.resize(count);
      for (uint64_t i = 0; i < count; ++i) {
        uint32_t sum = 0;
        for (int r = 0; r < n_; ++r) sum += static_cast<uint32_t>(value(r, i, salt));
        d.expected[i] = static_cast<int32_t>(sum);
      }
      good(comm.all_reduce(d.in.data(), d.out.data(), count, hktInt32, hktSum, options));
    } else if (what == 2) {
      d.expected = data(root, count, salt);
      d.in = rank_ == root ? d.expected : std::vector<int32_t>();
      d.out.resize(count);
      good(comm.broadcast(d.in.data(), d.out.data(), count, hktInt32, root, options));
    } else if (what == 3) {
      good(comm.barrier(options));
    } else if (what < 6) {
      // A ring of messages with a tag of few: sent and received in one go, blocking ones too.
      const int shift = 1 + static_cast<int>(shared_() % static_cast<uint32_t>(n_));
      const int to = (rank_ + shift) % n_, from = (rank_ + n_ - shift % n_) % n_, tag = static_cast<int>(shared_() % 3);
      d.in = data(rank_, count, salt);
      d.out.resize(count);
      d.expected = data(from, count, salt);
      const TransferSpec send{d.in.data(), count, hktInt32, to, tag, Channel::user, true};
      const TransferSpec receive{d.out.data(), count, hktInt32, from, tag, Channel::user, false};
      const bool grouped = attention != 0 && ThisThread::get().group.depth != 0;
      if (!grouped) group_start();
      good(comm.transfer(receive, {}));
      good(comm.transfer(send, {}));
      if (!grouped) good(group_end(options.request));
    } else {
      const auto share = [&](int f, int t) {
        return (static_cast<uint64_t>(f * 7 + t * 3) + salt) % 4 == 0
                   ? 0
                   : (count / static_cast<uint64_t>(n_)) + static_cast<uint64_t>(f);
      };
      for (int r = 0; r < n_; ++r) {
        d.counts.push_back(share(rank_, r));
        d.other_counts.push_back(share(r, rank_));
        const auto out = data(rank_, d.counts.back(), salt + static_cast<uint32_t>(r)),
                   in = data(r, d.other_counts.back(), salt + static_cast<uint32_t>(rank_));
        d.in.insert(d.in.end(), out.begin(), out.end());
        d.expected.insert(d.expected.end(), in.begin(), in.end());
      }
      d.out.resize(d.expected.size());
      good(all_to_all_v(comm, {d.in.data(), {d.counts.data(), nullptr}},
                        {d.out.data(), {d.other_counts.data(), nullptr}}, hktInt32, options));
    }
  }

  // Waits for or tests one of those outstanding; which is this rank's own choice.
  void finish_some() {
    const size_t k = own_() % outstanding_.size();
    Done& d = outstanding_[k];
    if (own_() % 3 == 0) {
      bool done = false;
      good(test_request(d.request, done));
      if (!done) return;
    } else {
      good(wait(d.request));
    }
    d.judge();
    outstanding_.erase(outstanding_.begin() + static_cast<std::ptrdiff_t>(k));
  }

  const std::vector<Communicator*> comms_;
  const int n_, rank_;
  Random shared_, own_;
  std::map<Communicator*, std::array<hktRedOp_t, kOpKinds>> ops_;
  uint64_t folds_ = 0;  // the context of the program's operations
  std::deque<Done> outstanding_;
};

class Soak : public Places {};

TEST_P(Soak, EveryBit) {
  const uint32_t drawn = seed();
  std::printf("HOCKET_TEST_SEED=%u\n", drawn);
  const int calls = std::getenv("HOCKET_TEST_FULL") != nullptr ? 10'000 : 1'000;
  for (const int n : {2, 3}) {
    run_world(world(n), [&](Communicator& comm, int rank) {
      auto twin = duplicate(comm, {});
      auto turned = split(comm, {0, -rank}, {});
      ASSERT_TRUE(twin.ok() && turned.ok());
      // The ranks of the last one are in another order, but its own rank is all that a program knows of itself.
      Program program({&comm, twin->get()}, rank, drawn);
      program.run(calls);
      if (HasFailure()) {
        comm.abort();
        (*twin)->abort();
        return;
      }
      Program(std::vector<Communicator*>{turned->get()}, (*turned)->rank(), drawn).run(calls / 10);
      good(finalize(**twin));
    });
    ASSERT_FALSE(HasFailure()) << "HOCKET_TEST_SEED=" << drawn << " repeats it";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Soak, testing::ValuesIn(kPlaces), place_name);

}  // namespace
}  // namespace hocket::test
