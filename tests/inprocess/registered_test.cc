// Collectives on registered memory: whoever registers what, results are those of private memory, and messages go
// without copies where they can.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>

#include "algorithms/catalog.h"
#include "algorithms/zero_copy.h"
#include "conformance/call_check.h"
#include "inprocess/calls.h"
#include "inprocess/memory.h"
#include "schedule/collective.h"

namespace hocket::test {
namespace {

struct Side {
  const char* name;
  bool in, out, odd;  // what is registered; and odd ranks register nothing
};
constexpr Side kSides[] = {{"both", true, true, false},
                           {"inputs", true, false, false},
                           {"outputs", false, true, false},
                           {"even ranks", true, true, true}};
// By HOCKET_ALGO; together they have every planner with a way without copies.
constexpr std::array kAlgos = {"two_shot,binomial,direct,flat",
                               "ring,chain,pairwise",
                               "double_tree",
                               "halving_doubling,nhr",
                               "circulant",  // broadcast, too
                               "swing,pat4",
                               "nhr,pat1",
                               "bidirectional_ring"};
// Slots that a few thousand floats fill more than once, and that take messages which lie elsewhere.
constexpr RingGeometry kRings{2, 8 * 1024, 1};

// Trials of all collectives in these buffers (null: in memory of their own), with counts that make one round and
// several, messages below and above the size from which they may lie elsewhere. Returns by collective how many messages
// were not copied by this rank.
std::array<uint64_t, kCollectives> try_all(Communicator& comm, unsigned char* in, unsigned char* out) {
  std::array<uint64_t, kCollectives> without{};
  uint32_t salt = 0;
  for (const Kind& kind : all_kinds()) {
    const bool blocks = layout(kind.collective) == Layout::blocks;
    const uint64_t before = comm.messages_without_copy();
    each_trial(kind, std::array{500u, 1024u, 2048u, blocks ? 5000u : 20'000u}, comm.size(), salt, [&](Trial& t) {
      t.in_memory = in;
      t.out_memory = out;
      average_at_times(t);
      check_call(comm, t);
    });
    if (testing::Test::HasFatalFailure()) return without;
    without[static_cast<size_t>(kind.collective)] += comm.messages_without_copy() - before;
  }
  return without;
}

// What is left of a planner's ways with the HOCKET_PROTO of this process.
ZeroCopy as_forced(const ZeroCopy& way) {
  const char* const given = std::getenv("HOCKET_PROTO");
  const std::string_view protocol = given != nullptr ? given : "auto";
  return way.only(protocol == "auto" || protocol == "mapped", protocol == "auto" || protocol == "direct");
}

// What the ranks of a world have done of each collective, all together.
struct Tally {
  std::array<std::atomic<uint64_t>, kCollectives> without{};  // messages that were not copied
  std::array<const char*, kCollectives> planners{};

  std::string what(Collective of, int n) const {
    return std::string(collective_name(of)) + " " + planner(of) + " of " + std::to_string(n);
  }
  const char* planner(Collective of) const { return planners[static_cast<size_t>(of)]; }
  // Messages of several blocks are copied, which some planners of few ranks have nothing else than.
  bool several(Collective of, int n) const {
    return find_planner(of, planner(of))->info(static_cast<uint32_t>(n), 0).message_blocks > 1;
  }
};

using Counts = std::array<uint64_t, kCollectives>;
void tally(const char* algo, int n, Tally& all, const std::function<Counts(Communicator&, int)>& trials) {
  WorldSpec spec;
  spec.n = n;
  spec.transport = "shm";
  spec.algo = algo;
  spec.geometry = kRings;
  run_world(spec, [&](Communicator& comm, int me) {
    const Counts without = trials(comm, me);
    for (uint32_t c = 0; c < kCollectives; ++c) {
      all.without[c] += without[c];
      if (me == 0) all.planners[c] = comm.planner(static_cast<Collective>(c), 8192);
    }
    good(comm.barrier());
  });
}

class Registered : public testing::TestWithParam<Side> {};

TEST_P(Registered, GivesWhatPrivateMemoryGives) {
  for (const char* algo : kAlgos) {
    for (const int n : {2, 3, 4}) {
      Tally all;
      tally(algo, n, all, [](Communicator& comm, int me) {
        const bool registers = !(GetParam().odd && me % 2 == 1);
        const Arena arena(comm, registers && GetParam().in, registers && GetParam().out);
        return try_all(comm, arena.in, arena.out);
      });
      for (uint32_t c = 0; c < kCollectives; ++c) {
        const auto of = static_cast<Collective>(c);
        const ZeroCopy* const way = zero_copy(of, all.planner(of));
        if (way == nullptr || as_forced(*way).copies_all()) {
          EXPECT_EQ(all.without[c], 0u) << all.what(of, n);
        } else if (!all.several(of, n) && std::string_view(GetParam().name) == "both") {
          EXPECT_GT(all.without[c], 0u) << all.what(of, n);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Registered, testing::ValuesIn(kSides), [](const auto& side) {
  std::string name = side.param.name;
  for (char& c : name)
    if (c == ' ') c = '_';
  return name;
});

// Private memory is read where it lies, if that is asked for: between threads without a system call.
TEST(PrivateMemory, IsReadWhereItLies) {
  setenv("HOCKET_PROTO", "cma", 1);
  for (const char* algo : kAlgos) {
    for (const int n : {2, 3, 4}) {
      Tally all;
      tally(algo, n, all, [](Communicator& comm, int) { return try_all(comm, nullptr, nullptr); });
      for (uint32_t c = 0; c < kCollectives; ++c) {
        const auto of = static_cast<Collective>(c);
        if (reading(of, all.planner(of)) == nullptr) {
          EXPECT_EQ(all.without[c], 0u) << all.what(of, n);
        } else if (!all.several(of, n)) {
          EXPECT_GT(all.without[c], 0u) << all.what(of, n);
        }
      }
    }
  }
  unsetenv("HOCKET_PROTO");
}

// The algorithms of kAlgos leave none out.
TEST(RegisteredSpecs, HaveEveryPlanner) {
  for (const ZeroCopyPlanner& z : zero_copy_planners()) {
    bool found = false;
    for (const std::string algos : kAlgos)
      found = found || ("," + algos + ",").find("," + std::string(z.name) + ",") != std::string::npos;
    EXPECT_TRUE(found) << collective_name(z.collective) << " " << z.name;
  }
}

// An all-reduce of two shots copies nothing: its operands are read where they lie, its results written where they
// belong.
TEST(RegisteredMemory, TwoShotMovesNoMessageThroughASlot) {
  WorldSpec spec;
  spec.n = 3;
  spec.transport = "shm";
  spec.algo = "two_shot";
  spec.geometry = kRings;
  run_world(spec, [](Communicator& comm, int) {
    const Arena arena(comm, true, true);
    const uint64_t before = comm.messages_without_copy();
    auto* const in = reinterpret_cast<float*>(arena.in);
    auto* const out = reinterpret_cast<float*>(arena.out);
    constexpr uint64_t kCount = 3 * 2048 * 4;  // 4 rounds of 3 chunks that fill a slot
    good(comm.all_reduce(in, out, kCount, hktFloat32, hktSum));
    EXPECT_EQ(comm.messages_without_copy() - before, 4u * 2 * 2);
  });
}

// Registrations come and go between calls; a freed region is nobody's any more.
TEST(RegisteredMemory, ComesAndGoesBetweenCalls) {
  WorldSpec spec;
  spec.n = 3;
  spec.transport = "shm";
  spec.geometry = kRings;
  run_world(spec, [](Communicator& comm, int me) {
    uint32_t salt = 0;
    for (int turn = 0; turn < 30; ++turn) {
      const bool registers = (turn + me) % 3 != 0;
      const Arena arena(comm, registers, registers && turn % 2 == 0);
      for (int call = 0; call < 4; ++call) {
        Trial t;
        t.collective = call % 2 == 0 ? Collective::all_reduce : Collective::all_gather;
        t.count = 6000;
        t.salt = ++salt;
        t.in_memory = arena.in;
        t.out_memory = arena.out;
        check_call(comm, t);
      }
    }
  });
}

// What the bits say of the order of operands does not hang on where the buffers are.
TEST(RegisteredMemory, SameBitsAsPrivateMemory) {
  for (const char* algo : {"two_shot", "ring", "double_tree"}) {
    WorldSpec spec;
    spec.n = 4;
    spec.transport = "shm";
    spec.algo = algo;
    spec.geometry = kRings;
    run_world(spec, [](Communicator& comm, int me) {
      constexpr uint64_t kCount = 30'000;
      const Arena arena(comm, true, true);
      std::vector<float> in(kCount), plain(kCount);
      for (uint64_t i = 0; i < kCount; ++i)
        in[i] = 1.0f / static_cast<float>(1 + (i * 7 + static_cast<uint64_t>(me)) % 1013);
      good(comm.all_reduce(in.data(), plain.data(), kCount, hktFloat32, hktSum));
      std::memcpy(arena.in, in.data(), kCount * sizeof(float));
      good(comm.all_reduce(arena.in, arena.out, kCount, hktFloat32, hktSum));
      const auto* const bits = reinterpret_cast<const unsigned char*>(plain.data());
      EXPECT_TRUE(std::equal(bits, bits + kCount * sizeof(float), arena.out));
    });
  }
}

// An input may change as soon as the call has returned.
TEST(RegisteredMemory, AnInputMayChangeAfterTheCall) {
  for (const char* algo : {"two_shot,binomial,direct,flat", "ring,chain,pairwise"}) {
    WorldSpec spec;
    spec.n = 3;
    spec.transport = "shm";
    spec.algo = algo;
    spec.geometry = kRings;
    run_world(spec, [](Communicator& comm, int me) {
      const Arena arena(comm, true, true);
      for (uint32_t salt = 0; salt < 20; ++salt) {
        for (const Kind& kind : all_kinds()) {
          Trial t;
          t.collective = kind.collective;
          t.table = kind.table;
          t.count = 3000;
          t.salt = salt;
          t.root = static_cast<int>(salt) % comm.size();
          t.in_memory = arena.in;
          t.out_memory = arena.out;
          Attempt attempt(comm, t);
          good(attempt.issue());
          std::memset(arena.in, 0x5a, kRoom);  // peers that read it still would see this
          const bool has_out = !out_is_at_root(kind.collective) || me == t.root;
          if (has_out) attempt.judge_output();
        }
      }
    });
  }
}

// It is freed only when it is not registered any more, which waits for the collectives issued before, and for nothing
// else: a message that has not come is none of its business.
TEST(RegisteredMemory, OutstandingCallsKeepIt) {
  WorldSpec spec;
  spec.transport = "shm";
  run_world(spec, [](Communicator& comm, int me) {
    Result<void*> memory = allocate_shared(64 * 1024);
    ASSERT_TRUE(memory.ok()) << memory.error().text;
    Result<Registration> registration = register_memory(comm, *memory, 64 * 1024);
    ASSERT_TRUE(registration.ok()) << registration.error().text;
    const Status freed = free_shared(*memory);
    ASSERT_FALSE(freed.ok());
    EXPECT_NE(freed.error().text.find("registered with a communicator"), std::string::npos) << freed.error().text;
    std::vector<unsigned char> word(1);
    hktRequest_t message = nullptr, sum = nullptr;
    if (me == 0) good(comm.transfer(recv_from(1, 5, word), into(message)));
    auto* const x = static_cast<float*>(*memory);
    std::fill_n(x, 16 * 1024, 1.0f);
    good(comm.all_reduce(x, x, 16 * 1024, hktFloat32, hktSum, into(sum)));
    good(deregister_memory(comm, *registration));
    EXPECT_EQ(std::count(x, x + 16 * 1024, 2.0f), 16 * 1024);
    good(wait(sum));
    if (me == 1) good(comm.transfer(send_to(0, 5, word)));
    if (message != nullptr) good(wait(message));
    EXPECT_EQ(deregister_memory(comm, *registration).error().code, hktInvalidArgument);
    EXPECT_EQ(deregister_memory(comm, 0).error().code, hktInvalidArgument);
    good(free_shared(*memory));
  });
}

// Ranks that don't do the same are told so, and nothing has changed.
TEST(RegisteredMemory, RanksThatDisagreeAreTold) {
  WorldSpec spec;
  spec.transport = "shm";
  run_world(spec, [](Communicator& comm, int me) {
    Arena first(comm, true, true);
    const Result<Registration> r = me == 0 ? register_memory(comm, nullptr, 0) : Result<Registration>(Registration{0});
    if (me == 1) {
      const Status s = deregister_memory(comm, 1);
      ASSERT_FALSE(s.ok());
      EXPECT_NE(s.error().text.find("the same in the same order"), std::string::npos) << s.error().text;
    } else {
      ASSERT_FALSE(r.ok());
      EXPECT_NE(r.error().text.find("the same in the same order"), std::string::npos) << r.error().text;
    }
    good(comm.barrier());
  });
}

// A call whose ranks disagree is a mismatch, and nobody writes to what was granted for another call.
TEST(RegisteredMemory, AMismatchLeavesOutputsAlone) {
  WorldSpec spec;
  spec.transport = "shm";
  spec.algo = "nhr";  // all-gather: the first message may be direct
  run_world(spec, [](Communicator& comm, int me) {
    const Arena arena(comm, true, true);
    std::fill_n(arena.out, kRoom, static_cast<unsigned char>(0x11));
    const uint64_t count = me == 0 ? 16 * 1024 : 4 * 1024;
    const Data data{arena.in, arena.out, count, hktFloat32};
    const Status s = comm.all_gather(data);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktMismatch) << s.error().text;
    const uint64_t mine = 2 * count * sizeof(float);
    EXPECT_TRUE(std::all_of(arena.out + mine, arena.out + kRoom, [](unsigned char c) { return c == 0x11; }));
  });
}

// Ranks that share no memory take registrations and go on as before.
TEST(RegisteredMemory, IsOfNoConsequenceOverTcp) {
  WorldSpec spec;
  spec.transport = "tcp";
  run_world(spec, [](Communicator& comm, int) {
    const Arena arena(comm, true, true);
    try_all(comm, arena.in, arena.out);
    EXPECT_EQ(comm.messages_without_copy(), 0u);
  });
}

// Only ranks of one host reach one another's memory; the calls of all go on as ever.
TEST(RegisteredMemory, OfSeveralHosts) {
  WorldSpec spec;
  spec.n = 5;
  spec.hosts = 2;
  spec.geometry = kRings;
  for (const char* algo : {"ring,chain", "two_shot,binomial,direct,flat", ""}) {
    spec.algo = algo;
    run_world(spec, [](Communicator& comm, int) {
      const Arena arena(comm, true, true);
      try_all(comm, arena.in, arena.out);
      good(comm.barrier());
    });
  }
}

TEST(RegisteredMemory, TooManyAndOverlappingOnesAreErrors) {
  WorldSpec spec;
  spec.transport = "shm";
  run_world(spec, [](Communicator& comm, int) {
    Result<void*> memory = allocate_shared((kRegions + 1) * 4096);
    ASSERT_TRUE(memory.ok()) << memory.error().text;
    auto* const at = static_cast<unsigned char*>(*memory);
    std::vector<Registration> made;
    for (uint64_t i = 0; i < kRegions; ++i) {
      Result<Registration> r = register_memory(comm, at + i * 4096, 4096);
      ASSERT_TRUE(r.ok()) << r.error().text;
      made.push_back(*r);
    }
    Result<Registration> r = register_memory(comm, at + kRegions * 4096, 4096);
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.error().text.find("64 registrations"), std::string::npos) << r.error().text;
    good(deregister_memory(comm, made.back()));
    made.pop_back();
    r = register_memory(comm, at + 4000, 4096);
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.error().text.find("overlaps"), std::string::npos) << r.error().text;
    for (const Registration registration : made) good(deregister_memory(comm, registration));
    good(free_shared(*memory));
  });
}

// One rank's mistake is told to all, nothing is registered, and the communicator goes on.
TEST(RegisteredMemory, PrivateMemoryOfOneRankIsAnErrorOfAll) {
  WorldSpec spec;
  spec.n = 3;
  spec.transport = "shm";
  run_world(spec, [](Communicator& comm, int me) {
    Result<void*> memory = allocate_shared(8192);
    ASSERT_TRUE(memory.ok()) << memory.error().text;
    std::vector<unsigned char> mine(8192);
    const Result<Registration> r = register_memory(comm, me == 1 ? mine.data() : *memory, 8192);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, hktInvalidArgument);
    EXPECT_NE(r.error().text.find("private to this process"), std::string::npos) << r.error().text;
    EXPECT_EQ(r.error().text.find("rank 1 cannot register") != std::string::npos, me != 1) << r.error().text;
    good(comm.barrier());
    good(free_shared(*memory));
  });
}

// HOCKET_PROTO: what is asked for, and no more.
TEST(RegisteredMemory, GoesTheWayThatIsAskedFor) {
  WorldSpec spec;
  spec.n = 3;
  spec.transport = "shm";
  spec.algo = "two_shot,direct";  // mapped on the way to the sum, direct on the way back
  spec.geometry = kRings;
  struct Way {
    const char* protocol;
    uint64_t all_reduces;  // messages without a copy
  };
  for (const Way& way : {Way{"slot", 0}, Way{"mapped", 8}, Way{"direct", 8}, Way{"auto", 16}}) {
    setenv("HOCKET_PROTO", way.protocol, 1);
    run_world(spec, [&](Communicator& comm, int) {
      const Arena arena(comm, true, true);
      const uint64_t before = comm.messages_without_copy();
      good(comm.all_reduce(arena.in, arena.out, 3 * 2048 * 4, hktFloat32, hktSum));
      EXPECT_EQ(comm.messages_without_copy() - before, way.all_reduces) << way.protocol;
      try_all(comm, arena.in, arena.out);
    });
  }
  unsetenv("HOCKET_PROTO");
}

// The choice of planners follows what all ranks have registered, on all of them from the same call on.
TEST(RegisteredMemory, ChangesTheChoiceOnAllRanksAtOnce) {
  WorldSpec spec;
  spec.n = 4;
  spec.transport = "shm";
  run_world(spec, [](Communicator& comm, int me) {
    const std::string before = comm.planner(Collective::all_reduce, 1 << 20);
    {
      const Arena some(comm, me != 2, false);
      EXPECT_EQ(comm.planner(Collective::all_reduce, 1 << 20), before);
    }
    {
      const Arena all(comm, true, true);
      EXPECT_STREQ(comm.planner(Collective::all_reduce, 1 << 20), "two_shot");
    }
    EXPECT_EQ(comm.planner(Collective::all_reduce, 1 << 20), before);
  });
}

}  // namespace
}  // namespace hocket::test
