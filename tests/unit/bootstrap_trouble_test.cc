// Bring-up among strangers, liars and the dead: what may happen to a port and to a shared file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/socket.h"
#include "bootstrap/file_store.h"
#include "bootstrap/tcp_protocol.h"
#include "bootstrap/tcp_server.h"
#include "bootstrap/wire.h"
#include "unit/bootstrap_jobs.h"

namespace hocket::bringup {
namespace {

using namespace std::chrono_literals;

constexpr uint16_t kVersion = tcp_protocol::kWireVersion;

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
      auto r = Rendezvous::open(identity_at(rank, 2, url), Deadline::in_ms(10'000));
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
  send_text(idle[2], "HKT");                              // a hello that never ends
  send_text(idle[3], hello(kVersion, 9, 4, 0));           // a rank out of range
  send_text(idle[4], hello(kVersion, 0, 0xffffffff, 0));  // a size out of range
  send_text(idle[5], hello(kVersion, 1, 4, 77));          // another job
  send_text(idle[6], hello(kVersion, 3, 4, 0));           // greets and stays silent: not yet a member
  const Fd flood = connect_stray(server);
  send_text(flood, hello(kVersion, 3, 4, 0) + wire::Writer().u32(0xfffffff0).u8(1).take());  // a request of 4 GiB
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
    send_text(fd, hello(kVersion + 1, 2, 3, 0));
    char welcome[tcp_protocol::kWelcomeSize];
    ASSERT_TRUE(recv_all(fd.get(), welcome, sizeof welcome, Deadline::in_ms(10'000)).ok());
    EXPECT_EQ(std::string(welcome, 6), std::string("HKTB\2\0", 6));  // it can tell its own user
  });
  const auto errors = run(place, processes({0, 1}, 3), 10'000);
  old.join();
  expect_all_say(errors, "uses another version of Hocket (bring-up protocol 3, here 2)");
}

TEST(TcpRendezvous, ARankOfAnotherProtocolVersionIsAnErrorOnAllWithBoth) {
  for (const int odd : {0, 1, 2}) {
    Place place(Kind::tcp);
    std::vector<Process> all = processes(up_to(3), 3);
    all[static_cast<size_t>(odd)].options.wire_version = 77;
    const auto errors = run(place, all, 10'000);
    for (int r = 0; r < 3; ++r) {
      const std::string ours = std::to_string(kVersion);
      const std::string versions =
          r == odd ? "(bring-up protocol " + ours + ", here 77)" : "(bring-up protocol 77, here " + ours + ")";
      EXPECT_TRUE(contains(errors[static_cast<size_t>(r)], "uses another version of Hocket " + versions))
          << odd << ", rank " << r << ": " << errors[static_cast<size_t>(r)];
    }
  }
}

TEST(TcpRendezvous, AMemberThatDiesIsNamed) {
  Place place(Kind::tcp);
  std::thread dying([&]() {
    const Fd fd = connect_stray(Address::loopback(Family::v4, place.port()));
    const std::string put = wire::Writer().u8(1).bytes("card/2").bytes("x").take();
    send_text(fd, hello(kVersion, 2, 3, 0) + wire::Writer().u32(static_cast<uint32_t>(put.size())).raw(put).take());
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
    send_text(*fd, std::string("HKTB\2\0\0\0", 8));
    ASSERT_TRUE(*wait_ready(fd->get(), POLLIN, deadline));
  });
  const auto errors = run(place, processes({1}, 2), 10'000);
  dying.join();
  EXPECT_TRUE(contains(errors[0], "rank 0 at " + place.url() + " died or left during bring-up")) << errors[0];
}

TEST(TcpRendezvous, AServerThatLiesIsNoDanger) {
  for (const std::string& lie : {wire::Writer().u32(0xffffffff).u8(16).take(), wire::Writer().u32(0).u8(16).take(),
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
      send_text(*fd, std::string("HKTB\2\0\0\0", 8) + lie);
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
      std::this_thread::sleep_for(
          5ms);  // closing with unread data would reset the connection before the answer is read
    }
  });
  const auto errors = run(place, processes({1}, 2), 400);
  stop = true;
  http.join();
  EXPECT_TRUE(contains(errors[0], "rank 1 of 2 could not reach rank 0 at " + place.url())) << errors[0];
  EXPECT_TRUE(contains(errors[0], "is not Hocket") || contains(errors[0], "does not greet as Hocket")) << errors[0];
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
    if (store && (*store)->put("job/0", "nonsense").ok() && (*store)->put("card/1", "nonsense").ok()) ready();
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
  const auto r = Rendezvous::open(identity_at(0, 2, "file:///no/such/directory/x"), Deadline::in_ms(300));
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
  for (const std::string& bytes : {with_log(huge, 64 + huge.size()), with_log(bad_kind, 64 + bad_kind.size()),
                                   with_log(bad_rank, 64 + bad_rank.size()), with_log(cut, 64 + cut.size()),
                                   with_log("", uint64_t{1} << 60), with_log("", 3)}) {
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

}  // namespace
}  // namespace hocket::bringup
