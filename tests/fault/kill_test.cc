// kill -9 of any rank at a random moment, once the communicator is there, whatever the calls and in whatever form:
// every other rank returns an error that names it within five seconds, from all that it has outstanding, and nothing is
// left behind. Over TCP ranks are connected as calls need it, so many have not met when one dies. HOCKET_TEST_FULL=1
// makes 200 kills of each form over each transport; HOCKET_TEST_SEED is the first one's seed.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/deadline.h"
#include "hocket/hocket.h"
#include "multiprocess/deny.h"
#include "multiprocess/meeting_place.h"
#include "multiprocess/readable.h"

namespace hocket::test {
namespace {

// What a surviving rank reports through its pipe.
struct Outcome {
  int32_t code = hktSuccess;
  int64_t returned_ns = 0;
  char text[240] = "";
};

using Options = const hktCallOptions_t*;

// Whose buffers are registered with the communicator; those of even ranks: messages go one way by registered memory.
enum class Registers : uint8_t { none, all, even };

// A rank and its buffers: one to read, and one for the result of each call that may be outstanding. Of registered
// memory, if the job says so, and registering goes well; it fails with the peers like any call.
class Rank {
 public:
  Rank(hktComm_t to_use, int n, int rank, size_t elements)
      : comm(to_use), nranks(n), me(rank), count(elements), each_(count * static_cast<size_t>(n)) {
    for (int r = 0; r < n; ++r) {
      counts.push_back(r == 0 ? 0 : count);
      sends.push_back(between(me, r));
      receives.push_back(between(r, me));
    }
  }
  const hktComm_t comm;
  const int nranks, me;
  const size_t count;
  std::vector<size_t> counts, sends, receives;  // the same on all ranks; to and from the others

  int after(int steps) const { return (me + steps) % nranks; }
  // Moves on with every call, in the same way on all ranks.
  int root() { return static_cast<int>(calls_++) % nranks; }
  size_t between(int from, int to) const { return (from + to) % 3 == 1 ? 0 : count; }
  hktResult_t allocate(Registers who) {
    hktRegistration_t registration = nullptr;
    if (who == Registers::none || (who == Registers::even && me % 2 == 1)) {
      private_.resize(kBuffers * each_, 1.0f);
      memory_ = private_.data();
      return who == Registers::none ? hktSuccess : hktCommRegister(comm, nullptr, 0, &registration);
    }
    void* at = nullptr;
    if (const hktResult_t r = hktMemAlloc(&at, kBuffers * each_ * sizeof(float)); r != hktSuccess) return r;
    memory_ = static_cast<float*>(at);
    std::fill_n(memory_, kBuffers * each_, 1.0f);
    return hktCommRegister(comm, at, kBuffers * each_ * sizeof(float), &registration);
  }
  const float* in() const { return memory_; }
  float* out() { return memory_ + (1 + calls_++ % (kBuffers - 1)) * each_; }

 private:
  static constexpr size_t kBuffers = 9;
  const size_t each_;  // elements of a buffer
  std::vector<float> private_;
  float* memory_ = nullptr;
  size_t calls_ = 0;
};

constexpr auto kFloat = hktFloat32;
using Call = hktResult_t (*)(Rank&, Options);
constexpr Call kCollectives[] = {
    [](Rank& r, Options o) { return hktAllReduce(r.in(), r.out(), r.count, kFloat, hktMax, r.comm, o); },
    [](Rank& r, Options o) { return hktBroadcast(r.in(), r.out(), r.count, kFloat, r.root(), r.comm, o); },
    [](Rank& r, Options o) { return hktBarrier(r.comm, o); },
    [](Rank& r, Options o) { return hktReduce(r.in(), r.out(), r.count, kFloat, hktSum, r.root(), r.comm, o); },
    [](Rank& r, Options o) { return hktAllGather(r.in(), r.out(), r.count, kFloat, r.comm, o); },
    [](Rank& r, Options o) { return hktReduceScatter(r.in(), r.out(), r.count, kFloat, hktSum, r.comm, o); },
    [](Rank& r, Options o) { return hktAllToAll(r.in(), r.out(), r.count, kFloat, r.comm, o); },
    [](Rank& r, Options o) { return hktGather(r.in(), r.out(), r.count, kFloat, r.root(), r.comm, o); },
    [](Rank& r, Options o) { return hktScatter(r.in(), r.out(), r.count, kFloat, r.root(), r.comm, o); },
    [](Rank& r, Options o) { return hktAllGatherV(r.in(), r.out(), r.counts.data(), nullptr, kFloat, r.comm, o); },
    [](Rank& r, Options o) {
      return hktReduceScatterV(r.in(), r.out(), r.counts.data(), nullptr, kFloat, hktSum, r.comm, o);
    },
    [](Rank& r, Options o) {  // one buffer that is packed, and a large one
      const std::array<size_t, 2> counts = {r.count / 28, r.count - r.count / 28};
      float* const out = r.out();
      const std::array<const void*, 2> from = {r.in(), r.in() + counts[0]};
      const std::array<void*, 2> to = {out, out + counts[0]};
      return hktAllReduceList(from.data(), to.data(), counts.data(), counts.size(), kFloat, hktMax, r.comm, o);
    },
    [](Rank& r, Options o) {
      return hktAllToAllV(r.in(), r.sends.data(), nullptr, r.out(), r.receives.data(), nullptr, kFloat, r.comm, o);
    },
    [](Rank& r, Options o) {
      const int root = r.root();
      std::vector<size_t> to_root;
      for (int from = 0; from < r.nranks; ++from) to_root.push_back(r.between(from, root));
      return hktGatherV(r.in(), r.between(r.me, root), r.out(), to_root.data(), nullptr, kFloat, root, r.comm, o);
    },
    [](Rank& r, Options o) {
      const int root = r.root();
      std::vector<size_t> from_root;
      for (int to = 0; to < r.nranks; ++to) from_root.push_back(r.between(root, to));
      return hktScatterV(r.in(), from_root.data(), nullptr, r.out(), r.between(root, r.me), kFloat, root, r.comm, o);
    },
};
hktResult_t send(Rank& r, int peer, Options o) { return hktSend(r.in(), r.count, kFloat, peer, 3, r.comm, o); }
hktResult_t receive(Rank& r, int peer, Options o) { return hktRecv(r.out(), r.count, kFloat, peer, 3, r.comm, o); }

// Keeps what the calls of a rank have ended with: the first error, but rather one that does not name the victim.
class Verdict {
 public:
  explicit Verdict(int victim) : name_("rank " + std::to_string(victim)) {}
  bool failed() const { return outcome_.code != hktSuccess; }
  void take(hktResult_t r) {
    if (r == hktSuccess || unexpected_) return;
    const std::string text = hktGetLastError();
    unexpected_ = r != hktRemoteError || text.find(name_) == std::string::npos;
    if (failed() && !unexpected_) return;
    outcome_.code = r;
    std::memset(outcome_.text, 0, sizeof outcome_.text);
    text.copy(outcome_.text, sizeof outcome_.text - 1);
  }
  Outcome outcome() const {
    Outcome o = outcome_;
    o.returned_ns = now_ns();
    return o;
  }

 private:
  const std::string name_;
  Outcome outcome_;
  bool unexpected_ = false;
};

// One round of calls in each form; `which` chooses the collectives. All of a round's calls have ended when it returns.
Call collective(uint32_t which) { return kCollectives[which % std::size(kCollectives)]; }

void blocking(Rank& r, uint32_t which, Verdict& v) { v.take(collective(which)(r, nullptr)); }

void messages(Rank& r, uint32_t which, Verdict& v) {
  if (which % 2 == 0) {  // in a ring, each of which is first sent
    v.take(send(r, r.after(1), nullptr));
    if (!v.failed()) v.take(receive(r, r.after(r.nranks - 1), nullptr));
    return;
  }
  // Along a chain, whose first rank never waits for anybody if they are small. Not faster than they are received.
  if (r.me > 0) v.take(receive(r, r.me - 1, nullptr));
  if (!v.failed() && r.me + 1 < r.nranks) {
    const bool grouped = which % 4 == 3;
    if (grouped) v.take(hktGroupStart());
    v.take(send(r, r.me + 1, nullptr));
    if (grouped) v.take(hktGroupEnd(nullptr));
  }
  if (r.me == 0) usleep(50);
}

void group(Rank& r, uint32_t which, Verdict& v) {
  v.take(hktGroupStart());
  v.take(receive(r, r.after(1), nullptr));
  v.take(collective(which)(r, nullptr));
  v.take(send(r, r.after(r.nranks - 1), nullptr));
  v.take(collective(which + 5)(r, nullptr));
  v.take(hktGroupEnd(nullptr));
}

void requests(Rank& r, uint32_t which, Verdict& v) {
  std::array<hktRequest_t, 6> requests{};
  for (size_t i = 0; i < requests.size(); ++i) {
    hktCallOptions_t o = HKT_CALL_OPTIONS_INITIALIZER;
    o.request = &requests[i];
    const int next = r.after(1), before = r.after(r.nranks - 1);
    v.take(i == 1   ? receive(r, before, &o)
           : i == 3 ? send(r, next, &o)
                    : collective(which + static_cast<uint32_t>(i) * 3)(r, &o));
  }
  // Each rank in its own order, by waits and by tests.
  for (size_t k = 0; k < requests.size(); ++k) {
    hktRequest_t& one = requests[(k * 5 + static_cast<size_t>(r.me)) % requests.size()];
    if (one == nullptr) continue;  // was refused
    hktResult_t end = hktSuccess;
    int done = 0;
    if (k % 2 == 0)
      end = hktRequestWait(&one);
    else
      while (end == hktSuccess && done == 0) end = hktRequestTest(&one, &done);
    v.take(end);
    if (one != nullptr) v.take(hktInternalError);
  }
}

struct Form {
  const char* name;
  void (*round)(Rank&, uint32_t which, Verdict&);
  int kills;  // without HOCKET_TEST_FULL
};
constexpr Form kForms[] = {{"Blocking", blocking, static_cast<int>(std::size(kCollectives))},
                           {"Messages", messages, 6},
                           {"Groups", group, 7},
                           {"Requests", requests, 7}};
struct Way {
  const char* name;
  const char* transport;
  const char* shm;       // HOCKET_SHM
  const char* protocol;  // HOCKET_PROTO
  Registers registers = Registers::none;
  bool denied = false;        // no rank may read the memory of another
  bool all = true;            // of the kinds of calls; without HOCKET_TEST_FULL else few
  const char* sockets = "1";  // HOCKET_NSOCKS_PERPEER
};
constexpr Way kWays[] = {{"Shm", "shm", "memfd", "auto"},
                         {"Devshm", "shm", "devshm", "auto", Registers::none, false, false},
                         {"Denied", "shm", "memfd", "auto", Registers::none, true, false},
                         {"Cma", "shm", "memfd", "cma"},
                         {"Registered", "shm", "memfd", "auto", Registers::all},
                         {"RegisteredSlot", "shm", "memfd", "slot", Registers::all, false, false},
                         {"RegisteredMapped", "shm", "memfd", "mapped", Registers::all, false, false},
                         {"RegisteredDirect", "shm", "memfd", "direct", Registers::all, false, false},
                         {"OneSide", "shm", "memfd", "auto", Registers::even, false, false},
                         {"Tcp", "tcp", "memfd", "auto"},
                         {"TcpStripes", "tcp", "memfd", "auto", Registers::none, false, false, "3"}};

struct Victim {
  int rank, nranks;
};

[[noreturn]] void rank_main(const MeetingPlace& place, int rank, const Victim& victim, int out,
                            const std::function<void(hktComm_t, Verdict&)>& work) {
  alarm(20);  // whatever happens, no process is left
  let_all_read();
  Verdict verdict(victim.rank);
  hktConfig_t config = HKT_CONFIG_INITIALIZER;
  hktComm_t comm = nullptr;
  verdict.take(hktCommInitUrl(&comm, place.url(rank, victim.nranks).c_str(), &config));
  if (!verdict.failed()) {
    const char ready = 1;
    if (write(out, &ready, 1) != 1) _exit(3);
    while (!verdict.failed()) work(comm, verdict);
  }
  const Outcome o = verdict.outcome();
  if (write(out, &o, sizeof o) != sizeof o) _exit(3);
  if (comm != nullptr) (void)hktCommDestroy(comm);
  _exit(0);
}

// Files of segments in /dev/shm. Directories there are of other programs, which stay for minutes.
std::set<std::string> segments() {
  std::set<std::string> names;
  if (DIR* d = opendir("/dev/shm")) {
    while (const dirent* e = readdir(d))
      if (e->d_type != DT_DIR && std::strncmp(e->d_name, "hocket", 6) == 0) names.insert(e->d_name);
    closedir(d);
  }
  return names;
}

// Those of other jobs come and go: what stays is ours.
void expect_gone(const std::set<std::string>& before) {
  std::set<std::string> left;
  for (int i = 0; i < 100; ++i) {
    left.clear();
    for (const std::string& name : segments())
      if (before.count(name) == 0) left.insert(name);
    if (left.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ADD_FAILURE() << left.size() << " segments are left in /dev/shm, " << *left.begin() << " for one";
}

void kill_one(const Form& form, const Way& way, uint32_t seed, uint32_t which, int longest_ms) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", calls " + std::to_string(which));
  std::mt19937 random(seed);
  const int n = 2 + static_cast<int>(random() % 3);
  const Victim victim{static_cast<int>(random() % static_cast<uint32_t>(n)), n};
  const size_t counts[] = {1, 1000, 200'000};
  const size_t count = counts[random() % 3];
  const auto before = segments();

  const MeetingPlace place;
  ASSERT_TRUE(place.ok());
  std::vector<pid_t> pids;
  std::vector<int> pipes;
  for (int rank = 0; rank < n; ++rank) {
    int p[2];
    ASSERT_EQ(pipe(p), 0);
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      std::unique_ptr<Rank> me;
      if (way.denied && !deny_reading_of_processes()) _exit(4);
      rank_main(place, rank, victim, p[1], [&](hktComm_t comm, Verdict& v) {
        if (me == nullptr) {
          me = std::make_unique<Rank>(comm, n, rank, count);
          v.take(me->allocate(way.registers));
        }
        if (!v.failed()) form.round(*me, which, v);
      });
    }
    close(p[1]);
    pids.push_back(pid);
    pipes.push_back(p[0]);
  }
  for (int rank = 0; rank < n; ++rank) {
    char ready = 0;
    ASSERT_EQ(read(pipes[static_cast<size_t>(rank)], &ready, 1), 1) << "rank " << rank << " did not come up";
    ASSERT_EQ(ready, 1) << "rank " << rank << " did not come up";
  }
  // Early moments more often: that is when ranks meet.
  usleep(static_cast<useconds_t>(random() % (static_cast<uint32_t>(1000 * longest_ms) >> random() % 6)));
  const int64_t killed = now_ns();
  kill(pids[static_cast<size_t>(victim.rank)], SIGKILL);
  for (int rank = 0; rank < n; ++rank) {
    if (rank == victim.rank) continue;
    Outcome o;
    const ssize_t got = read(pipes[static_cast<size_t>(rank)], &o, sizeof o);
    ASSERT_EQ(got, static_cast<ssize_t>(sizeof o)) << "rank " << rank << " of " << n << " died, too";
    EXPECT_EQ(o.code, hktRemoteError) << "rank " << rank << ": " << o.text;
    EXPECT_NE(std::string(o.text).find("rank " + std::to_string(victim.rank)), std::string::npos)
        << "rank " << rank << ", victim " << victim.rank << " of " << n << ": " << o.text;
    EXPECT_LT(o.returned_ns - killed, 5'000'000'000) << "rank " << rank << ": " << o.text;
  }
  for (int rank = 0; rank < n; ++rank) {
    int status = 0;
    waitpid(pids[static_cast<size_t>(rank)], &status, 0);
    EXPECT_TRUE(rank == victim.rank ? WIFSIGNALED(status) : status == 0) << "rank " << rank << ": " << status;
  }
  for (const int fd : pipes) close(fd);
  std::set<std::string> left = place.contents();
  left.erase("meet");  // of the victim's job
  EXPECT_EQ(left, std::set<std::string>{});
  expect_gone(before);
}

class Kill : public testing::TestWithParam<std::tuple<Form, Way>> {};

TEST_P(Kill, TheOthersNameTheDeadRank) {
  const auto& [form, way] = GetParam();
  if (std::strcmp(way.protocol, "cma") == 0 && !can_read_processes())
    GTEST_SKIP() << "process_vm_readv is not permitted here";
  const bool full = std::getenv("HOCKET_TEST_FULL") != nullptr;
  setenv("HOCKET_TRANSPORT", way.transport, 1);
  setenv("HOCKET_SHM", way.shm, 1);
  setenv("HOCKET_PROTO", way.protocol, 1);
  setenv("HOCKET_NSOCKS_PERPEER", way.sockets, 1);
  const char* const given = std::getenv("HOCKET_TEST_SEED");
  const uint32_t seed = given == nullptr ? 1000 : static_cast<uint32_t>(std::strtoul(given, nullptr, 10));
  const int kills = full ? 200 : way.all ? form.kills : 3;
  for (int i = 0; i < kills && !HasFailure(); ++i)
    kill_one(form, way, seed + static_cast<uint32_t>(i), static_cast<uint32_t>(i), full ? 100 : 30);
}

INSTANTIATE_TEST_SUITE_P(All, Kill, testing::Combine(testing::ValuesIn(kForms), testing::ValuesIn(kWays)),
                         [](const auto& c) {
                           return std::string(std::get<0>(c.param).name) + std::get<1>(c.param).name;
                         });

}  // namespace
}  // namespace hocket::test
