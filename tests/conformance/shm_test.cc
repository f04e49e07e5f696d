// Shared memory between processes: handing the segment out, the death of ranks, and what is left behind (nothing).
// This program is also what it starts: `shm_test --rank R ...` is one rank in a process of its own.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "conformance/fabric.h"
#include "transport/shm/group.h"
#include "transport/shm/shm_transport.h"

extern char** environ;

namespace hocket::test {
namespace {

using shm::Backing;
using shm::GroupConfig;
using shm::Leader;
using shm::Segment;
using shm::ShmTransport;

constexpr RingGeometry kGeometry{4, 4096, 2};
constexpr uint32_t kSignature = 5;

uint64_t random64() { return std::random_device{}() | uint64_t{std::random_device{}()} << 32; }

// Global ranks 10, 11, …; ranks of one process have one token: `processes` says which process each is in.
GroupConfig config_of(uint64_t nonce, const std::vector<int>& processes, int index, Backing backing) {
  GroupConfig config;
  for (size_t i = 0; i < processes.size(); ++i) {
    config.ranks.push_back(10 + static_cast<int>(i));
    config.tokens.push_back(nonce + 1000 + static_cast<uint64_t>(processes[i]));
  }
  config.my_rank = config.ranks[static_cast<size_t>(index)];
  config.process_token = config.tokens[static_cast<size_t>(index)];
  config.nonce = nonce;
  config.geometry = kGeometry;
  config.tags = 2;
  config.backing = backing;
  return config;
}

Rank joined(std::shared_ptr<Segment> segment, const GroupConfig& config) {
  auto transport = std::make_unique<ShmTransport>(std::move(segment), config);
  Rank rank;
  rank.bell = &transport->bell();
  rank.transport = std::move(transport);
  return rank;
}

// --- A rank in a process of its own.

// Echoes what rank 10 sends until the leader says how to go on: with value 1 it leaves in good order, else it waits for
// a fault and prints it.
int child(int argc, char** argv) {
  if (argc != 7) return 90;
  const int index = std::atoi(argv[2]);
  const uint64_t nonce = std::strtoull(argv[3], nullptr, 16);
  std::vector<int> processes;
  for (const char* c = argv[4]; *c != 0; ++c) processes.push_back(*c - '0');
  const GroupConfig config = config_of(nonce, processes, index, argv[5][0] == 'd' ? Backing::devshm : Backing::memfd);
  auto segment = shm::attach(config, Deadline::in_ms(std::atoi(argv[6])));
  if (!segment) {
    std::printf("attach: %s\n", segment.error().text.c_str());
    return 91;
  }
  Rank me = joined(*segment, config);
  segment = std::shared_ptr<Segment>();
  auto send = me.transport->open_send(10, 0), recv = me.transport->open_recv(10, 0);
  if (!send || !recv) return 92;
  CallRecord call;
  call.seq = static_cast<uint64_t>(index) + 1;
  call.signature = 1;
  me.transport->announce(call);
  const Deadline deadline = Deadline::in_ms(60'000);
  for (;;) {
    std::optional<Fault> fault;
    const auto awake = [&] { return recv->pop_ready(kSignature) || (fault = me.transport->fault()).has_value(); };
    bool ready = false;  // naps of 20 ms: who dies rings nobody
    while (!ready && !deadline.passed()) ready = wait_until(me, awake, Deadline::in_ms(20));
    if (!ready) return 93;
    if (fault) {
      std::printf("fault %d %d %s\n", static_cast<int>(fault->code), fault->rank, fault->text.c_str());
      return 0;
    }
    unsigned char value[100];
    std::memcpy(value, recv->pop_begin(sizeof value), sizeof value);
    recv->pop();
    if (value[0] == 1) return 0;  // leaves
    if (!wait_until(me, [&] { return send->push_ready(); })) return 94;
    for (unsigned char& v : value) v = static_cast<unsigned char>(v + index);
    std::memcpy(send->push_begin(sizeof value), value, sizeof value);
    send->push(sizeof value, kSignature);
  }
}

class Process {
 public:
  Process(int index, uint64_t nonce, const std::string& processes, Backing backing, int attach_ms = 20'000) {
    int out[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    out_ = Fd(out[0]);
    Fd write_end(out[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
    std::vector<std::string> args{"shm_test",
                                  "--rank",
                                  std::to_string(index),
                                  format("%llx", static_cast<unsigned long long>(nonce)),
                                  processes,
                                  backing == Backing::devshm ? "devshm" : "memfd",
                                  std::to_string(attach_ms)};
    std::vector<char*> argv;
    for (std::string& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  Process(Process&& o) noexcept : pid_(std::exchange(o.pid_, -1)), out_(std::move(o.out_)) {}
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      wait();
    }
  }
  pid_t pid() const { return pid_; }
  void kill_9() { kill(pid_, SIGKILL); }
  void halt() {  // returns when it has stopped running
    int status = 0;
    kill(pid_, SIGSTOP);
    waitpid(pid_, &status, WUNTRACED);
  }
  // Its exit status, or minus the signal.
  int wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string output() {  // until it ends
    std::string text;
    char buffer[512];
    ssize_t n = 0;
    while ((n = read(out_.get(), buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(n));
    return text;
  }

 private:
  pid_t pid_ = -1;
  Fd out_;
};

std::set<std::string> entries(const char* dir) {
  std::set<std::string> names;
  DIR* d = opendir(dir);
  if (d == nullptr) return names;
  while (const dirent* e = readdir(d)) names.insert(e->d_name);
  closedir(d);
  return names;
}

size_t descriptors() { return entries("/proc/self/fd").size(); }

size_t mappings() {  // of shared segments, in this process
  std::ifstream maps("/proc/self/maps");
  std::string line;
  size_t n = 0;
  while (std::getline(maps, line))
    n += line.find("memfd:hocket") != std::string::npos || line.find("/dev/shm/#") != std::string::npos;
  return n;
}

// Ranks 10 and 11 in this process, 12 and 13 in processes of their own.
class ShmProcesses : public testing::TestWithParam<Backing> {
 protected:
  static constexpr const char* kProcesses = "0012";
  void SetUp() override {
    before_ = entries("/dev/shm");
    nonce_ = random64();
    const std::vector<int> processes{0, 0, 1, 2};
    const GroupConfig first = config_of(nonce_, processes, 0, GetParam());
    auto leader = Leader::create(first);
    ASSERT_TRUE(leader.ok()) << leader.error().text;
    const Status serving = (*leader)->serve(Deadline::in_ms(20'000));
    ASSERT_TRUE(serving.ok());
    for (const int index : {2, 3}) children_.emplace_back(index, nonce_, kProcesses, GetParam());
    ranks_.push_back(joined((*leader)->segment(), first));
    const GroupConfig second = config_of(nonce_, processes, 1, GetParam());
    auto segment = shm::attach(second, Deadline::in_ms(20'000));
    ASSERT_TRUE(segment.ok()) << segment.error().text;
    ASSERT_EQ(segment->get(), (*leader)->segment().get()) << "a process maps a segment once";
    ranks_.push_back(joined(*segment, second));
    for (const int peer : {12, 13}) {
      ASSERT_TRUE(wait_until(
          ranks_[0], [&] { return ranks_[0].transport->announced(peer, 0).has_value(); }, Deadline::in_ms(20'000),
          1'000'000'000));
      sends_.push_back(*ranks_[0].transport->open_send(peer, 0));
      recvs_.push_back(*ranks_[0].transport->open_recv(peer, 0));
    }
    (*leader)->stop();
    EXPECT_EQ(mappings(), 2u) << "the file's first page, and the segment";
    EXPECT_EQ(entries("/dev/shm"), before_) << "the segment has no name";
  }
  // Sends 100 bytes of `value` to child 0 or 1.
  void tell(size_t c, unsigned char value) {
    ASSERT_TRUE(wait_until(ranks_[0], [&] { return sends_[c].push_ready(); }));
    std::memset(sends_[c].push_begin(100), value, 100);
    sends_[c].push(100, kSignature);
  }
  void expect_echo(size_t c, unsigned char value) {
    ASSERT_TRUE(wait_until(ranks_[0], [&] { return recvs_[c].pop_ready(kSignature); }));
    const unsigned char* got = recvs_[c].pop_begin(100);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(got[i], static_cast<unsigned char>(value + 2 + c));
    recvs_[c].pop();
  }
  std::optional<Fault> wait_fault(size_t r) {
    const Deadline deadline = Deadline::in_ms(5000);
    while (!deadline.passed()) {
      if (auto fault = ranks_[r].transport->fault()) return fault;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return std::nullopt;
  }

  std::set<std::string> before_;
  uint64_t nonce_ = 0;
  std::vector<Rank> ranks_;
  std::vector<Process> children_;
  std::vector<Link> sends_, recvs_;
};

TEST_P(ShmProcesses, MessagesGoBetweenProcesses) {
  for (int i = 0; i < 200; ++i)
    for (const size_t c : {size_t{0}, size_t{1}}) {
      tell(c, static_cast<unsigned char>(i | 2));
      expect_echo(c, static_cast<unsigned char>(i | 2));
    }
  EXPECT_EQ(call_of(*ranks_[1].transport, 12, 0).seq, 3u);
  for (const size_t c : {size_t{0}, size_t{1}}) {
    tell(c, 1);
    EXPECT_EQ(children_[c].wait(), 0);
  }
}

TEST_P(ShmProcesses, KillIsSeenByAll) {
  tell(0, 4);
  expect_echo(0, 4);
  const pid_t victim = children_[0].pid();
  children_[0].kill_9();
  EXPECT_EQ(children_[0].wait(), -SIGKILL);
  const std::string text = format("rank 12 (pid %d) has ended", victim);
  for (const size_t r : {size_t{0}, size_t{1}}) {
    const Fault fault = wait_fault(r).value_or(Fault{});
    EXPECT_EQ(fault.code, hktRemoteError);
    EXPECT_EQ(fault.rank, 12);
    EXPECT_EQ(fault.text, text);
  }
  EXPECT_EQ(children_[1].output(), format("fault %d 12 %s\n", hktRemoteError, text.c_str()));
  EXPECT_EQ(children_[1].wait(), 0);
  EXPECT_EQ(entries("/dev/shm"), before_) << "left behind by a killed rank";
}

TEST_P(ShmProcesses, LeavingInGoodOrderIsNoFault) {
  tell(0, 1);
  EXPECT_EQ(children_[0].wait(), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(ranks_[0].transport->fault().has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  EXPECT_TRUE(ranks_[0].transport->left(12));
  EXPECT_FALSE(ranks_[0].transport->left(13));
  EXPECT_FALSE(ranks_[0].transport->left(11));
  tell(1, 6);  // rank 13 goes on
  expect_echo(1, 6);
}

TEST_P(ShmProcesses, OneOfTwoRanksOfAProcessLeaves) {
  ranks_.pop_back();  // rank 11: its lock goes, that of rank 10 stays
  tell(0, 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // children look for the dead every 20 ms
  expect_echo(0, 7);
  ranks_.clear();  // rank 10
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  // All halt before the first is killed: the death of one is a fault to the others.
  for (Process& c : children_) c.halt();
  for (Process& c : children_) c.kill_9();
  for (Process& c : children_) EXPECT_EQ(c.output(), "") << "a rank that has left in good order was called dead";
}

TEST_P(ShmProcesses, RaiseReachesOtherProcesses) {
  ranks_[1].transport->raise(Fault{hktAborted, 11, 0, "rank 11 has aborted"});
  for (Process& c : children_) {
    EXPECT_EQ(c.output(), format("fault %d 11 rank 11 has aborted\n", hktAborted));
    EXPECT_EQ(c.wait(), 0);
  }
}

TEST_P(ShmProcesses, AForkedChildDisturbsNobody) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ranks_.clear();  // destroys the transports and the segment as an exit handler would
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(ranks_[1].transport->left(10)) << "the child has said that its parent leaves";
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  for (const size_t c : {size_t{0}, size_t{1}}) {  // they still see rank 10 alive
    tell(c, 8);
    expect_echo(c, 8);
  }
  EXPECT_FALSE(ranks_[0].transport->fault().has_value());
}

INSTANTIATE_TEST_SUITE_P(Memfd, ShmProcesses, testing::Values(Backing::memfd));
INSTANTIATE_TEST_SUITE_P(Devshm, ShmProcesses, testing::Values(Backing::devshm));

// --- Bring-up.

TEST(ShmGroup, NothingIsLeftInTheProcess) {
  const size_t before = descriptors();
  for (const Backing backing : {Backing::memfd, Backing::devshm}) {
    const GroupConfig config = config_of(random64(), {0, 1}, 0, backing);
    auto leader = Leader::create(config);
    ASSERT_TRUE(leader.ok()) << leader.error().text;
    const Status serving = (*leader)->serve(Deadline::in_ms(20'000));
    ASSERT_TRUE(serving.ok());
    Rank rank = joined((*leader)->segment(), config);
    leader->reset();
    EXPECT_EQ(mappings(), 2u) << "the file's first page, and the segment";
    rank.transport.reset();
    EXPECT_EQ(mappings(), 0u);
  }
  EXPECT_EQ(descriptors(), before);
}

TEST(ShmGroup, AttachWithoutALeaderFailsAtOnce) {
  const GroupConfig config = config_of(random64(), {0, 1}, 1, Backing::memfd);
  const auto segment = shm::attach(config, Deadline::never());
  ASSERT_FALSE(segment.ok());
  EXPECT_EQ(segment.error().code, hktRemoteError);
  EXPECT_NE(segment.error().text.find("rank 10"), std::string::npos) << segment.error().text;
}

TEST(ShmGroup, AttachEndsAtItsDeadline) {
  const uint64_t nonce = random64();
  auto leader = Leader::create(config_of(nonce, {0, 1}, 0, Backing::memfd));
  ASSERT_TRUE(leader.ok());  // and does not serve
  Process rank(1, nonce, "01", Backing::memfd, 50);
  EXPECT_EQ(rank.output(), "attach: shared memory: rank 10 has not handed out its segment in time\n");
  EXPECT_EQ(rank.wait(), 91);
}

TEST(ShmGroup, AGroupOfAnotherShapeIsRefused) {
  const uint64_t nonce = random64();
  GroupConfig config = config_of(nonce, {0, 1}, 0, Backing::memfd);
  config.geometry.slot_bytes *= 2;  // rank 11 will expect half of it
  auto leader = Leader::create(config);
  ASSERT_TRUE(leader.ok());
  const Status serving = (*leader)->serve(Deadline::in_ms(20'000));
  ASSERT_TRUE(serving.ok());
  Process rank(1, nonce, "01", Backing::memfd);
  const std::string text = rank.output();
  EXPECT_NE(text.find("same HOCKET_* settings"), std::string::npos) << text;
  EXPECT_EQ(rank.wait(), 91);
}

TEST(ShmGroup, TheSameRankTwiceIsRefused) {
  const GroupConfig config = config_of(random64(), {0, 0}, 0, Backing::memfd);
  auto leader = Leader::create(config);
  ASSERT_TRUE(leader.ok());
  const auto second = Leader::create(config);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().text.find("twice"), std::string::npos) << second.error().text;
  GroupConfig other = config;
  other.my_rank = 11;
  ASSERT_TRUE(shm::attach(other, Deadline::in_ms(1000)).ok());
  EXPECT_FALSE(shm::attach(other, Deadline::in_ms(1000)).ok());
}

TEST(ShmGroup, BadConfigurationsAreRefused) {
  const GroupConfig good = config_of(random64(), {0, 0}, 0, Backing::memfd);
  std::vector<GroupConfig> bad(8, good);
  bad[0].ranks = {11, 10};
  bad[1].tokens.pop_back();
  bad[2].my_rank = 99;
  bad[3].geometry.depth = 3;
  bad[4].tags = 0;
  bad[5].process_token = 3;
  bad[6].geometry = {1 << 16, 1 << 30, 1};
  bad[6].tags = 65535;
  bad[7].my_rank = 11;  // does not lead
  for (size_t i = 0; i < bad.size(); ++i) EXPECT_FALSE(Leader::create(bad[i]).ok()) << i;
}

// The abstract name of this process's leader, found as an outsider would find it, in the list of all sockets: which has
// the leaders of other tests, too, so that it must be a socket of this process.
std::string leader_name() {
  std::set<std::string> own;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor that lists them
    const std::string target = std::filesystem::read_symlink(fd, gone).string();
    if (target.rfind("socket:[", 0) == 0) own.insert(target.substr(8, target.size() - 9));
  }
  std::ifstream list("/proc/net/unix");
  for (std::string line; std::getline(list, line);) {
    const size_t at = line.find(" @hocket-");
    if (at == std::string::npos) continue;
    if (own.count(line.substr(line.rfind(' ', at - 1) + 1, at - line.rfind(' ', at - 1) - 1)) != 0)
      return line.substr(at + 2);
  }
  return "";
}

Fd connect_to(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof address.sun_path - 1));
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0) << name << ": " << strerror(errno);
  return fd;
}

TEST(ShmGroup, StrayClientsGetNothingAndDisturbNobody) {
  const uint64_t nonce = random64();
  auto leader = Leader::create(config_of(nonce, {0, 1}, 0, Backing::memfd));
  ASSERT_TRUE(leader.ok());
  const Status serving = (*leader)->serve(Deadline::in_ms(60'000));
  ASSERT_TRUE(serving.ok());
  const std::string name = leader_name();
  ASSERT_NE(name, "");
  const Fd idle = connect_to(name);
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1, '\0'), std::string(16, '\xff'), std::string(5000, 'x')}) {
    const Fd stray = connect_to(name);
    ASSERT_EQ(send(stray.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    char answer[64];
    EXPECT_LE(recv(stray.get(), answer, sizeof answer, 0), 0) << "closed without an answer";
  }
  // Knows all but the nonce; then knows the nonce as well, which shows that the first failed for that reason.
  for (const bool knows : {false, true}) {
    uint64_t request[2] = {0x31'51'52'53'54'4b'48'00, knows ? nonce : nonce + 1};
    const Fd client = connect_to(name);
    ASSERT_EQ(send(client.get(), request, sizeof request, MSG_NOSIGNAL), 16);
    EXPECT_EQ(recv(client.get(), request, sizeof request, 0), knows ? 8 : 0);
  }
  if (geteuid() == 0) {  // only root can be somebody else
    const pid_t other = fork();
    if (other == 0) {
      if (seteuid(65534) != 0) _exit(2);
      uint64_t request[2] = {0x31'51'52'53'54'4b'48'00, nonce};
      const Fd client = connect_to(name);
      (void)!send(client.get(), request, sizeof request, MSG_NOSIGNAL);
      _exit(recv(client.get(), request, sizeof request, 0) <= 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(other, &status, 0);
    EXPECT_EQ(status, 0) << "another user has got an answer";
  }
  Process rank(1, nonce, "01", Backing::memfd);
  Rank me = joined((*leader)->segment(), config_of(nonce, {0, 1}, 0, Backing::memfd));
  ASSERT_TRUE(wait_until(
      me, [&] { return me.transport->announced(11, 0).has_value(); }, Deadline::in_ms(20'000), 1'000'000'000));
}

// --- /dev/shm that cannot serve.

std::string devshm_error(const char* dir, const RingGeometry& geometry = kGeometry) {
  GroupConfig config = config_of(random64(), {0, 1}, 0, Backing::devshm);
  config.devshm_dir = dir;
  config.geometry = geometry;
  auto leader = Leader::create(config);
  return leader.ok() ? "no error" : leader.error().text;
}

TEST(ShmBacking, AnAbsentDevshmIsAnErrorWithTheFix) {
  const std::string text = devshm_error("/nonexistent/shm");
  EXPECT_NE(text.find("/nonexistent/shm"), std::string::npos) << text;
  EXPECT_NE(text.find("HOCKET_SHM=memfd"), std::string::npos) << text;
  EXPECT_NE(text.find("No such file"), std::string::npos) << text;
}

TEST(ShmBacking, ADevshmThatCannotBeWrittenIsAnErrorWithTheFix) {
  const std::string text = devshm_error("/proc");
  EXPECT_NE(text.find("/proc"), std::string::npos) << text;
  EXPECT_NE(text.find("HOCKET_SHM=memfd"), std::string::npos) << text;
}

TEST(ShmBacking, ADevshmThatIsTooSmallIsAnErrorWithTheNumbers) {
  const std::string text = devshm_error("/dev/shm", {1 << 10, 1 << 30, 1});  // 4 TiB
  EXPECT_NE(text.find("MiB free of"), std::string::npos) << text;
  EXPECT_NE(text.find("2 ranks"), std::string::npos) << text;
  EXPECT_NE(text.find("HOCKET_SHM=memfd"), std::string::npos) << text;
}

TEST(ShmBacking, AMemfdTakesOnlyWhatIsUsed) {
  GroupConfig config = config_of(random64(), std::vector<int>(64, 0), 0, Backing::memfd);
  config.geometry = {8, 128 * 1024, 4};
  config.tags = 4;
  auto leader = Leader::create(config);
  ASSERT_TRUE(leader.ok()) << leader.error().text;
  struct stat info {};
  ASSERT_EQ(fstat((*leader)->segment()->fd(), &info), 0);
  EXPECT_GT(info.st_size, int64_t{15} << 30) << "64 ranks: 16128 rings of 1 MiB in address space";
  EXPECT_LT(info.st_blocks * 512, 1 << 20) << "and only the control area in memory";
  Rank rank = joined((*leader)->segment(), config);
  ASSERT_TRUE(rank.transport->open_send(11, 0).ok());
  ASSERT_EQ(fstat((*leader)->segment()->fd(), &info), 0);
  EXPECT_GT(info.st_blocks * 512, 1 << 20) << "an open link's ring is reserved";
  EXPECT_LT(info.st_blocks * 512, 3 << 20);
}

// No two rings, nor a ring and the control area, overlap.
TEST(ShmLayout, RingsAreApart) {
  for (const uint32_t n : {1u, 2u, 5u}) {
    GroupConfig config = config_of(1, std::vector<int>(n, 0), 0, Backing::memfd);
    config.tags = 3;
    config.small_tags = 1;
    const shm::Layout layout(config);
    std::map<uint64_t, uint16_t> places;  // offset -> tag
    for (int from = 0; from < static_cast<int>(n); ++from)
      for (int to = 0; to < static_cast<int>(n); ++to)
        for (uint16_t tag = 0; to != from && tag < 3; ++tag) places[layout.ring(from, to, tag)] = tag;
    EXPECT_EQ(places.size(), size_t{n} * (n - 1) * 3);
    uint64_t end = layout.control_bytes();
    EXPECT_GE(end, layout.block(static_cast<int>(n) - 1) + sizeof(shm::RankBlock));
    for (const auto& [place, tag] : places) {
      EXPECT_EQ(place % 4096, 0u);
      EXPECT_EQ(place, end);
      end = place + layout.ring_bytes(tag);
    }
    EXPECT_EQ(end, layout.bytes());
    EXPECT_GE(layout.ring_bytes(0), kGeometry.bytes());
    EXPECT_GE(layout.ring_bytes(2), shm::kSmallRing.bytes());
  }
}

}  // namespace
}  // namespace hocket::test

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--rank") == 0) return hocket::test::child(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
