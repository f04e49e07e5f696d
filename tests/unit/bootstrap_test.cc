// Bring-up over each kind of store, with ranks as threads: right, wrong, disturbed, and after a killed job.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/socket.h"
#include "bootstrap/file_store.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/tcp_protocol.h"
#include "bootstrap/tcp_server.h"
#include "bootstrap/tcp_store.h"
#include "bootstrap/wire.h"

namespace hocket {
namespace {

using namespace std::chrono_literals;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A store as a user may give one: a map in memory.
class MemoryStore {
 public:
  // Some stores refuse a key that exists, some overwrite it.
  enum class Twice : uint8_t { refuse, overwrite };
  explicit MemoryStore(Twice twice) : twice_(twice) {}

  hktStore_t callbacks() {
    hktStore_t out{};
    out.size = sizeof out;
    out.ctx = this;
    out.put = [](void* ctx, const char* key, const void* value, size_t size) {
      auto* self = static_cast<MemoryStore*>(ctx);
      const std::lock_guard lock(self->mutex_);
      if (self->twice_ == Twice::refuse && self->values_.count(key) != 0) return 1;
      self->values_[key] = std::string(static_cast<const char*>(value), size);
      self->changed_.notify_all();
      return 0;
    };
    out.get = [](void* ctx, const char* key, void* value, size_t* size) {
      auto* self = static_cast<MemoryStore*>(ctx);
      const std::lock_guard lock(self->mutex_);
      const auto found = self->values_.find(key);
      if (found == self->values_.end()) return 1;
      found->second.copy(static_cast<char*>(value), *size);
      *size = found->second.size();
      return 0;
    };
    out.wait = [](void* ctx, const char* key, int64_t timeout_ms) {
      auto* self = static_cast<MemoryStore*>(ctx);
      std::unique_lock lock(self->mutex_);
      const auto here = [&]() { return self->values_.count(key) != 0; };
      // Not wait_for: TSan of GCC 12 does not know the call behind it.
      return self->changed_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms),
                                       here)
                 ? 0
                 : 1;
    };
    return out;
  }

 private:
  const Twice twice_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

uint16_t free_port() {
  const auto listener = listen_on(Address::loopback(Family::v4, 0));
  return local_address(listener.value().get()).value().port();
}

enum class Kind : uint8_t { tcp, file, unique_id, callbacks_refuse, callbacks_overwrite };

// One place where the ranks of one job meet.
class Place {
 public:
  explicit Place(Kind kind) : kind_(kind), memory_(kind == Kind::callbacks_refuse ? MemoryStore::Twice::refuse
                                                                                  : MemoryStore::Twice::overwrite) {
    static std::atomic<int> counter{0};
    if (kind == Kind::tcp) url_ = "tcp://127.0.0.1:" + std::to_string(free_port());
    path_ = testing::TempDir() + "/rendezvous." + std::to_string(getpid()) + "." + std::to_string(counter++);
    if (kind == Kind::file) url_ = "file://" + path_;
    if (kind == Kind::unique_id) {
      EXPECT_TRUE(make_unique_id(&id_).ok());
    }
  }

  Result<std::unique_ptr<Rendezvous>> open(int rank, int nranks, Deadline deadline,
                                           const RendezvousOptions& options = {}) {
    switch (kind_) {
      case Kind::tcp:
      case Kind::file:
        return Rendezvous::open(Identity{rank, nranks, -1, url_}, deadline, options);
      case Kind::unique_id:
        return Rendezvous::open(id_, nranks, rank, deadline, options);
      case Kind::callbacks_refuse:
      case Kind::callbacks_overwrite:
        break;
    }
    return Rendezvous::open(memory_.callbacks(), nranks, rank, deadline, options);
  }

  const std::string& url() const { return url_; }
  const std::string& path() const { return path_; }
  uint16_t port() const { return parse_host_port(url_.substr(6)).value().port; }

 private:
  const Kind kind_;
  std::string url_;
  std::string path_;
  hktUniqueId id_{};
  MemoryStore memory_;
};

// What one process of a job is told and does; the error text it got, "" for none.
struct Process {
  int rank = 0;
  int nranks = 1;
  int after_ms = 0;  // comes later
  RendezvousOptions options = {};
  std::function<Status(Rendezvous&)> body = [](Rendezvous& r) { return r.leave(); };
};

std::vector<std::string> run(Place& place, const std::vector<Process>& processes, int deadline_ms) {
  std::vector<std::string> errors(processes.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < processes.size(); ++i) {
    threads.emplace_back([&, i]() {
      const Process& p = processes[i];
      std::this_thread::sleep_for(std::chrono::milliseconds(p.after_ms));
      auto rendezvous = place.open(p.rank, p.nranks, Deadline::in_ms(deadline_ms), p.options);
      if (!rendezvous) {
        errors[i] = rendezvous.error().text;
        return;
      }
      const Status status = p.body(**rendezvous);
      if (!status.ok()) errors[i] = status.error().text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<Process> processes(const std::vector<int>& ranks, int nranks) {
  std::vector<Process> out;
  for (const int rank : ranks) out.push_back({rank, nranks});
  return out;
}

std::vector<int> up_to(int n) {
  std::vector<int> out;
  for (int i = 0; i < n; ++i) out.push_back(i);
  return out;
}

void expect_all_say(const std::vector<std::string>& errors, const std::string& part) {
  for (const std::string& error : errors) EXPECT_TRUE(contains(error, part)) << "'" << error << "' lacks: " << part;
}

class EveryStore : public testing::TestWithParam<Kind> {};

TEST_P(EveryStore, AllRanksMeetAndExchange) {
  for (const int n : {1, 2, 3, 8, 64}) {
    Place place(GetParam());
    std::mutex mutex;
    std::set<uint64_t> nonces;
    std::vector<Process> all = processes(up_to(n), n);
    for (Process& p : all) {
      p.body = [&](Rendezvous& r) -> Status {
        {
          const std::lock_guard lock(mutex);
          nonces.insert(r.nonce());
        }
        for (int round = 0; round < 2; ++round) {
          // Values of any bytes and of different lengths, none among them, and longer than a first guess of a buffer.
          const auto value = [&](int rank) { return std::string(static_cast<size_t>(rank * 700), '\0') + "v"; };
          HKT_ASSIGN(const std::vector<std::string> got,
                     r.all_gather("round" + std::to_string(round), r.rank() == 0 ? "" : value(r.rank())));
          EXPECT_EQ(got.size(), static_cast<size_t>(n));
          for (int i = 0; i < n; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], i == 0 ? "" : value(i));
        }
        HKT_TRY(r.barrier("end"));
        return r.leave();
      };
    }
    for (const std::string& error : run(place, all, 20'000)) EXPECT_EQ(error, "") << n;
    EXPECT_EQ(nonces.size(), 1u);
    EXPECT_NE(*nonces.begin(), 0u);
    EXPECT_NE(access(place.path().c_str(), F_OK), 0) << "the file stayed";
  }
}

TEST_P(EveryStore, RanksThatNeverComeAreNamedOnAllThatDid) {
  Place place(GetParam());
  const auto errors = run(place, processes({0, 1, 3, 4}, 8), 300);
  expect_all_say(errors, "ranks 2, 5-7 of 8 did not come within 0.3 s: ");
  EXPECT_NE(access(place.path().c_str(), F_OK), 0) << "the file stayed";
}

TEST_P(EveryStore, RankZeroThatNeverComesIsNamed) {
  Place place(GetParam());
  const auto errors = run(place, processes({1, 3}, 4), 300);
  if (GetParam() == Kind::tcp) {
    expect_all_say(errors, "of 4 could not reach rank 0 at " + place.url() + " before the deadline: cannot connect");
  } else {
    expect_all_say(errors, "ranks 0, 2 of 4 did not come within 0.3 s: ");
  }
}

TEST_P(EveryStore, TwoProcessesWithOneRankAreAnErrorOnAll) {
  // Rank 2 comes late, or the three might be up before the fourth is here.
  Place place(GetParam());
  std::vector<Process> all = processes({0, 1, 1, 2}, 3);
  all[3].after_ms = 100;
  const auto errors = run(place, all, 10'000);
  // A store that overwrites in silence may let two puts at the same moment pass.
  const bool overwritten = contains(errors[0], "two processes wrote the key 'hocket/card/1' of the store");
  if (GetParam() == Kind::callbacks_overwrite && overwritten) return expect_all_say(errors, errors[0]);
  expect_all_say(errors, "two processes say they are rank 1 of 3: host ");
}

TEST_P(EveryStore, DifferentWorldSizesAreAnErrorOnAll) {
  for (const int odd : {0, 2}) {
    Place place(GetParam());
    std::vector<Process> all = processes({0, 1, 2, 3, 4}, 4);
    all[static_cast<size_t>(odd)].nranks = 5;
    all[4].nranks = 5;
    all[4].after_ms = 100;
    const auto errors = run(place, all, 10'000);
    expect_all_say(errors, "give all the same WORLD_SIZE");
    expect_all_say(errors, "of 5");
  }
}

TEST_P(EveryStore, AnotherVersionIsAnErrorOnAll) {
  for (const int odd : {0, 2}) {
    Place place(GetParam());
    std::vector<Process> all = processes({0, 1, 2}, 3);
    all[static_cast<size_t>(odd)].options.version = 70809;
    const auto errors = run(place, all, 10'000);
    expect_all_say(errors, "install the same version for all ranks");
    expect_all_say(errors, "7.8.9");
  }
}

TEST_P(EveryStore, AnErrorOfOneRankReachesAll) {
  for (const int odd : {0, 2}) {
    Place place(GetParam());
    std::vector<Process> all = processes(up_to(4), 4);
    for (Process& p : all) {
      p.body = [&](Rendezvous& r) -> Status {
        if (r.rank() == odd) {
          const Error mine = error(hktSystemError, "rank %d has no memory", r.rank());
          r.fail(mine);
          return mine;
        }
        return r.barrier("step");
      };
    }
    expect_all_say(run(place, all, 10'000), "rank " + std::to_string(odd) + " has no memory");
  }
}

TEST_P(EveryStore, ARankThatGivesUpIsNamed) {
  Place place(GetParam());
  std::vector<Process> all = processes(up_to(3), 3);
  for (Process& p : all) {
    p.body = [&](Rendezvous& r) -> Status { return r.rank() == 1 ? Status() : r.barrier("step"); };
  }
  const auto errors = run(place, all, 10'000);
  EXPECT_EQ(errors[1], "");
  for (const size_t i : {0, 2}) EXPECT_TRUE(contains(errors[i], "rank 1 of 3 gave up during bring-up")) << errors[i];
}

TEST_P(EveryStore, ARankThatIsSlowInALaterStepIsNamed) {
  Place place(GetParam());
  std::vector<Process> all = processes(up_to(3), 3);
  for (Process& p : all) {
    p.body = [&](Rendezvous& r) -> Status {
      if (r.rank() == 2) std::this_thread::sleep_for(600ms);
      return r.barrier("connect");
    };
  }
  expect_all_say(run(place, all, 400), "rank 2 of 3 did not get to the step 'connect' of bring-up within 0.4 s");
}

TEST_P(EveryStore, RanksMayComeInAnyOrder) {
  Place place(GetParam());
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int rank = 2; rank >= 0; --rank) {
    threads.emplace_back([&, rank]() {
      auto r = place.open(rank, 3, Deadline::in_ms(10'000));
      const Status status = r ? (*r)->leave() : Status(r.error());
      errors[static_cast<size_t>(rank)] = status.ok() ? "" : status.error().text;
    });
    std::this_thread::sleep_for(40ms);
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  constexpr const char* kNames[] = {"tcp", "file", "unique_id", "callbacks_refuse", "callbacks_overwrite"};
  return kNames[static_cast<size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Stores, EveryStore,
                         testing::Values(Kind::tcp, Kind::file, Kind::unique_id, Kind::callbacks_refuse,
                                         Kind::callbacks_overwrite),
                         kind_name);

TEST(TcpRendezvous, TwoRankZeros) {
  Place place(Kind::tcp);
  std::vector<Process> all = processes({0, 1, 0, 2}, 3);
  all[3].after_ms = 700;
  expect_all_say(run(place, all, 10'000), "two processes say they are rank 0 of 3: host ");
}

TEST(TcpRendezvous, PortTakenByAnotherProgram) {
  Place place(Kind::tcp);
  auto other = listen_on(Address::loopback(Family::v4, place.port()));
  ASSERT_TRUE(other);
  const auto errors = run(place, processes({0}, 2), 10'000);
  EXPECT_TRUE(contains(errors[0], "rank 0 of 2: cannot listen on " + place.url().substr(6) + ": the port is taken"))
      << errors[0];
  // One rank meets nobody and needs no port.
  EXPECT_EQ(run(place, processes({0}, 1), 10'000)[0], "");
}

TEST(TcpRendezvous, LocalhostMeansBothFamilies) {
  const std::string url = "tcp://localhost:" + std::to_string(free_port());
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank]() {
      auto r = Rendezvous::open(Identity{rank, 2, -1, url}, Deadline::in_ms(10'000));
      const Status status = r ? (*r)->leave() : Status(r.error());
      errors[static_cast<size_t>(rank)] = status.ok() ? "" : status.error().text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

// Connects as soon as somebody listens.
Fd connect_stray(const Address& to) {
  const Deadline deadline = Deadline::in_ms(10'000);
  for (;;) {
    auto fd = connect_to(to, deadline);
    if (fd) return std::move(*fd);
    if (deadline.passed()) {
      ADD_FAILURE() << fd.error().text;
      return Fd();
    }
    std::this_thread::sleep_for(1ms);
  }
}

void send_text(const Fd& fd, std::string_view text) {
  (void)send_all(fd.get(), text.data(), text.size(), Deadline::in_ms(1000)).ok();
}

std::string hello(uint16_t version, uint32_t rank, uint32_t nranks, uint64_t nonce) {
  return wire::Writer().raw("HKTB").u16(version).u16(0).u32(rank).u32(nranks).u64(nonce).take();
}

TEST(TcpRendezvous, StrayClientsDoNotDisturb) {
  Place place(Kind::tcp);
  const Address server = Address::loopback(Family::v4, place.port());
  std::vector<std::string> errors;
  std::thread ranks([&]() {
    std::vector<Process> all = processes(up_to(4), 4);
    // The last rank comes when the strays have done what they do.
    std::thread others([&]() { errors = run(place, {all[0], all[1], all[2]}, 15'000); });
    std::this_thread::sleep_for(600ms);
    EXPECT_EQ(run(place, {all[3]}, 15'000)[0], "");
    others.join();
  });
  std::vector<Fd> idle;
  for (int i = 0; i < 8; ++i) idle.push_back(connect_stray(server));
  for (int i = 0; i < 20; ++i) connect_stray(server);  // a port scan: connect and close
  send_text(idle[0], "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  send_text(idle[1], std::string(100'000, '\xa5'));
  send_text(idle[2], "HKT");                        // a hello that never ends
  send_text(idle[3], hello(1, 9, 4, 0));            // a rank out of range
  send_text(idle[4], hello(1, 0, 0xffffffff, 0));   // a size out of range
  send_text(idle[5], hello(1, 1, 4, 77));           // another job
  send_text(idle[6], hello(1, 3, 4, 0));            // greets and stays silent: not yet a member
  const Fd flood = connect_stray(server);
  send_text(flood, hello(1, 3, 4, 0) + wire::Writer().u32(0xfffffff0).u8(1).take());  // a request of 4 GiB
  // More silent connections than are allowed.
  for (size_t i = 0; i < 2 * TcpServer::kMaxStrangers; ++i) idle.push_back(connect_stray(server));
  char byte = 0;
  for (const size_t i : {0, 1, 3, 4, 5}) {
    const Status got = recv_all(idle[i].get(), &byte, 1, Deadline::in_ms(10'000));
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, hktRemoteError) << i << ": " << got.error().text;
  }
  ranks.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(TcpRendezvous, AnotherProtocolVersionIsAnErrorOnAll) {
  Place place(Kind::tcp);
  std::thread old([&]() {
    const Fd fd = connect_stray(Address::loopback(Family::v4, place.port()));
    send_text(fd, hello(2, 2, 3, 0));
    char welcome[tcp_protocol::kWelcomeSize];
    ASSERT_TRUE(recv_all(fd.get(), welcome, sizeof welcome, Deadline::in_ms(10'000)).ok());
    EXPECT_EQ(std::string(welcome, 6), std::string("HKTB\1\0", 6));  // it can tell its own user
  });
  const auto errors = run(place, processes({0, 1}, 3), 10'000);
  old.join();
  expect_all_say(errors, "uses another version of Hocket (bring-up protocol 2, here 1)");
}

TEST(TcpRendezvous, AMemberThatDiesIsNamed) {
  Place place(Kind::tcp);
  std::thread dying([&]() {
    const Fd fd = connect_stray(Address::loopback(Family::v4, place.port()));
    const std::string put = wire::Writer().u8(1).bytes("card/2").bytes("x").take();
    send_text(fd, hello(1, 2, 3, 0) + wire::Writer().u32(static_cast<uint32_t>(put.size())).raw(put).take());
    char reply[tcp_protocol::kWelcomeSize + 5];
    ASSERT_TRUE(recv_all(fd.get(), reply, sizeof reply, Deadline::in_ms(10'000)).ok());
  });
  std::vector<Process> both = processes({0, 1}, 3);
  const auto errors = run(place, both, 10'000);
  dying.join();
  for (const std::string& error : errors) {
    // Whichever of the two is seen first: the death, or the nonsense that it left.
    EXPECT_TRUE(contains(error, "rank 2 of 3 (127.0.0.1:") || contains(error, "of rank 2")) << error;
  }
}

TEST(TcpRendezvous, RankZeroThatDiesIsNamed) {
  Place place(Kind::tcp);
  auto listener = listen_on(Address::loopback(Family::v4, place.port()));
  ASSERT_TRUE(listener);
  std::thread dying([&]() {
    const Deadline deadline = Deadline::in_ms(10'000);
    ASSERT_TRUE(*wait_ready(listener->get(), POLLIN, deadline));
    auto fd = accept_on(listener->get());
    ASSERT_TRUE(fd && *fd);
    char got[tcp_protocol::kHelloSize];
    ASSERT_TRUE(recv_all(fd->get(), got, sizeof got, deadline).ok());
    send_text(*fd, std::string("HKTB\1\0\0\0", 8));
    ASSERT_TRUE(*wait_ready(fd->get(), POLLIN, deadline));
  });
  const auto errors = run(place, processes({1}, 2), 10'000);
  dying.join();
  EXPECT_TRUE(contains(errors[0], "rank 0 at " + place.url() + " died or left during bring-up")) << errors[0];
}

TEST(TcpRendezvous, AServerThatLiesIsNoDanger) {
  for (const std::string& lie :
       {wire::Writer().u32(0xffffffff).u8(16).take(), wire::Writer().u32(0).u8(16).take(),
        wire::Writer().u32(1).u8(99).take(), wire::Writer().u32(5).u8(18).u32(1000).take(),
        std::string("HTTP/1.1 400 Bad Request\r\n\r\n")}) {
    Place place(Kind::tcp);
    auto listener = listen_on(Address::loopback(Family::v4, place.port()));
    ASSERT_TRUE(listener);
    std::thread liar([&]() {
      const Deadline deadline = Deadline::in_ms(10'000);
      ASSERT_TRUE(*wait_ready(listener->get(), POLLIN, deadline));
      auto fd = accept_on(listener->get());
      ASSERT_TRUE(fd && *fd);
      send_text(*fd, std::string("HKTB\1\0\0\0", 8) + lie);
      char byte = 0;
      while (recv_all(fd->get(), &byte, 1, deadline).ok()) {
      }
    });
    const auto errors = run(place, processes({1}, 2), 10'000);
    liar.join();
    EXPECT_TRUE(contains(errors[0], "rank 0 at " + place.url() + " sent a reply that does not parse")) << errors[0];
  }
}

TEST(TcpRendezvous, SomethingElseAtThePortIsTold) {
  Place place(Kind::tcp);
  auto listener = listen_on(Address::loopback(Family::v4, place.port()));
  ASSERT_TRUE(listener);
  std::atomic<bool> stop{false};
  std::thread http([&]() {
    while (!stop) {
      if (!*wait_ready(listener->get(), POLLIN, Deadline::in_ms(20))) continue;
      auto fd = accept_on(listener->get());
      if (fd && *fd) send_text(*fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
      std::this_thread::sleep_for(5ms);  // closing with unread data would reset the connection before the answer is read
    }
  });
  const auto errors = run(place, processes({1}, 2), 400);
  stop = true;
  http.join();
  EXPECT_TRUE(contains(errors[0], "rank 1 of 2 could not reach rank 0 at " + place.url())) << errors[0];
  EXPECT_TRUE(contains(errors[0], "is not Hocket") || contains(errors[0], "does not greet as Hocket")) << errors[0];
}

TEST(UniqueId, TwoJobsDoNotMeet) {
  Place one(Kind::unique_id);
  Place two(Kind::unique_id);
  std::vector<std::string> first;
  std::thread other([&]() { first = run(one, processes(up_to(3), 3), 10'000); });
  const auto second = run(two, processes(up_to(5), 5), 10'000);
  other.join();
  for (const std::string& error : first) EXPECT_EQ(error, "");
  for (const std::string& error : second) EXPECT_EQ(error, "");
}

TEST(UniqueId, AUsedOneIsOver) {
  Place place(Kind::unique_id);
  for (const std::string& error : run(place, processes(up_to(2), 2), 10'000)) EXPECT_EQ(error, "");
  const auto again = run(place, processes({0}, 2), 300);
  EXPECT_TRUE(contains(again[0], "could not reach the process that made the unique id (")) << again[0];
}

// Runs `body` in a child until it says that it is ready, then kills it with SIGKILL.
void run_and_kill(const std::function<void(const std::function<void()>& ready)>& body) {
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body([&]() {
      const char byte = 'r';
      if (write(pipe_fds[1], &byte, 1) != 1) _exit(2);
    });
    for (;;) pause();
  }
  close(pipe_fds[1]);
  char byte = 0;
  EXPECT_EQ(read(pipe_fds[0], &byte, 1), 1);
  close(pipe_fds[0]);
  kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
}

TEST(FileRendezvous, AStaleFileOfAKilledJobIsReplaced) {
  Place place(Kind::file);
  run_and_kill([&](const std::function<void()>& ready) {
    auto store = open_file_store(place.path(), 1, 3, Deadline::in_ms(10'000));
    // What would mislead the next job, were it believed.
    if (store && (*store)->put("job", "nonsense").ok() && (*store)->put("card/1", "nonsense").ok()) ready();
    pause();
  });
  ASSERT_EQ(access(place.path().c_str(), F_OK), 0) << "the killed job has left its file";
  for (const std::string& error : run(place, processes(up_to(3), 3), 10'000)) EXPECT_EQ(error, "");
  EXPECT_NE(access(place.path().c_str(), F_OK), 0);
}

TEST(FileRendezvous, ARankThatIsKilledIsNamedAtOnce) {
  Place place(Kind::file);
  std::vector<std::string> errors;
  int ready_pipe[2];
  ASSERT_EQ(pipe2(ready_pipe, O_CLOEXEC), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = open_file_store(place.path(), 2, 4, Deadline::in_ms(10'000));
    const char byte = store ? 'r' : 'e';
    if (write(ready_pipe[1], &byte, 1) != 1) _exit(2);
    for (;;) pause();
  }
  char byte = 0;
  EXPECT_EQ(read(ready_pipe[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'r');
  std::thread others([&]() { errors = run(place, processes({0, 1}, 4), 20'000); });
  std::this_thread::sleep_for(200ms);
  const int64_t killed = now_ns();
  kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  others.join();
  close(ready_pipe[0]);
  close(ready_pipe[1]);
  EXPECT_LT(now_ns() - killed, 10'000'000'000) << "that is the deadline, not the death";
  expect_all_say(errors, "rank 2 of 4 (host ");
  expect_all_say(errors, ") died or left during bring-up");
  EXPECT_NE(access(place.path().c_str(), F_OK), 0) << "the file stayed";
}

TEST(FileRendezvous, TheNextStartWaitsUntilADyingJobIsGone) {
  Place place(Kind::file);
  // Rank 0 of the first start is dead, rank 1 has not noticed yet.
  auto survivor = open_file_store(place.path(), 1, 2, Deadline::in_ms(10'000));
  ASSERT_TRUE(survivor) << survivor.error().text;
  run_and_kill([&](const std::function<void()>& ready) {
    auto store = open_file_store(place.path(), 0, 2, Deadline::in_ms(10'000));
    if (store && (*store)->put("card/0", "old").ok()) ready();
    pause();
  });
  std::vector<std::string> errors;
  std::thread next([&]() { errors = run(place, processes(up_to(2), 2), 20'000); });
  std::this_thread::sleep_for(100ms);
  const auto old = (*survivor)->get({"never"}, Deadline::in_ms(10'000));
  ASSERT_FALSE(old);
  EXPECT_TRUE(contains(old.error().text, "rank 0 of 2 (host ")) << old.error().text;
  EXPECT_TRUE((*survivor)->leave(Deadline::in_ms(1000)).ok());
  next.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(FileRendezvous, AnotherFileIsNeverTouched) {
  Place place(Kind::file);
  const auto check = [&](const std::string& part) {
    const auto errors = run(place, processes({0}, 2), 300);
    EXPECT_TRUE(contains(errors[0], part)) << errors[0];
  };
  std::ofstream(place.path()) << "precious";
  check("exists and is no rendezvous file of Hocket: remove it or choose another path");
  std::string content;
  std::ifstream(place.path()) >> content;
  EXPECT_EQ(content, "precious");

  const std::string link = place.path();
  ASSERT_EQ(rename(link.c_str(), (link + ".target").c_str()), 0);
  ASSERT_EQ(symlink((link + ".target").c_str(), link.c_str()), 0);
  check("it is a symbolic link");
  unlink(link.c_str());
  unlink((link + ".target").c_str());
  ASSERT_EQ(mkdir(link.c_str(), 0700), 0);
  check("cannot open rendezvous file");
  rmdir(link.c_str());
  ASSERT_EQ(mkfifo(link.c_str(), 0600), 0);
  check("is no regular file");
  unlink(link.c_str());
}

TEST(FileRendezvous, ADirectoryThatIsNotThereIsNamed) {
  const auto r = Rendezvous::open(Identity{0, 2, -1, "file:///no/such/directory/x"}, Deadline::in_ms(300));
  ASSERT_FALSE(r);
  EXPECT_TRUE(contains(r.error().text, "'/no/such/directory/x': its directory does not exist")) << r.error().text;
}

TEST(FileRendezvous, DamageIsTold) {
  const auto with_log = [](const std::string& log, uint64_t committed) {
    std::string header = wire::Writer().raw("HKTF").u16(1).u16(0).u64(committed).take();
    header.resize(64, '\0');
    return header + log;
  };
  const std::string huge = wire::Writer().u32(0xfffffff0).u8(2).u32(0).take();
  const std::string bad_kind = wire::Writer().u32(0).u8(9).u32(0).take();
  const std::string bad_rank = wire::Writer().u32(0).u8(1).u32(0xffffffff).take();
  const std::string cut = wire::Writer().u32(100).u8(2).u32(0).raw("x").take();
  for (const std::string& bytes :
       {with_log(huge, 64 + huge.size()), with_log(bad_kind, 64 + bad_kind.size()),
        with_log(bad_rank, 64 + bad_rank.size()), with_log(cut, 64 + cut.size()), with_log("", uint64_t{1} << 60),
        with_log("", 3)}) {
    Place place(Kind::file);
    // Somebody alive takes part, so the file is not stale; then its content is replaced under him.
    auto member = open_file_store(place.path(), 1, 2, Deadline::in_ms(5000));
    ASSERT_TRUE(member);
    std::ofstream(place.path(), std::ios::binary) << bytes;
    const auto errors = run(place, processes({0}, 2), 2000);
    EXPECT_TRUE(contains(errors[0], "is damaged (")) << errors[0];
    unlink(place.path().c_str());
  }
}

TEST(FileRendezvous, AFileRemovedDuringBringUpIsTold) {
  Place place(Kind::file);
  std::thread remover([&]() {
    while (access(place.path().c_str(), F_OK) != 0) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(50ms);
    unlink(place.path().c_str());
  });
  const auto errors = run(place, processes({0}, 2), 10'000);
  remover.join();
  EXPECT_TRUE(contains(errors[0], "was removed or replaced during bring-up")) << errors[0];
}

TEST(Rendezvous, ArgumentsAreChecked) {
  MemoryStore memory(MemoryStore::Twice::refuse);
  EXPECT_FALSE(Rendezvous::open(memory.callbacks(), 2, 2, Deadline::in_ms(10)));
  EXPECT_FALSE(Rendezvous::open(memory.callbacks(), 0, 0, Deadline::in_ms(10)));
  EXPECT_FALSE(Rendezvous::open(hktUniqueId{}, 1, 0, Deadline::in_ms(10)));
  hktStore_t no_wait = memory.callbacks();
  no_wait.wait = nullptr;
  const auto refused = Rendezvous::open(no_wait, 1, 0, Deadline::in_ms(10));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, hktInvalidArgument);
}

TEST(Rendezvous, FailingCallbacksAreNamed) {
  MemoryStore memory(MemoryStore::Twice::refuse);
  hktStore_t broken = memory.callbacks();
  broken.put = [](void*, const char*, const void*, size_t) { return 42; };
  const auto refused = Rendezvous::open(broken, 1, 0, Deadline::in_ms(1000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text, "the put callback of the store returned 42 for key 'hocket/card/0'");
}

}  // namespace
}  // namespace hocket
