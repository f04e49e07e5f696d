// Point-to-point messages and groups: matching, sizes, orders, and what does not fit.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <random>

#include "inprocess/calls.h"

namespace hocket::test {
namespace {

class PointToPointTest : public Places {};

void sleep_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

Status end_group() { return group_end(nullptr); }

TEST_P(PointToPointTest, RingWithEverybodySendingFirst) {
  for (const int n : {1, 2, 3, 4}) {
    run_world(world(n), [n](Communicator& comm, int rank) {
      const int next = (rank + 1) % n, last = (rank + n - 1) % n;
      for (const uint64_t bytes :
           {1ull, 39ull, 40ull, 41ull, 240ull, 241ull, 4096ull, 65'536ull, 65'537ull, 8ull << 20}) {
        auto out = message(rank, 3, bytes);
        std::vector<unsigned char> in(bytes);
        if (n == 1 && bytes > PointToPoint::kSmall) {  // a large send to oneself has nobody to wait for
          hktRequest_t r = nullptr;
          good(comm.transfer(send_to(next, 3, out), into(r)));
          good(comm.transfer(recv_from(last, 3, in)));
          good(wait(r));
        } else {
          good(comm.transfer(send_to(next, 3, out)));
          good(comm.transfer(recv_from(last, 3, in)));
        }
        expect_message(in, last, 3);
        if (HasFatalFailure()) return;
      }
    });
  }
}

TEST_P(PointToPointTest, SmallSendsNeverWait) {
  std::atomic<bool> sent{false};
  run_world(world(2), [&](Communicator& comm, int rank) {
    constexpr int kMessages = 100;
    if (rank == 0) {
      for (int i = 0; i < kMessages; ++i) {
        auto m = message(0, i, i % 10 == 0 ? PointToPoint::kSmall : static_cast<uint64_t>(i) * 50);
        good(comm.transfer(send_to(1, i, m)));  // the buffer ends here
      }
      sent = true;
      good(finalize(comm));
      return;
    }
    while (!sent) sleep_ms(1);  // has not looked at anything yet
    for (int k = 0; k < kMessages; ++k) {
      const int i = kMessages - 1 - k;
      std::vector<unsigned char> m(i % 10 == 0 ? PointToPoint::kSmall : static_cast<uint64_t>(i) * 50);
      good(comm.transfer(recv_from(0, i, m)));
      expect_message(m, 0, i);
      if (HasFatalFailure()) return;
    }
    good(finalize(comm));
  });
}

TEST_P(PointToPointTest, DestroySendsWhatWasPromised) {
  run_world(world(2), [&](Communicator& world, int rank) {
    auto comm = duplicate(world, {});
    ASSERT_TRUE(comm.ok());
    constexpr int kMessages = 40;
    for (int i = 0; i < kMessages; ++i) {
      auto m = message(0, i, 30'000);
      if (rank == 0) {
        good((*comm)->transfer(send_to(1, 0, m)));
        continue;
      }
      if (i == 0) sleep_ms(100);
      std::vector<unsigned char> in(30'000);
      good((*comm)->transfer(recv_from(0, 0, in)));
      expect_message(in, 0, i);
    }
    comm->reset();
    good(world.barrier());
  });
}

// Random messages with few tags, sent in one order and received in another that keeps the order of each tag.
TEST_P(PointToPointTest, TagsInAnyOrder) {
  run_world(world(3), [](Communicator& comm, int rank) {
    for (uint32_t seed = 0; seed < 4; ++seed) {
      std::mt19937 random(seed);
      struct Item {
        int from, to, tag, id;
        uint64_t bytes;
      };
      std::vector<Item> items;
      for (int id = 0; id < 120; ++id) {
        const int from = static_cast<int>(random() % 3), to = static_cast<int>(random() % 3);
        const uint64_t sizes[] = {0, 8, 100, 3000, 70'000, 200'000};
        items.push_back({from, to, static_cast<int>(random() % 4), id, sizes[random() % 6]});
      }
      std::vector<std::vector<unsigned char>> bufs(items.size() * 2);
      std::vector<hktRequest_t> requests;
      const auto issue = [&](const Item& it, bool sends) {
        auto& buf = bufs[static_cast<size_t>(it.id) * 2 + (sends ? 0 : 1)];
        buf = sends ? message(it.from, it.id, it.bytes) : std::vector<unsigned char>(it.bytes);
        requests.push_back(nullptr);
        good(comm.transfer(sends ? send_to(it.to, it.tag, buf) : recv_from(it.from, it.tag, buf),
                           into(requests.back())));
      };
      std::vector<const Item*> receives;
      for (const Item& it : items) {
        if (it.from == rank) issue(it, true);
        if (it.to == rank) receives.push_back(&it);
      }
      std::mt19937 mine(seed * 10 + static_cast<uint32_t>(rank));
      while (!receives.empty()) {
        const Item* pick = receives[mine() % receives.size()];
        // The first of its sender and tag, or matching would be another one.
        const auto first = std::find_if(receives.begin(), receives.end(),
                                        [&](const Item* it) { return it->from == pick->from && it->tag == pick->tag; });
        issue(**first, false);
        receives.erase(first);
      }
      std::shuffle(requests.begin(), requests.end(), mine);
      for (hktRequest_t r : requests) good(wait(r));
      for (const Item& it : items) {
        if (it.to == rank) expect_message(bufs[static_cast<size_t>(it.id) * 2 + 1], it.from, it.id);
        if (HasFatalFailure()) return;
      }
    }
  });
}

TEST_P(PointToPointTest, GoesOnBesideCollectives) {
  run_world(world(2), [](Communicator& comm, int rank) {
    // Rank 1 comes to the barrier only after the message that rank 0 sends after it has entered it.
    hktRequest_t barrier = nullptr;
    auto out = message(0, 1, 300'000);
    std::vector<unsigned char> in(300'000);
    if (rank == 0) {
      good(comm.barrier(into(barrier)));
      good(comm.transfer(send_to(1, 1, out)));
    } else {
      good(comm.transfer(recv_from(0, 1, in)));
      expect_message(in, 0, 1);
      good(comm.barrier(into(barrier)));
    }
    good(wait(barrier));
    // And a receive that is outstanding through collectives.
    hktRequest_t r = nullptr;
    good(comm.transfer(recv_from(1 - rank, 9, in), into(r)));
    for (int i = 0; i < 50; ++i) {
      int32_t x = 1;
      good(comm.all_reduce(&x, &x, 1, hktInt32, hktSum));
      ASSERT_EQ(x, 2);
    }
    out = message(rank, 9, 300'000);
    good(comm.transfer(send_to(1 - rank, 9, out)));
    good(wait(r));
    expect_message(in, 1 - rank, 9);
  });
}

TEST_P(PointToPointTest, WhatDoesNotFitIsTheReceivesError) {
  run_world(world(2), [](Communicator& comm, int rank) {
    for (const bool late : {false, true}) {
      for (const uint64_t bytes : {20ull, 1000ull, 200'000ull}) {
        hktRequest_t first = nullptr, second = nullptr;
        auto out = message(0, 1, bytes);
        if (rank == 0) {
          good(comm.transfer(send_to(1, 1, out), into(first)));
          good(comm.transfer(send_to(1, 1, out), into(second)));
          good(wait(first));
          good(wait(second));
        } else {
          if (late) sleep_ms(20);
          std::vector<unsigned char> small(bytes - 1, 7);
          std::vector<int32_t> other(bytes);
          Status s = comm.transfer(recv_from(0, 1, small));
          ASSERT_FALSE(s.ok());
          EXPECT_EQ(s.error().code, hktInvalidUsage);
          EXPECT_NE(s.error().text.find(std::to_string(bytes) + " elements"), std::string::npos) << s.error().text;
          EXPECT_NE(s.error().text.find(std::to_string(bytes - 1)), std::string::npos) << s.error().text;
          s = comm.transfer({other.data(), bytes, hktInt32, 0, 1, Channel::user, false});
          ASSERT_FALSE(s.ok());
          EXPECT_NE(s.error().text.find("uint8"), std::string::npos) << s.error().text;
          EXPECT_NE(s.error().text.find("int32"), std::string::npos) << s.error().text;
        }
        good(comm.barrier());  // the communicator is still good
      }
    }
    // A message may be shorter than its receive.
    auto out = message(rank, 2, 10);
    std::vector<unsigned char> in(15, 99);
    good(comm.transfer(send_to(1 - rank, 2, out)));
    good(comm.transfer(recv_from(1 - rank, 2, in)));
    EXPECT_EQ(in[9], byte_of(1 - rank, 2, 9));
    EXPECT_EQ(in[10], 99);
  });
}

TEST_P(PointToPointTest, TimeoutAbortAndLeaving) {
  std::atomic<int> over{0};
  for (const int what : {0, 1, 2, 3}) {
    over = 0;
    run_world(world(2), [&](Communicator& comm, int rank) {
      good(comm.barrier());
      if (rank == 1) {
        if (what == 1) {
          sleep_ms(50);
          comm.abort();
        }
        while (what != 2 && over == 0) sleep_ms(5);
        return;  // destroys it
      }
      std::vector<unsigned char> in(10), out(1 << 20);
      CallOptions o;
      o.timeout_ms = what == 0 || what == 3 ? 200 : 20'000;
      const int64_t start = now_ns();
      // A large send that nobody receives, or a receive that nobody sends for.
      const Status s = comm.transfer(what == 3 ? send_to(1, 77, out) : recv_from(1, 77, in), o);
      if (what != 3 || !s.ok()) {
        ASSERT_FALSE(s.ok());
        EXPECT_EQ(s.error().code, what == 1 ? hktAborted : what == 2 ? hktRemoteError : hktTimeout) << s.error().text;
        EXPECT_NE(s.error().text.find("rank 1"), std::string::npos) << s.error().text;
        EXPECT_TRUE(what == 1 || s.error().text.find("tag 77") != std::string::npos) << s.error().text;
        EXPECT_FALSE(comm.barrier().ok());
      }
      EXPECT_LT(now_ns() - start, 5'000'000'000);
      over = 1;
    });
  }
}

// A large message may be sent from where it is, but not once its caller has the buffer back.
TEST_P(PointToPointTest, ABufferIsTheCallersAgainWhenItsSendHasFailed) {
  std::atomic<bool> failed{false};
  run_world(world(2), [&](Communicator& comm, int rank) {
    constexpr uint64_t kBytes = 32 << 20;  // more than sockets and slots hold
    if (rank == 1) {                       // reads nothing
      while (!failed) sleep_ms(1);
      return;
    }
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    std::memset(memory, 1, kBytes);
    const TransferSpec send{memory, kBytes, hktInt8, 1, 3, Channel::user, true};
    hktRequest_t r = nullptr;
    good(comm.transfer(send, into(r)));
    for (int i = 0; i < 100; ++i) {
      bool done = false;
      good(test_request(r, done));
      ASSERT_FALSE(done);
    }
    comm.abort();
    EXPECT_FALSE(wait(r).ok());
    ASSERT_EQ(munmap(memory, kBytes), 0);
    for (const auto& t : comm.parts().transports) t->reclaim();  // as a later failure would: touches nothing
    failed = true;
  });
}

TEST_P(PointToPointTest, GroupsInAnyOrder) {
  run_world(world(4), [](Communicator& comm, int rank) {
    std::mt19937 random(static_cast<uint32_t>(rank));
    for (int round = 0; round < 6; ++round) {
      const uint64_t bytes = round % 2 == 0 ? 100 : 150'000;
      std::vector<std::vector<unsigned char>> out(4), in(4);
      std::vector<std::pair<bool, int>> calls;
      for (int p = 0; p < 4; ++p) {
        out[static_cast<size_t>(p)] = message(rank, p, bytes);
        in[static_cast<size_t>(p)].resize(bytes);
        calls.emplace_back(true, p);
        calls.emplace_back(false, p);
      }
      std::shuffle(calls.begin(), calls.end(), random);
      int32_t x = 1;
      group_start();
      for (const auto& [sends, p] : calls) {
        const auto i = static_cast<size_t>(p);
        group_start();
        good(comm.transfer(sends ? send_to(p, p, out[i]) : recv_from(p, rank, in[i])));
        good(end_group());
        if (p == 2 && sends) good(comm.all_reduce(&x, &x, 1, hktInt32, hktSum));
      }
      EXPECT_EQ(x, 1) << "nothing runs before the end";
      if (round < 3) {
        good(end_group());
      } else {
        hktRequest_t r = nullptr;
        good(group_end(&r));
        good(wait(r));
      }
      EXPECT_EQ(x, 4);
      for (int p = 0; p < 4; ++p) expect_message(in[static_cast<size_t>(p)], p, rank);
      if (HasFatalFailure()) return;
    }
  });
}

TEST_P(PointToPointTest, AGroupOnTwoCommunicatorsInCrossedOrder) {
  run_world(world(2), [](Communicator& a, int rank) {
    auto twin = duplicate(a, {});
    ASSERT_TRUE(twin.ok());
    Communicator& b = **twin;
    for (int i = 0; i < 10; ++i) {
      std::vector<int32_t> x(5000, 1), y(5000, 2);
      group_start();
      for (const int k : {0, 1}) {
        if ((k == 0) == (rank == 0))
          good(a.all_reduce(x.data(), x.data(), x.size(), hktInt32, hktSum));
        else
          good(b.all_reduce(y.data(), y.data(), y.size(), hktInt32, hktSum));
      }
      good(end_group());
      ASSERT_EQ(x[4999], 2);
      ASSERT_EQ(y[4999], 4);
    }
  });
}

TEST_P(PointToPointTest, MisuseOfGroups) {
  run_world(world(2), [](Communicator& comm, int) {
    EXPECT_EQ(end_group().error().code, hktInvalidUsage);
    hktRequest_t r = nullptr;
    group_start();
    good(group_end(&r));  // nothing in it
    good(wait(r));
    std::vector<unsigned char> in(4);
    group_start();
    const Status own = comm.transfer(recv_from(0, 1, in), into(r));
    ASSERT_FALSE(own.ok());
    group_fail(own.error());  // what the C interface does
    const Status s = end_group();
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().text.find("group"), std::string::npos) << s.error().text;
    good(comm.barrier());
    group_start();
    good(comm.barrier());
    const Status refused = finalize(comm);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().text.find("open"), std::string::npos) << refused.error().text;
    good(end_group());
    good(finalize(comm));
  });
}

TransferSpec recv_any(int tag, std::vector<unsigned char>& m, hktMessage_t& what) {
  TransferSpec spec = recv_from(HKT_ANY_SOURCE, tag, m);
  spec.message = &what;
  return spec;
}

TEST_P(PointToPointTest, FromAnyRank) {
  for (const int n : {1, 2, 4}) {
    run_world(world(n), [n](Communicator& comm, int rank) {
      int tag = 0;  // ranks that send are ahead
      for (const uint64_t bytes : {0ull, 100ull, 60'000ull, 1ull << 20}) {
        ++tag;
        if (rank != 0) {
          auto out = message(rank, tag, bytes);
          good(comm.transfer(send_to(0, tag, out)));
          continue;
        }
        std::vector<int> sources;
        hktRequest_t own = nullptr;
        auto out = message(0, tag, bytes);
        good(comm.transfer(send_to(0, tag, out), into(own)));  // to itself: one of them
        for (int i = 0; i < n; ++i) {
          std::vector<unsigned char> in(bytes + 7);  // longer than the message
          hktMessage_t what{};
          good(comm.transfer(recv_any(tag, in, what)));
          EXPECT_EQ(what.count, bytes);
          in.resize(bytes);
          expect_message(in, what.source, tag);
          sources.push_back(what.source);
        }
        good(wait(own));
        std::sort(sources.begin(), sources.end());
        for (int i = 0; i < n; ++i) EXPECT_EQ(sources[static_cast<size_t>(i)], i);
      }
      good(finalize(comm));
    });
  }
}

// Receives are met in the order they were started, whether they name the rank or not; tags are told apart.
TEST_P(PointToPointTest, AnyRankAndOneRankInOrder) {
  run_world(world(2), [](Communicator& comm, int rank) {
    if (rank == 1) {
      for (const int i : {1, 2, 3}) {
        auto out = message(i, 4, 1000);
        good(comm.transfer(send_to(0, 4, out)));
      }
      auto other = message(9, 5, 1000);
      good(comm.transfer(send_to(0, 5, other)));
    } else {
      std::vector<std::vector<unsigned char>> in(4, std::vector<unsigned char>(1000));
      std::array<hktMessage_t, 3> what{};
      std::array<hktRequest_t, 4> r{};
      good(comm.transfer(recv_any(5, in[3], what[0]), into(r[0])));
      good(comm.transfer(recv_any(4, in[0], what[1]), into(r[1])));
      good(comm.transfer(recv_from(1, 4, in[1]), into(r[2])));
      good(comm.transfer(recv_any(4, in[2], what[2]), into(r[3])));
      for (auto i = r.rbegin(); i != r.rend(); ++i) good(wait(*i));
      for (const int i : {1, 2, 3}) expect_message(in[static_cast<size_t>(i - 1)], i, 4);
      expect_message(in[3], 9, 5);
      for (const hktMessage_t& m : what) EXPECT_EQ(m.source, 1);
    }
    good(finalize(comm));
  });
}

TEST_P(PointToPointTest, AnyRankTimesOutAndMissesTheLastOne) {
  run_world(world(3), [](Communicator& world, int rank) {
    for (const bool leaves : {false, true}) {
      auto comm = duplicate(world, {});
      ASSERT_TRUE(comm.ok());
      std::vector<unsigned char> in(4);
      hktMessage_t what{};
      if (rank != 0) good((*comm)->transfer(send_to(0, 0, in)));
      for (int i = 0; rank == 0 && i < 2; ++i) good((*comm)->transfer(recv_any(0, in, what)));
      if (rank == 0) {
        CallOptions o;
        o.timeout_ms = leaves ? 20'000 : 300;
        const Status s = (*comm)->transfer(recv_any(1, in, what), o);
        ASSERT_FALSE(s.ok());
        EXPECT_EQ(s.error().code, leaves ? hktRemoteError : hktTimeout) << s.error().text;
        EXPECT_NE(s.error().text.find("recv(count 4, uint8, from any rank, tag 1)"), std::string::npos)
            << s.error().text;
      }
      if (!leaves) good(world.barrier());
      if (!leaves && rank == 1) {  // who is to blame, nobody can know
        std::optional<Fault> told;
        const int64_t until = now_ns() + 10'000'000'000;
        while (!told && now_ns() < until)
          for (const auto& t : (*comm)->parts().transports)
            if (!told) told = t->fault();
        ASSERT_TRUE(told.has_value());
        EXPECT_EQ(told.value_or(Fault{}).code, hktTimeout);
        EXPECT_EQ(told.value_or(Fault{}).rank, -1);
      }
      comm->reset();
      good(world.barrier());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, PointToPointTest, testing::ValuesIn(kPlaces), place_name);

}  // namespace
}  // namespace hocket::test
