// Ranks as processes that read one another's private memory: results are those of copied messages, and where it is
// refused, ranks say so and copy.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/identity.h"
#include "bootstrap/rendezvous.h"
#include "comm/bringup.h"
#include "comm/children.h"
#include "conformance/call_check.h"
#include "multiprocess/meeting_place.h"
#include "multiprocess/readable.h"
#include "transport/cma.h"

namespace hocket::test {
namespace {

// Slots that a few thousand floats fill more than once, and that take messages which lie elsewhere.
constexpr RingGeometry kRings{2, 8 * 1024, 1};

struct Job {
  int n = 2;
  std::string algo;
  std::optional<RingGeometry> geometry;
  std::function<void(int)> before;  // in the process of a rank, before it is brought up
  const char* transport = "shm";
};

// In n processes of one job, each of which fails if an expectation in it does. A rank that cannot be brought up gives
// body its error.
void run_job(const Job& job, const std::function<void(Result<std::unique_ptr<Communicator>>&, int)>& body) {
  const MeetingPlace place;
  ASSERT_TRUE(place.ok());
  std::vector<pid_t> pids;
  std::fflush(stdout);  // or each child would print it, too
  for (int rank = 0; rank < job.n; ++rank) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      alarm(100);
      let_all_read();
      if (job.before) job.before(rank);
      CommSettings settings;
      settings.timeout_ms = 20'000;
      settings.transport = job.transport;
      settings.algo = job.algo;
      settings.geometry = job.geometry;
      const Deadline deadline = Deadline::in_ms(30'000);
      Result<std::unique_ptr<Communicator>> comm = [&]() -> Result<std::unique_ptr<Communicator>> {
        HKT_ASSIGN(const Identity me, parse_url(place.url(rank, job.n)));
        HKT_ASSIGN(const std::unique_ptr<Rendezvous> rendezvous, Rendezvous::open(me, deadline));
        return bring_up(*rendezvous, settings, deadline);
      }();
      body(comm, rank);
      if (comm.ok()) comm->reset();
      std::fflush(stdout);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    pids.push_back(pid);
  }
  for (int rank = 0; rank < job.n; ++rank) {
    int status = 0;
    waitpid(pids[static_cast<size_t>(rank)], &status, 0);
    EXPECT_EQ(status, 0) << "rank " << rank << " of " << job.n << ", " << job.algo;
  }
}

// All collectives in counts that make one round and several, messages below and above the size from which they may lie
// elsewhere.
void try_all(Communicator& comm) {
  uint32_t salt = 0;
  for (const Kind& kind : all_kinds()) {
    const bool blocks = layout(kind.collective) == Layout::blocks;
    each_trial(kind, std::array{500u, 2048u, blocks ? 5000u : 20'000u}, comm.size(), salt, [&](Trial& t) {
      average_at_times(t);
      check_call(comm, t);
    });
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Sets a variable of the environment for the children of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// From now on this process gets EPERM of a system call.
void deny(uint32_t call) {
  std::array<sock_filter, 4> filter = {
      sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, call},
      sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
      sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

void deny_reading() { deny(SYS_process_vm_readv); }

std::string read_file(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(name).rdbuf();
  return text.str();
}

class Cma : public testing::Test {
  void SetUp() override {
    if (!can_read_processes()) GTEST_SKIP() << "process_vm_readv is not permitted here";
  }
};
class CmaRead : public Cma {};

TEST_F(Cma, PrivateMemoryIsReadAndGivesTheSame) {
  const Variable proto("HOCKET_PROTO", "cma");
  for (const char* algo : {"two_shot,binomial,direct,flat", "ring,chain,pairwise", "one_shot,circulant", "double_tree",
                           "halving_doubling,nhr", "swing,pat4", "nhr,pat1", "bidirectional_ring"}) {
    for (const int n : {2, 3, 4}) {
      run_job({n, algo, kRings, {}}, [](auto& comm, int) {
        ASSERT_TRUE(comm.ok()) << comm.error().text;
        try_all(**comm);
        EXPECT_GT((*comm)->messages_without_copy(), 0u);
      });
    }
  }
}

// Messages of the size that programs have, which fill their slots and are fetched in parts.
TEST_F(Cma, LargeMessages) {
  const Variable proto("HOCKET_PROTO", "cma");
  run_job({3, "two_shot,binomial,direct,flat", {}, {}}, [](auto& comm, int) {
    ASSERT_TRUE(comm.ok()) << comm.error().text;
    for (const Kind& kind : all_kinds()) {
      Trial t;
      t.collective = kind.collective;
      t.table = kind.table;
      t.count = 300'001;
      check_call(**comm, t);
    }
  });
}

// The choice itself takes it somewhere, or copies everywhere: either is right.
TEST_F(Cma, WhatIsChosenIsRight) {
  for (const int n : {2, 4}) {
    run_job({n, "", {}, {}}, [](auto& comm, int) {
      ASSERT_TRUE(comm.ok()) << comm.error().text;
      for (const Kind& kind : all_kinds()) {
        for (const uint64_t count : {40'000u, 400'000u}) {
          Trial t;
          t.collective = kind.collective;
          t.table = kind.table;
          t.count = count;
          check_call(**comm, t);
        }
      }
    });
  }
}

// An input may change as soon as the call has returned.
TEST_F(Cma, AnInputMayChangeAfterTheCall) {
  const Variable proto("HOCKET_PROTO", "cma");
  run_job({3, "two_shot,binomial,direct,flat", kRings, {}}, [](auto& comm, int me) {
    ASSERT_TRUE(comm.ok()) << comm.error().text;
    std::vector<unsigned char> in(size_t{1} << 20);
    for (uint32_t salt = 0; salt < 10; ++salt) {
      for (const Kind& kind : all_kinds()) {
        Trial t;
        t.collective = kind.collective;
        t.table = kind.table;
        t.count = 3000;
        t.salt = salt;
        t.root = static_cast<int>(salt) % 3;
        t.in_memory = in.data();
        Attempt attempt(**comm, t);
        const Status done = attempt.issue();
        ASSERT_TRUE(done.ok()) << done.error().text;
        std::fill(in.begin(), in.end(), static_cast<unsigned char>(0x5a));  // peers that read it still would see this
        if (!out_is_at_root(kind.collective) || me == t.root) attempt.judge_output();
      }
    }
  });
}

// One rank that may not read is enough: all copy, one of them says why, once.
TEST_F(Cma, WhereItIsDeniedMessagesAreCopied) {
  char directory[] = "/tmp/hocket-cma.XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string log = std::string(directory) + "/log";
  const Variable file("HOCKET_DEBUG_FILE", log.c_str()), level("HOCKET_DEBUG", "INFO");
  for (const bool all : {false, true}) {
    Job job;
    job.n = 3;
    job.geometry = kRings;
    job.before = [all](int rank) {
      if (all || rank == 1) deny_reading();
    };
    run_job(job, [](auto& comm, int) {
      ASSERT_TRUE(comm.ok()) << comm.error().text;
      try_all(**comm);
      EXPECT_EQ((*comm)->messages_without_copy(), 0u);
    });
    const std::string said = read_file(log);
    const size_t once = said.find("process_vm_readv is not permitted");
    EXPECT_NE(once, std::string::npos) << said;
    EXPECT_EQ(said.find("process_vm_readv", once + 1), std::string::npos) << said;
    std::remove(log.c_str());
  }
  rmdir(directory);
}

// HOCKET_CMA=1: then it is an error of all ranks.
TEST_F(Cma, IsAnErrorWhereItIsDeniedButNeeded) {
  for (const auto& [name, value] : {std::pair("HOCKET_CMA", "1"), std::pair("HOCKET_PROTO", "cma")}) {
    const Variable needed(name, value);
    Job job;
    job.before = [](int rank) {
      if (rank == 1) deny_reading();
    };
    run_job(job, [](auto& comm, int) {
      ASSERT_FALSE(comm.ok());
      EXPECT_NE(comm.error().text.find("process_vm_readv is not permitted"), std::string::npos) << comm.error().text;
      EXPECT_NE(comm.error().text.find("HOCKET_CMA=1"), std::string::npos) << comm.error().text;
    });
  }
}

// One rank that is told never to is enough as well, and nothing to talk about.
TEST_F(Cma, IsNotUsedIfOneRankDoesNotWantIt) {
  run_job(
      {2, "", kRings, [](int rank) { setenv(rank == 0 ? "HOCKET_PROTO" : "HOCKET_CMA", rank == 0 ? "auto" : "0", 1); }},
      [](auto& comm, int) {
        ASSERT_TRUE(comm.ok()) << comm.error().text;
        EXPECT_FALSE((*comm)->parts().facts.readable);
        try_all(**comm);
        EXPECT_EQ((*comm)->messages_without_copy(), 0u);
      });
  const Variable needed("HOCKET_CMA", "1");
  run_job({2, "", {}, [](int rank) { setenv("HOCKET_CMA", rank == 0 ? "1" : "0", 1); }}, [](auto& comm, int) {
    ASSERT_FALSE(comm.ok());
    EXPECT_NE(comm.error().text.find("rank 1 does not read (HOCKET_CMA=0, or HOCKET_PROTO="), std::string::npos)
        << comm.error().text;
  });
}

// What ranks do not share they do not read either: an error where it is needed, on all ranks.
TEST_F(Cma, IsAnErrorWhereItIsNeededAndNoMemoryIsShared) {
  struct Case {
    const char *transport, *shm, *shm_of_last, *text;
  };
  for (const auto& [name, value] : {std::pair("HOCKET_CMA", "1"), std::pair("HOCKET_PROTO", "cma")}) {
    const Variable needed(name, value);
    for (const Case& c : {Case{"auto", "off", "off", "shares no memory with rank"},
                          Case{"auto", "memfd", "devshm", "shares no memory with rank"},
                          Case{"auto", "memfd", "off", "shares no memory with rank"},
                          Case{"tcp", "memfd", "memfd", "transport tcp is asked for, but HOCKET_CMA=1"}}) {
      Job job;
      job.transport = c.transport;
      job.before = [&c](int rank) { setenv("HOCKET_SHM", rank == 0 ? c.shm : c.shm_of_last, 1); };
      run_job(job, [&c](auto& comm, int) {
        ASSERT_FALSE(comm.ok()) << c.transport << ", " << c.shm << ", " << c.shm_of_last;
        EXPECT_NE(comm.error().text.find(c.text), std::string::npos) << comm.error().text;
      });
    }
  }
}

// The same where the memory could not be mapped.
TEST_F(Cma, IsAnErrorWhereItIsNeededAndMappingFails) {
  const Variable needed("HOCKET_CMA", "1");
  Job job;
  job.transport = "auto";
  job.before = [](int rank) {
    if (rank == 0) deny(SYS_memfd_create);
  };
  run_job(job, [](auto& comm, int) {
    ASSERT_FALSE(comm.ok());
    EXPECT_NE(comm.error().text.find("shares no memory with rank"), std::string::npos) << comm.error().text;
  });
  // Where it is not needed they use TCP.
  const Variable wanted("HOCKET_CMA", "auto");
  run_job(job, [](auto& comm, int) {
    ASSERT_TRUE(comm.ok()) << comm.error().text;
    try_all(*comm.value());
  });
}

TEST_F(Cma, SettingsThatContradictEachOtherAreAnError) {
  for (const auto& [proto, cma] : {std::pair("slot", "1"), std::pair("cma", "0")}) {
    const Variable first("HOCKET_PROTO", proto), second("HOCKET_CMA", cma);
    run_job({}, [](auto& comm, int) {
      ASSERT_FALSE(comm.ok());
      EXPECT_NE(comm.error().text.find("contradict each other"), std::string::npos) << comm.error().text;
    });
  }
}

// Communicators made from a communicator read as it does.
TEST_F(Cma, ChildrenReadAsWell) {
  const Variable proto("HOCKET_PROTO", "cma");
  run_job({3, "two_shot", {}, {}}, [](auto& comm, int) {
    ASSERT_TRUE(comm.ok()) << comm.error().text;
    CommSettings settings;
    auto child = duplicate(**comm, settings);
    ASSERT_TRUE(child.ok()) << child.error().text;
    Trial t;
    t.count = 100'000;
    check_call(**child, t);
    EXPECT_GT((*child)->messages_without_copy(), 0u);
  });
}

// --- reading alone

// A process with a page of its own, which it takes away when it is told to.
class Other {
 public:
  Other() {
    int down[2], up[2];
    if (pipe(down) != 0 || pipe(up) != 0) std::abort();
    pid = fork();
    if (pid == 0) {
      void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      auto at = reinterpret_cast<uint64_t>(page);
      *static_cast<uint64_t*>(page) = 4711;
      char word = 0;
      if (write(up[1], &at, sizeof at) != sizeof at || read(down[0], &word, 1) != 1) _exit(1);
      munmap(page, 4096);
      if (write(up[1], &at, sizeof at) != sizeof at || read(down[0], &word, 1) != 1) _exit(1);
      _exit(0);
    }
    to_ = down[1];
    from_ = up[0];
    close(down[0]);
    close(up[1]);
    hear();
  }
  ~Other() {
    if (pid > 0) end();
    close(to_);
    close(from_);
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  void unmap() {
    EXPECT_EQ(write(to_, "u", 1), 1);
    hear();
  }
  void end() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  pid_t pid = -1;
  uint64_t address = 0;

 private:
  void hear() { EXPECT_EQ(read(from_, &address, sizeof address), static_cast<ssize_t>(sizeof address)); }
  int to_ = -1, from_ = -1;
};

TEST_F(CmaRead, AProofIsTheNumberThatThePeerHas) {
  const Other other;
  EXPECT_TRUE(try_reading({other.pid, other.address, 4711}).ok());
  for (const ReadProof& wrong : {ReadProof{other.pid, other.address, 4712}, ReadProof{other.pid, 64, 4711},
                                 ReadProof{INT32_MAX, other.address, 4711}}) {
    const Status s = try_reading(wrong);
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().text.find("another PID namespace"), std::string::npos) << s.error().text;
  }
}

std::string error_of_reading(const Other& other) {
  uint64_t number = 0;
  try {
    read_process({5, other.pid}, &number, other.address, sizeof number);
  } catch (const ReadError& e) {
    EXPECT_EQ(e.rank(), 5);
    return e.what();
  }
  EXPECT_EQ(number, 4711u);
  return "";
}

// Also where only the second of its pages is bad, and where it may be read but not written.
TEST_F(CmaRead, AFaultOfTheOutputIsThisRanksOwn) {
  const Other other;
  auto* const pages =
      static_cast<unsigned char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  for (const int left : {PROT_NONE, PROT_READ}) {
    ASSERT_EQ(mprotect(pages + 4096, 4096, left), 0);
    for (unsigned char* const to : {pages + 4096, pages + 4092}) {
      try {
        read_process({5, other.pid}, to, other.address, 8);
        ADD_FAILURE() << "nothing is wrong";
      } catch (const ReadError& e) {
        EXPECT_EQ(e.rank(), -1);
        EXPECT_NE(std::string(e.what()).find("this rank's output cannot be written"), std::string::npos) << e.what();
      }
    }
  }
  munmap(pages, 8192);
}

TEST_F(CmaRead, WhatIsNoLongerPermittedSaysSo) {
  const Other other;
  EXPECT_EQ(error_of_reading(other), "");
  const pid_t pid = fork();
  if (pid == 0) {
    deny_reading();
    const std::string text = error_of_reading(other);
    EXPECT_NE(text.find("rank 5"), std::string::npos) << text;
    EXPECT_NE(text.find("no longer permitted"), std::string::npos) << text;
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

// What a driver has mapped is used as memory but cannot be read by others: such a page every process has.
TEST_F(CmaRead, MemoryOfDriversIsCopied) {
  std::vector<unsigned char> plain(10'000);
  EXPECT_TRUE(can_be_read(plain.data(), plain.size()));
  EXPECT_TRUE(can_be_read(plain.data(), 1));
  EXPECT_TRUE(can_be_read(nullptr, 0));
  const std::string maps = read_file("/proc/self/maps");
  const size_t name = maps.find(" [vvar]");
  if (name == std::string::npos) return;
  const size_t line = maps.rfind('\n', name) + 1;
  auto* const page = reinterpret_cast<unsigned char*>(std::stoull(maps.substr(line), nullptr, 16));
  EXPECT_FALSE(can_be_read(page, 1));
}

TEST_F(CmaRead, AFaultOfThePeerIsAnErrorThatNamesIt) {
  Other other;
  EXPECT_EQ(error_of_reading(other), "");
  other.unmap();
  EXPECT_NE(error_of_reading(other).find("memory of rank 5"), std::string::npos) << error_of_reading(other);
  other.end();
  EXPECT_NE(error_of_reading(other).find("rank 5"), std::string::npos) << error_of_reading(other);
  EXPECT_NE(error_of_reading(other).find("has ended"), std::string::npos) << error_of_reading(other);
  other.pid = -1;
}

}  // namespace
}  // namespace hocket::test
