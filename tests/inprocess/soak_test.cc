// A random program: all collectives, lists of buffers, operations of its own, messages, collectives of messages, types,
// sizes, communicators, in place or not, blocking, by requests, in groups, in private and in registered memory, which
// comes and goes meanwhile; every bit compared. All ranks draw the same program from one seed, which is printed, and
// each its own order of waiting and its own memory. HOCKET_TEST_SEED repeats a run; HOCKET_TEST_FULL=1 makes a million
// calls of the 100,000, HOCKET_TEST_CALLS=N makes N with each number of ranks.
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string_view>

#include "base/types.h"
#include "comm/fused.h"
#include "conformance/call_check.h"
#include "inprocess/calls.h"
#include "inprocess/memory.h"

namespace hocket::test {
namespace {

uint32_t seed() {
  if (const char* given = std::getenv("HOCKET_TEST_SEED"); given != nullptr)
    return static_cast<uint32_t>(std::strtoul(given, nullptr, 10));
  return std::random_device{}();
}

// Quick to make: each call of the program draws from one of its own. (SplitMix64.)
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t operator()() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t x = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>((x ^ (x >> 31)) >> 16);
  }
  uint32_t operator()(size_t below) { return (*this)() % static_cast<uint32_t>(below); }

 private:
  uint64_t state_;
};

// One call of the program on one rank, with all that it needs to be judged.
struct Done {
  std::vector<int32_t> in, out, expected;
  std::vector<uint64_t> counts, other_counts;
  std::optional<Attempt> attempt;
  std::deque<Attempt> list;         // buffers of one call
  std::vector<Pool::Piece> pieces;  // memory of attempts
  hktRequest_t request = nullptr;

  void judge() const {
    if (attempt) return attempt->judge();
    for (const Attempt& a : list) {
      a.judge();
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_EQ(out, expected);
  }
};

class Program {
 public:
  // Null: a communicator of other ranks. The first one has all of them.
  Program(std::vector<Communicator*> comms, Pool& pool, uint32_t seed)
      : comms_(std::move(comms)),
        pool_(pool),
        shared_(seed),
        own_(seed + 77 + static_cast<uint32_t>(comms_.front()->rank())) {
    for (Communicator* comm : comms_)
      for (size_t made = 1; comm != nullptr && made < kOpKinds; ++made)
        ops_[comm][made] = *comm->make_op(make_op(static_cast<OpKind>(made), hktInt32, comm->rank(), &folds_));
  }

  void run(int calls) {
    while (calls_ < calls && !testing::Test::HasFailure()) {
      if (shared_(50) == 0) change_registration();
      const uint32_t form = shared_(8);
      if (form == 0) {
        const uint32_t members = 1 + shared_(5);
        const bool waits = shared_(2) == 0;
        group_start();
        std::deque<Done> group;
        for (uint32_t k = 0; k < members; ++k) call(group.emplace_back(), CallOptions{});
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
        if (d.request == nullptr) outstanding_.pop_back();
        if (outstanding_.size() > 30 || own_(4) == 0) finish_some();
      }
    }
    while (!outstanding_.empty() && !testing::Test::HasFailure()) finish_some();
    for (Communicator* const comm : comms_)
      if (comm != nullptr && registered_[comm] != 0) good(deregister_memory(*comm, registered_[comm]));
    for (const auto& [comm, ops] : ops_)
      for (size_t made = 1; made < kOpKinds; ++made) good(comm->destroy_op(ops[made]));
  }

 private:
  static constexpr size_t kOpKinds = 4;  // OpKind has so many

  static int32_t value(int rank, uint64_t i, uint32_t salt) {
    return static_cast<int32_t>(salt * 2'654'435'761u + static_cast<uint32_t>(rank) * 40'503u +
                                static_cast<uint32_t>(i) * 97u);
  }
  static std::vector<int32_t> data(int rank, uint64_t count, uint32_t salt) {
    std::vector<int32_t> v(count);
    for (uint64_t i = 0; i < count; ++i) v[i] = value(rank, i, salt);
    return v;
  }
  static uint64_t size(Random& draw) {
    const uint64_t most[] = {1, 16, 300, 4000, 30'000};
    return draw(most[draw(20) == 0 ? 4 : draw(4)] + 1);
  }

  // The ranks of a communicator, or some of them, register their pools, or all give them up, while calls may be
  // outstanding.
  void change_registration() {
    Communicator* const comm = comms_[shared_(comms_.size())];
    Random draw(shared_());
    if (comm == nullptr) return;
    Registration& mine = registered_[comm];
    if (mine != 0) {
      good(deregister_memory(*comm, mine));
      mine = 0;
      return;
    }
    const uint32_t givers = draw(2) == 0 ? ~uint32_t{0} : draw();
    const bool gives = (givers >> comm->rank() & 1) != 0;
    Result<Registration> made = register_memory(*comm, gives ? pool_.base() : nullptr, gives ? pool_.bytes() : 0);
    ASSERT_TRUE(made.ok()) << made.error().text;
    mine = *made;
  }

  // Where a buffer of the trial is, by this rank's own choice: null, in memory of its own.
  unsigned char* memory(Done& d, const Communicator& comm, const Trial& t) {
    if (own_(4) == 0) return nullptr;
    Pool::Piece piece = pool_.take(room(t, comm.size()));
    if (piece == nullptr) return nullptr;
    return d.pieces.emplace_back(std::move(piece)).get();
  }

  // What the call is depends on the communicator and one number, so ranks that are no members need not draw it.
  void call(Done& d, const CallOptions& options) {
    Communicator* const comm = comms_[shared_(comms_.size())];
    Random draw(shared_());
    ++calls_;
    if (comm == nullptr) return;
    using Maker = void (Program::*)(Communicator&, Random&, Done&, const CallOptions&);
    static constexpr Maker kMakers[] = {&Program::barrier,     &Program::ring,        &Program::ring,
                                        &Program::to_all_v,    &Program::gather_of_v, &Program::scatter_of_v,
                                        &Program::one_of_many, &Program::one_of_many, &Program::one_of_many,
                                        &Program::one_of_many, &Program::list_of_many};
    (this->*kMakers[draw(std::size(kMakers))])(*comm, draw, d, options);
  }

  void barrier(Communicator& comm, Random&, Done&, const CallOptions& options) { good(comm.barrier(options)); }

  // Any collective of a plan, in place or not, of any type, with a built-in operation or one of the program's.
  void one_of_many(Communicator& comm, Random& draw, Done& d, const CallOptions& options) {
    static const std::vector<Kind> kinds = all_kinds();
    const Kind kind = kinds[draw(kinds.size())];
    Trial t;
    t.collective = kind.collective;
    t.table = kind.table;
    t.in_place = draw(2) == 0;
    t.root = static_cast<int>(draw(static_cast<size_t>(comm.size())));
    t.type = kAllTypes[draw(kAllTypes.size())];
    t.op = kAllOps[draw(kAllOps.size())];
    if (unsupported(t.type, t.op) != nullptr) t.op = hktSum;
    if (unsupported(t.type, t.op) != nullptr) t.op = hktLogicalOr;
    t.salt = draw(100'000);
    t.count = size(draw);
    if (const size_t made = draw(kOpKinds); reduces(t.collective) && made != 0) {
      t.made = static_cast<OpKind>(made);
      t.op = ops_[&comm][made];
      if (t.made == OpKind::pre_mul_sum) t.type = hktInt32;
      t.count %= 300;  // the reference takes its time
    }
    t.in_memory = memory(d, comm, t);
    t.out_memory = memory(d, comm, t);
    d.attempt.emplace(comm, t);
    good(d.attempt->issue(options));
  }

  // An all-reduce of a list of buffers, in place or not, most of them small enough to be packed.
  void list_of_many(Communicator& comm, Random& draw, Done& d, const CallOptions& options) {
    Trial t;
    t.collective = Collective::all_reduce;
    t.type = kAllTypes[draw(kAllTypes.size())];
    t.op = kAllOps[draw(kAllOps.size())];
    if (unsupported(t.type, t.op) != nullptr) t.op = hktSum;
    if (unsupported(t.type, t.op) != nullptr) t.op = hktLogicalOr;
    if (const size_t made = draw(kOpKinds); made != 0) {
      t.made = static_cast<OpKind>(made);
      t.op = ops_[&comm][made];
      if (t.made == OpKind::pre_mul_sum) t.type = hktInt32;
    }
    std::vector<const void*> in;
    std::vector<void*> out;
    std::vector<size_t> counts;
    for (uint32_t left = draw(12); left != 0; --left) {
      t.salt = draw(100'000);
      t.in_place = draw(2) == 0;
      t.count = t.made == OpKind::built_in ? size(draw) : size(draw) % 300;
      t.in_memory = memory(d, comm, t);
      t.out_memory = memory(d, comm, t);
      const Attempt& a = d.list.emplace_back(comm, t);
      in.push_back(a.in());
      out.push_back(a.out());
      counts.push_back(t.count);
    }
    good(all_reduce_list(comm, {in.data(), out.data(), counts.data(), counts.size(), t.type}, t.op, options));
  }

  // A ring of messages with a tag of few: in a group, or one after the other.
  void ring(Communicator& comm, Random& draw, Done& d, const CallOptions& options) {
    const int n = comm.size(), me = comm.rank();
    const uint32_t salt = draw();
    const uint64_t count = size(draw);
    const int shift = 1 + static_cast<int>(draw(static_cast<size_t>(n)));
    const int to = (me + shift) % n, from = (me + n - shift % n) % n, tag = static_cast<int>(draw(3));
    d.in = data(me, count, salt);
    d.out.resize(count);
    d.expected = data(from, count, salt);
    const TransferSpec send{d.in.data(), count, hktInt32, to, tag, Channel::user, true};
    const TransferSpec receive{d.out.data(), count, hktInt32, from, tag, Channel::user, false};
    const bool alone = ThisThread::get().group.depth == 0;
    const bool grouped = alone && (draw(2) == 0 || to == me);
    if (grouped) group_start();
    if (alone && !grouped && options.request == nullptr) {
      good(comm.transfer(send, {}));  // before its receive, whatever its size
      good(comm.transfer(receive, {}));
    } else {
      good(comm.transfer(receive, grouped ? CallOptions{} : options));
      good(comm.transfer(send, {}));
    }
    if (grouped) good(group_end(options.request));
  }

  // Elements that one rank has for another one.
  static uint64_t share(uint64_t count, uint32_t salt, int from, int to) {
    return (static_cast<uint64_t>(from * 7 + to * 3) + salt) % 4 == 0 ? 0 : count / 3 + static_cast<uint64_t>(from);
  }
  // All that `from` has for the others, or that they have for it; the table in `counts`.
  static std::vector<int32_t> shares(int n, const std::function<std::pair<int, int>(int)>& pair, uint64_t count,
                                     uint32_t salt, std::vector<uint64_t>& counts) {
    std::vector<int32_t> all;
    for (int r = 0; r < n; ++r) {
      const auto [from, to] = pair(r);
      counts.push_back(share(count, salt, from, to));
      const auto part = data(from, counts.back(), salt + static_cast<uint32_t>(to));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  void to_all_v(Communicator& comm, Random& draw, Done& d, const CallOptions& options) {
    const int n = comm.size(), me = comm.rank();
    const uint32_t salt = draw();
    const uint64_t count = size(draw);
    d.in = shares(n, [me](int r) { return std::pair(me, r); }, count, salt, d.counts);
    d.expected = shares(n, [me](int r) { return std::pair(r, me); }, count, salt, d.other_counts);
    d.out.resize(d.expected.size());
    good(all_to_all_v(comm, {d.in.data(), {d.counts.data(), nullptr}}, {d.out.data(), {d.other_counts.data(), nullptr}},
                      hktInt32, options));
  }

  void gather_of_v(Communicator& comm, Random& draw, Done& d, const CallOptions& options) {
    const int n = comm.size(), me = comm.rank(), root = static_cast<int>(draw(static_cast<size_t>(n)));
    const uint32_t salt = draw();
    const uint64_t count = size(draw), mine = share(count, salt, me, root);
    const bool in_place = draw(2) == 0;
    d.in = data(me, mine, salt + static_cast<uint32_t>(root));
    const int32_t* from = d.in.data();
    if (me == root) {
      d.expected = shares(n, [root](int r) { return std::pair(r, root); }, count, salt, d.counts);
      d.out.resize(d.expected.size());
      if (in_place) {
        uint64_t at = 0;
        for (int r = 0; r < me; ++r) at += d.counts[static_cast<size_t>(r)];
        from = d.out.data() + at;
        std::copy(d.in.begin(), d.in.end(), d.out.data() + at);
      }
    }
    good(gather_v(comm, {from, nullptr, mine}, {d.out.data(), {d.counts.data(), nullptr}}, {root, hktInt32}, options));
  }

  void scatter_of_v(Communicator& comm, Random& draw, Done& d, const CallOptions& options) {
    const int n = comm.size(), me = comm.rank(), root = static_cast<int>(draw(static_cast<size_t>(n)));
    const uint32_t salt = draw();
    const uint64_t count = size(draw), mine = share(count, salt, root, me);
    if (me == root) d.in = shares(n, [root](int r) { return std::pair(root, r); }, count, salt, d.counts);
    d.expected = data(root, mine, salt + static_cast<uint32_t>(me));
    d.out.resize(mine);
    good(scatter_v(comm, {d.in.data(), {d.counts.data(), nullptr}}, {nullptr, d.out.data(), mine}, {root, hktInt32},
                   options));
  }

  // Waits for or tests one of those outstanding; which is this rank's own choice.
  void finish_some() {
    if (outstanding_.empty()) return;
    const size_t k = own_(outstanding_.size());
    Done& d = outstanding_[k];
    if (own_(3) == 0) {
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
  Pool& pool_;
  std::map<Communicator*, Registration> registered_;  // 0: none at the moment
  int calls_ = 0;
  Random shared_, own_;
  std::map<Communicator*, std::array<hktRedOp_t, kOpKinds>> ops_;
  uint64_t folds_ = 0;  // the context of the program's operations
  std::deque<Done> outstanding_;
};

// Of a rank, for buffers that peers can map: most of those that are outstanding at any time.
constexpr uint64_t kPool = 16 << 20;

int calls_of_a_run() {
  if (const char* given = std::getenv("HOCKET_TEST_CALLS"); given != nullptr) return std::atoi(given);
  return std::getenv("HOCKET_TEST_FULL") != nullptr ? 100'000 : 10'000;
}

class Soak : public Places {};

TEST_P(Soak, EveryBit) {
  const uint32_t drawn = seed();
  const int calls = calls_of_a_run();
  const char* const given = std::getenv("HOCKET_PROTO");
  const std::string_view protocol = given != nullptr ? given : "auto";
  // Messages of slots so small never lie elsewhere.
  const bool copies_all = protocol == "slot" || GetParam().small || std::string_view(GetParam().transport) == "tcp";
  const bool rare = protocol == "direct";  // is for large all-reduces and all-gathers alone
  for (const int n : {2, 3}) {
    std::printf("%d ranks, %d calls, HOCKET_TEST_SEED=%u\n", n, calls, drawn);
    std::fflush(stdout);
    std::atomic<uint64_t> without_copy = 0;
    run_world(world(n), [&](Communicator& comm, int rank) {
      auto twin = duplicate(comm, {});
      auto turned = split(comm, {0, -rank}, {});                            // its ranks are in another order
      auto part = split(comm, {rank == 2 ? HKT_SPLIT_NOCOLOR : 0, 0}, {});  // without the last of three
      ASSERT_TRUE(twin.ok() && turned.ok() && part.ok());
      Pool pool(kPool);
      Program({&comm, twin->get(), turned->get(), part->get()}, pool, drawn).run(calls);
      if (HasFailure()) {
        for (Communicator* c : {&comm, twin->get(), turned->get(), part->get()})
          if (c != nullptr) c->abort();
        return;
      }
      for (const Communicator* c : {&comm, twin->get(), turned->get(), part->get()})
        if (c != nullptr) without_copy += c->messages_without_copy();
      good(finalize(**twin));
    });
    if (copies_all) {
      EXPECT_EQ(without_copy, 0u);
    } else if (!rare && GetParam().hosts == 1) {
      EXPECT_GT(without_copy, 0u);
    }
    ASSERT_FALSE(HasFailure()) << "HOCKET_TEST_SEED=" << drawn << " repeats it";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Soak, testing::ValuesIn(kPlaces), place_name);
// Most messages are cut for three connections.
INSTANTIATE_TEST_SUITE_P(Stripes, Soak, testing::Values(Where{"Tcp", "tcp", 1, false, tcp::Striping{3, 300, 128}}),
                         place_name);

}  // namespace
}  // namespace hocket::test
