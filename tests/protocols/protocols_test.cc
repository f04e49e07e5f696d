// Every collective between processes, each way a message may go forced in turn: memory that all ranks have registered,
// some of them or none, with and without the right to read another process. Every bit compared.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bootstrap/identity.h"
#include "bootstrap/rendezvous.h"
#include "comm/bringup.h"
#include "conformance/call_check.h"
#include "inprocess/memory.h"
#include "multiprocess/deny.h"
#include "multiprocess/meeting_place.h"

namespace hocket::test {
namespace {

struct Way {
  const char* name;
  const char* protocol;  // HOCKET_PROTO of the first rank
  const char* others;    // and of the others: it may differ
  Registers memory;
  bool denied = false;  // no rank may read the memory of another
};
constexpr Way kWays[] = {{"Private", "auto", "auto", Registers::none},
                         {"PrivateDenied", "auto", "auto", Registers::none, true},
                         {"RegisteredSlot", "slot", "slot", Registers::all},
                         {"RegisteredMapped", "mapped", "mapped", Registers::all},
                         {"RegisteredDirect", "direct", "direct", Registers::all},
                         {"Registered", "auto", "auto", Registers::all},
                         {"RegisteredDenied", "auto", "auto", Registers::all, true},
                         {"OneSide", "auto", "auto", Registers::even},
                         {"OneSideMapped", "mapped", "mapped", Registers::even},
                         {"OneSideDirect", "direct", "direct", Registers::even},
                         {"OneSideDenied", "auto", "auto", Registers::even, true},
                         {"SlotAgainstAuto", "slot", "auto", Registers::all},
                         {"MappedAgainstDirect", "mapped", "direct", Registers::all}};

// Of all collectives, with counts below and above the sizes from which messages may lie elsewhere, that make one round
// and several, in place and not.
void try_all(Communicator& comm, const Arena* arena) {
  uint32_t salt = 0;
  for (const Kind& kind : all_kinds()) {
    each_trial(kind, std::array{1u, 900u, 3000u, 50'000u}, comm.size(), salt, [&](Trial& t) {
      average_at_times(t);
      if (arena != nullptr) {
        t.in_memory = arena->in;
        t.out_memory = arena->out;
      }
      check_call(comm, t);
    });
    if (testing::Test::HasFatalFailure()) return;
  }
}

Result<std::unique_ptr<Communicator>> come_up(const std::string& url, const std::optional<RingGeometry>& geometry) {
  CommSettings settings;
  settings.timeout_ms = 20'000;
  settings.transport = "shm";
  settings.geometry = geometry;
  const Deadline deadline = Deadline::in_ms(20'000);
  HKT_ASSIGN(const Identity me, parse_url(url));
  HKT_ASSIGN(const std::unique_ptr<Rendezvous> rendezvous, Rendezvous::open(me, deadline));
  return bring_up(*rendezvous, settings, deadline);
}

void be_rank(const MeetingPlace& place, const Way& way, int n, int rank) {
  setenv("HOCKET_PROTO", rank == 0 ? way.protocol : way.others, 1);
  if (way.denied) {
    ASSERT_TRUE(deny_reading_of_processes());
  }
  // Slots that a few thousand elements fill more than once; the usual ones.
  for (const std::optional<RingGeometry>& geometry : {std::optional(RingGeometry{2, 8 * 1024, 1}), {}}) {
    auto comm = come_up(place.url(rank, n), geometry);
    ASSERT_TRUE(comm.ok()) << comm.error().text;
    std::optional<Arena> arena;
    const bool mine = registers(way.memory, rank);
    if (way.memory != Registers::none) arena.emplace(**comm, mine, mine);
    try_all(**comm, arena ? &*arena : nullptr);
    // What is forced is what happens. Private memory that may be read by others is each rank's own choice.
    const bool none = way.memory == Registers::none;
    const auto copies = [&](const char* protocol) { return std::string(protocol) == "slot" || (none && way.denied); };
    uint64_t without = (*comm)->messages_without_copy();
    if (copies(rank == 0 ? way.protocol : way.others)) {
      EXPECT_EQ(without, 0u);
    }
    const Status s = (*comm)->all_reduce(&without, &without, 1, hktUint64, hktSum);
    ASSERT_TRUE(s.ok()) << s.error().text;
    if (!none || way.denied) {
      EXPECT_EQ(without == 0, copies(way.others));
    }
  }
}

class Protocols : public testing::TestWithParam<Way> {};

TEST_P(Protocols, EveryBit) {
  for (const int n : {2, 3, 4}) {
    const MeetingPlace place;
    ASSERT_TRUE(place.ok());
    std::vector<pid_t> pids;
    std::fflush(stdout);  // or each child would print it, too
    for (int rank = 0; rank < n; ++rank) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        alarm(60);  // whatever happens, no process is left
        be_rank(place, GetParam(), n, rank);
        std::fflush(stdout);
        _exit(testing::Test::HasFailure() ? 1 : 0);
      }
      pids.push_back(pid);
    }
    for (int rank = 0; rank < n; ++rank) {
      int status = 0;
      waitpid(pids[static_cast<size_t>(rank)], &status, 0);
      EXPECT_EQ(status, 0) << "rank " << rank << " of " << n;
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Protocols, testing::ValuesIn(kWays),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace hocket::test
