// Communicators made from communicators, ranks as threads: who is in them, that they work while others do, and that the
// end of one is not the end of another. Over shared memory, TCP, and both.
#include <algorithm>
#include <atomic>
#include <numeric>

#include "comm/children.h"
#include "comm/roster.h"
#include "inprocess/world.h"

namespace hocket::test {
namespace {

using Child = std::unique_ptr<Communicator>;

CommSettings impatient(int64_t ms) {
  CommSettings s;
  s.init_timeout_ms = ms;
  return s;
}

// The members of `comm`, as ranks of the world: each adds its bit at its place.
std::vector<int> members(Communicator& comm, int world_rank) {
  std::vector<int32_t> at(static_cast<size_t>(comm.size()), 0);
  at[static_cast<size_t>(comm.rank())] = world_rank + 1;
  const Status s = comm.all_reduce(at.data(), at.data(), at.size(), hktInt32, hktSum);
  EXPECT_TRUE(s.ok()) << s.error().text;
  std::vector<int> ranks;
  for (const int32_t r : at) ranks.push_back(r - 1);
  return ranks;
}

// All-reduces of several sizes are right.
void expect_works(Communicator& comm) {
  const int n = comm.size();
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{200'000}}) {
    std::vector<int32_t> data(count);
    for (size_t i = 0; i < count; ++i) data[i] = comm.rank() + static_cast<int32_t>(i % 100);
    const Status s = comm.all_reduce(data.data(), data.data(), count, hktInt32, hktSum);
    ASSERT_TRUE(s.ok()) << s.error().text;
    for (size_t i = 0; i < count; ++i)
      ASSERT_EQ(data[i], n * (n - 1) / 2 + n * static_cast<int32_t>(i % 100)) << i << " of " << count;
  }
}

Child must(Result<Child> made) {
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().text);
  return made.ok() ? std::move(*made) : nullptr;
}

struct Case {
  const char* name;
  const char* transport;
  int hosts;
};

class Communicators : public testing::TestWithParam<Case> {
 protected:
  WorldSpec world(int n) const {
    WorldSpec spec;
    spec.n = n;
    spec.transport = GetParam().transport;
    spec.hosts = GetParam().hosts;
    return spec;
  }
};

TEST_P(Communicators, SplitByColorAndKey) {
  run_world(world(5), [](Communicator& comm, int rank) {
    // Odd ranks in reverse order, even ones all with one key, rank 4 in none.
    const int color = rank == 4 ? HKT_SPLIT_NOCOLOR : rank % 2;
    const Child child = must(split(comm, {color, rank % 2 == 1 ? -rank : 7}, {}));
    if (rank == 4) {
      EXPECT_EQ(child, nullptr);
      return;
    }
    ASSERT_NE(child, nullptr);
    const std::vector<int> expected = rank % 2 == 1 ? std::vector<int>{3, 1} : std::vector<int>{0, 2};
    EXPECT_EQ(members(*child, rank), expected);
    expect_works(*child);
  });
}

TEST_P(Communicators, SplitOfASplitAndOneOfOneRank) {
  run_world(world(6), [](Communicator& comm, int rank) {
    const Child half = must(split(comm, {rank / 3, rank}, {}));
    ASSERT_NE(half, nullptr);
    const Child part = must(split(*half, {half->rank() == 0 ? 1 : 2, -rank}, {}));
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(part->size(), half->rank() == 0 ? 1 : 2);
    const int first = rank / 3 * 3;
    const std::vector<int> expected = rank == first ? std::vector<int>{rank} : std::vector<int>{first + 2, first + 1};
    EXPECT_EQ(members(*part, rank), expected);
    expect_works(*part);
    expect_works(*half);
    expect_works(comm);
  });
}

TEST_P(Communicators, DupHasTheSameRanksAndCallsOfItsOwn) {
  run_world(world(4), [](Communicator& comm, int rank) {
    const Child twin = must(duplicate(comm, {}));
    ASSERT_NE(twin, nullptr);
    EXPECT_EQ(twin->rank(), rank);
    EXPECT_EQ(twin->size(), 4);
    EXPECT_NE(twin->parts().epoch, comm.parts().epoch);
    for (int i = 0; i < 3; ++i) {
      expect_works(comm);
      expect_works(*twin);
    }
  });
}

TEST_P(Communicators, SmallSlotsCarryTheExchange) {
  WorldSpec spec = world(5);
  spec.geometry = small_rings();
  run_world(spec, [](Communicator& comm, int rank) {
    const Child child = must(split(comm, {rank % 2, 0}, {}));
    ASSERT_NE(child, nullptr);
    expect_works(*child);
  });
}

TEST_P(Communicators, CreateIsCalledByMembersOnly) {
  run_world(world(5), [](Communicator& comm, int rank) {
    std::vector<int> list;
    if (rank == 3 || rank == 0) list = {3, 0};
    if (rank == 1 || rank == 4) list = {1, 4};
    if (list.empty()) return;  // rank 2 takes no part
    for (int i = 0; i < 3; ++i) {
      const Child child = must(create_child(comm, list, i, {}));
      ASSERT_NE(child, nullptr);
      EXPECT_EQ(members(*child, rank), list);
      expect_works(*child);
    }
  });
}

TEST_P(Communicators, ListsThatAreWrongByThemselves) {
  run_world(world(3), [](Communicator& comm, int rank) {
    const auto text = [&](std::vector<int> list) {
      auto made = create_child(comm, std::move(list), 0, {});
      EXPECT_FALSE(made.ok());
      EXPECT_EQ(made.error().code, hktInvalidArgument);
      return made.error().text;
    };
    EXPECT_EQ(text({0, 1, 2, 3}), "ranks[3] is 3, must be in [0, 3)");
    EXPECT_EQ(text({0, -1}), "ranks[1] is -1, must be in [0, 3)");
    EXPECT_EQ(text({0, 1, 2, 1}), "ranks[3] is 1, which is ranks[1] already");
    EXPECT_NE(text({(rank + 1) % 3, (rank + 2) % 3}).find("does not have the calling rank"), std::string::npos);
    auto color = split(comm, {-2, 0}, {});
    ASSERT_FALSE(color.ok());
    EXPECT_EQ(color.error().code, hktInvalidArgument);
    CommSettings other;
    other.transport = "carrier pigeon";
    auto transport = duplicate(comm, other);
    ASSERT_FALSE(transport.ok());
    EXPECT_NE(transport.error().text.find("transport of its parent"), std::string::npos) << transport.error().text;
    expect_works(comm);  // nobody was disturbed
  });
}

TEST_P(Communicators, ListsThatDoNotMatchAreAnErrorOnAllOfTheirRanks) {
  run_world(world(3), [](Communicator& comm, int rank) {
    const std::vector<int> list = rank == 1 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2};
    const int64_t before = now_ns();
    auto made = create_child(comm, list, 0, impatient(10'000));
    ASSERT_FALSE(made.ok()) << "rank " << rank;
    EXPECT_EQ(made.error().code, hktMismatch) << made.error().text;
    EXPECT_NE(made.error().text.find("hktCommCreate"), std::string::npos) << made.error().text;
    EXPECT_LT(now_ns() - before, 5'000'000'000) << "by far before the deadline";
  });
}

TEST_P(Communicators, TagsThatDoNotMatchAreAnError) {
  run_world(world(2), [](Communicator& comm, int rank) {
    auto made = create_child(comm, {0, 1}, rank, impatient(10'000));
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, hktMismatch) << made.error().text;
  });
}

TEST_P(Communicators, WhoDoesNotComeIsNamedAtTheDeadline) {
  std::atomic<int> done{0};
  run_world(world(3), [&](Communicator& comm, int rank) {
    if (rank != 2) {
      auto made = rank == 0 ? create_child(comm, {0, 2}, 0, impatient(300)) : split(comm, {0, 0}, impatient(300));
      ASSERT_FALSE(made.ok());
      EXPECT_TRUE(made.error().code == hktTimeout) << made.error().text;
      EXPECT_NE(made.error().text.find("rank"), std::string::npos) << made.error().text;
      ++done;
    } else {
      while (done < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
}

TEST_P(Communicators, ASplitIsNotAnAllReduce) {
  run_world(world(3), [](Communicator& comm, int rank) {
    float x = 1;
    Status s;
    if (rank == 1) {
      s = comm.all_reduce(&x, &x, 1, hktFloat32, hktSum);
    } else if (auto made = split(comm, {0, 0}, {}); !made.ok()) {
      s = std::move(made.error());
    }
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktMismatch) << s.error().text;
    EXPECT_NE(s.error().text.find("split()"), std::string::npos) << s.error().text;
    EXPECT_NE(s.error().text.find("all_reduce("), std::string::npos) << s.error().text;
  });
}

TEST_P(Communicators, AHundredChildrenInTurnAndAtOnce) {
  run_world(world(4), [](Communicator& comm, int rank) {
    std::vector<Child> children;
    for (int i = 0; i < 100; ++i) {
      children.push_back(must(split(comm, {(rank + i) % 2, 0}, {})));
      ASSERT_NE(children.back(), nullptr);
    }
    for (const Child& child : children) {
      int32_t one = 1;
      const Status s = child->all_reduce(&one, &one, 1, hktInt32, hktSum);
      ASSERT_TRUE(s.ok()) << s.error().text;
      EXPECT_EQ(one, 2);
    }
  });
}

TEST_P(Communicators, ChildrenOutliveTheirParent) {
  WorldSpec spec = world(4);
  // run_world owns the world's communicator, so the parent to destroy is a child itself.
  run_world(spec, [](Communicator& comm, int rank) {
    Child parent = must(duplicate(comm, {}));
    ASSERT_NE(parent, nullptr);
    const Child child = must(split(*parent, {rank / 2, 0}, {}));
    const Child whole = must(duplicate(*parent, {}));
    ASSERT_TRUE(child != nullptr && whole != nullptr);
    expect_works(*parent);
    parent.reset();
    expect_works(*child);
    expect_works(*whole);
    const Child grandchild = must(duplicate(*child, {}));
    ASSERT_NE(grandchild, nullptr);
    expect_works(*grandchild);
  });
}

// Two threads per rank use two communicators; on odd ranks they start in the other order.
TEST_P(Communicators, CrossedOrderOnTwoThreads) {
  run_world(world(4), [](Communicator& comm, int rank) {
    const Child a = must(duplicate(comm, {})), b = must(split(comm, {0, -rank}, {}));
    ASSERT_TRUE(a != nullptr && b != nullptr);
    const auto use = [](Communicator& c) {
      for (int i = 0; i < 30; ++i) {
        int32_t data[300];
        std::fill(std::begin(data), std::end(data), i);
        const Status s = c.all_reduce(data, data, 300, hktInt32, hktSum);
        ASSERT_TRUE(s.ok()) << s.error().text;
        ASSERT_EQ(data[299], 4 * i);
        if (i % 10 == 0) {
          const Child child = must(split(c, {c.rank() % 2, 0}, {}));
          ASSERT_NE(child, nullptr);
          expect_works(*child);
        }
      }
    };
    std::thread other([&] { use(rank % 2 == 0 ? *b : *a); });
    use(rank % 2 == 0 ? *a : *b);
    other.join();
    expect_works(comm);
  });
}

TEST_P(Communicators, AbortOfAChildIsTheChildsAlone) {
  run_world(world(4), [](Communicator& comm, int rank) {
    const Child child = must(split(comm, {rank % 2, 0}, {}));
    const Child twin = must(duplicate(comm, {}));
    ASSERT_TRUE(child != nullptr && twin != nullptr);
    expect_works(*child);
    expect_works(*twin);
    if (rank == 0) twin->abort();
    int32_t one = 1;
    Status s;
    while (s.ok()) s = twin->all_reduce(&one, &one, 1, hktInt32, hktMax);
    EXPECT_EQ(s.error().code, hktAborted) << s.error().text;
    expect_works(*child);
    expect_works(comm);
    const Child next = must(duplicate(comm, {}));
    ASSERT_NE(next, nullptr);
    expect_works(*next);
  });
}

TEST_P(Communicators, AbortOfTheParentIsTheParentsAlone) {
  run_world(world(4), [](Communicator& comm, int rank) {
    const Child child = must(split(comm, {rank / 2, 0}, {}));
    ASSERT_NE(child, nullptr);
    expect_works(*child);
    expect_works(comm);
    if (rank == 3) comm.abort();
    Status s;
    while (s.ok()) s = comm.barrier();
    EXPECT_EQ(s.error().code, hktAborted) << s.error().text;
    auto refused = split(comm, {0, 0}, {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, hktAborted) << refused.error().text;
    expect_works(*child);
  });
}

TEST_P(Communicators, FinalizeIsTheLastCall) {
  run_world(world(4), [](Communicator& comm, int rank) {
    Child child = must(duplicate(comm, {}));
    ASSERT_NE(child, nullptr);
    expect_works(*child);
    const Status done = finalize(*child);
    ASSERT_TRUE(done.ok()) << done.error().text;
    const Status late = child->barrier();
    ASSERT_FALSE(late.ok());
    EXPECT_EQ(late.error().code, hktInvalidUsage);
    EXPECT_NE(late.error().text.find("finalized"), std::string::npos) << late.error().text;
    EXPECT_FALSE(finalize(*child).ok());
    EXPECT_FALSE(duplicate(*child, {}).ok());
    EXPECT_EQ(child->async_error(), hktSuccess);
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const int64_t before = now_ns();
    child.reset();
    EXPECT_LT(now_ns() - before, 200'000'000) << "nobody is waited for";
    expect_works(comm);
  });
}

// A broadcast's root returns before the others have seen that they call something else.
TEST_P(Communicators, FinalizeShowsAMismatchThatTheRootHadNotNoticed) {
  run_world(world(3), [](Communicator& comm, int rank) {
    const Child child = must(duplicate(comm, {}));
    ASSERT_NE(child, nullptr);
    int32_t x = rank;
    Status s = child->broadcast(&x, &x, rank == 0 ? 1 : 0, hktInt32, 0);
    if (s.ok()) s = finalize(*child);
    ASSERT_FALSE(s.ok()) << "rank " << rank;
    EXPECT_EQ(s.error().code, hktMismatch) << s.error().text;
  });
}

TEST_P(Communicators, FinalizeOfOneIsNoCallOfAnother) {
  run_world(world(2), [](Communicator& comm, int rank) {
    const Child child = must(duplicate(comm, {}));
    ASSERT_NE(child, nullptr);
    const Status s = rank == 0 ? finalize(*child) : child->barrier();
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, hktMismatch) << s.error().text;
    EXPECT_NE(s.error().text.find("finalize()"), std::string::npos) << s.error().text;
  });
}

TEST_P(Communicators, TimeoutsAreInheritedUnlessGiven) {
  run_world(world(2), [](Communicator& comm, int) {
    CommSettings settings;
    settings.timeout_ms = 1234;
    const Child given = must(duplicate(comm, settings)), inherited = must(duplicate(*given, {}));
    ASSERT_TRUE(given != nullptr && inherited != nullptr);
    EXPECT_EQ(given->parts().timeout_ms, 1234);
    EXPECT_EQ(inherited->parts().timeout_ms, 1234);
    EXPECT_EQ(comm.parts().timeout_ms, 20'000);
  });
}

// What a child may share with its parent, it does: no descriptor of its own on one host.
TEST(CommunicatorsShare, TheFileOfTheirHost) {
  WorldSpec spec;
  spec.n = 3;
  spec.transport = "shm";
  run_world(spec, [](Communicator& comm, int) {
    const Child child = must(duplicate(comm, {}));
    ASSERT_NE(child, nullptr);
    EXPECT_EQ(child->parts().roster->file, comm.parts().roster->file);
    EXPECT_NE(child->parts().roster->file, nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Communicators,
                         testing::Values(Case{"Shm", "shm", 1}, Case{"Tcp", "tcp", 1}, Case{"Mixed", "auto", 2}),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace hocket::test
