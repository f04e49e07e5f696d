// Boards of launchers, each against a server as the launcher runs one: what is said byte by byte, what a restart
// leaves, servers that answer wrongly, and whole jobs of ranks as threads.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/board.h"
#include "bootstrap/interfaces.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/wire.h"
#include "unit/bootstrap_jobs.h"

namespace hocket {
namespace {

using bringup::contains;

// A server: a thread for each connection, which calls `talk` until it returns false.
class Server {
 public:
  using Talk = std::function<void(int fd)>;
  explicit Server(Talk talk) : talk_(std::move(talk)) {
    listener_ = std::move(listen_on(Address::loopback(Family::v4, 0)).value());
    where_ = {"127.0.0.1", local_address(listener_.get()).value().port()};
    stop_ = std::move(socket_pair().value());
    accepting_ = std::thread([this] { accept_all(); });
  }
  ~Server() {
    stop_.first.reset();
    accepting_.join();
    for (std::thread& t : talking_) t.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  const HostPort& where() const { return where_; }

 private:
  void accept_all() {
    for (;;) {
      pollfd both[] = {{listener_.get(), POLLIN, 0}, {stop_.second.get(), POLLIN, 0}};
      poll(both, 2, -1);
      if (both[1].revents != 0) return;
      Result<Fd> fd = accept_on(listener_.get());
      if (fd && *fd) talking_.emplace_back([this, own = std::make_shared<Fd>(std::move(*fd))] { talk_(own->get()); });
    }
  }
  Talk talk_;
  Fd listener_;
  HostPort where_;
  std::pair<Fd, Fd> stop_;
  std::thread accepting_;
  std::vector<std::thread> talking_;
};

const Deadline kLong = Deadline::in_ms(20'000);

bool take(int fd, void* to, size_t n) { return recv_all(fd, to, n, Deadline::in_ms(20'000)).ok(); }
void give(int fd, const std::string& bytes) { (void)send_all(fd, bytes.data(), bytes.size(), kLong).ok(); }

// The keys of a TCPStore, and one that is served.
class TorchServer {
 public:
  void set(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::optional<std::string> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto at = values_.find(key);
    return at == values_.end() ? std::nullopt : std::optional(at->second);
  }
  TorchPlace place(const std::string& job = "run/0") const { return {server_.where(), job}; }

 private:
  static uint64_t number(int fd, size_t size) {
    char bytes[8] = {};
    uint64_t out = 0;
    if (!take(fd, bytes, size)) return 0;
    for (size_t i = size; i-- > 0;) out = out << 8 | static_cast<unsigned char>(bytes[i]);
    return out;
  }
  static std::string string(int fd) {
    std::string out(number(fd, 8), '\0');
    (void)take(fd, out.data(), out.size());
    return out;
  }
  void talk(int fd) {
    char op = 0;
    bool valid = false;
    while (take(fd, &op, 1)) {
      // A client that has not said who it is gets no answer.
      if (op == 0) valid = number(fd, 4) == 0x3c85f7ce;
      if (!valid) return;
      if (op == 13) give(fd, wire::Writer().u32(static_cast<uint32_t>(number(fd, 4))).take());
      if (op == 1) {
        const std::string key = string(fd);
        set(key, string(fd));
      }
      if (op == 3) {
        const std::string value = find(string(fd)).value_or("");
        give(fd, wire::Writer().u64(value.size()).raw(value).take());
      }
      if (op == 6) {
        for (uint64_t n = number(fd, 8); n > 0; --n) {
          const std::string key = string(fd);
          std::unique_lock lock(mutex_);
          const auto until = std::chrono::system_clock::now() + std::chrono::seconds(1);
          if (!changed_.wait_until(lock, until, [&] { return values_.count(key) != 0; })) return;
        }
        give(fd, std::string(1, '\0'));
      }
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  Server server_{[this](int fd) { talk(fd); }};
};

// A process manager that speaks PMI-1 at a port, for `nranks` ranks.
class PmiServer {
 public:
  explicit PmiServer(int nranks) : nranks_(nranks) {}
  PmiPlace place(int id) const { return {-1, server_.where(), id}; }
  std::atomic<int> finalized{0};
  std::atomic<bool> wrong_rank{false};

 private:
  void talk(int fd) {
    std::string line;
    char c = 0;
    int id = 0;
    while (take(fd, &c, 1)) {
      if (c != '\n') {
        line += c;
        continue;
      }
      const auto is = [&](const char* cmd) { return line.rfind(std::string("cmd=") + cmd, 0) == 0; };
      if (is("initack")) {
        id = std::stoi(line.substr(line.find("pmiid=") + 6));
        give(fd, "cmd=initack rc=0\ncmd=set size=" + std::to_string(nranks_) +
                     "\ncmd=set rank=" + std::to_string(wrong_rank ? 7 : id) + "\ncmd=set debug=0\n");
      } else if (is("init ")) {
        give(fd, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
      } else if (is("get_my_kvsname")) {
        give(fd, "cmd=my_kvsname kvsname=kvs_1\n");
      } else if (is("put kvsname=kvs_1 key=")) {
        const size_t key = line.find("key=") + 4, space = line.find(' ', key);
        const std::lock_guard lock(mutex_);
        pending_[line.substr(key, space - key)] = line.substr(line.find("value=") + 6);
        give(fd, "cmd=put_result rc=0 msg=success\n");
      } else if (is("barrier_in")) {
        std::unique_lock lock(mutex_);
        if (++waiting_ == nranks_) {
          values_ = pending_;
          changed_.notify_all();
        }
        const auto until = std::chrono::system_clock::now() + std::chrono::seconds(1);
        if (!changed_.wait_until(lock, until, [&] { return waiting_ == nranks_; })) return;
        give(fd, "cmd=barrier_out\n");
      } else if (is("get kvsname=kvs_1 key=")) {
        const std::lock_guard lock(mutex_);
        const auto at = values_.find(line.substr(line.find("key=") + 4));
        give(fd, at == values_.end() ? "cmd=get_result rc=-1 msg=not found\n"
                                     : "cmd=get_result rc=0 msg=success value=" + at->second + "\n");
      } else if (is("finalize")) {
        ++finalized;
        give(fd, "cmd=finalize_ack\n");
        return;
      }
      line.clear();
    }
  }
  const int nranks_;
  int waiting_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> pending_, values_;
  Server server_{[this](int fd) { talk(fd); }};
};

Identity member(int rank, int nranks, MeetingPlace place, uint64_t bring_up = 1) {
  Identity me;
  me.rank = rank;
  me.nranks = nranks;
  me.place = std::move(place);
  me.launcher = "the launcher";
  me.bring_up = bring_up;
  return me;
}

// A job of ranks as threads, which exchange something; the texts of their errors.
std::vector<std::string> run(const std::vector<Identity>& ranks, int deadline_ms = 10'000) {
  std::vector<std::string> errors(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      const Deadline deadline = Deadline::in_ms(deadline_ms);
      auto r = Rendezvous::open(ranks[i], deadline);
      if (!r) {
        errors[i] = r.error().text;
        return;
      }
      const auto all = (*r)->all_gather("x", std::to_string((*r)->rank()));
      if (!all) errors[i] = all.error().text;
      for (size_t k = 0; all.ok() && k < all.value().size(); ++k)
        if (all.value()[k] != std::to_string(k)) errors[i] = "wrong data";
      if (Status left = (*r)->leave(); !left.ok()) errors[i] = left.error().text;
    });
  }
  for (std::thread& t : threads) t.join();
  return errors;
}

TEST(TorchBoard, AJobMeetsAndMeetsAgain) {
  TorchServer server;
  for (const uint64_t bring_up : {1, 2}) {
    std::vector<Identity> ranks;
    for (int r = 0; r < 4; ++r) ranks.push_back(member(r, 4, server.place(), bring_up));
    EXPECT_EQ(run(ranks), std::vector<std::string>(4)) << bring_up;
  }
  EXPECT_TRUE(server.find("/hocket/run/0/1").has_value());
  EXPECT_TRUE(server.find("/hocket/run/0/2").has_value());
}

// The workers were restarted without being counted: the address of a rank 0 that is dead is still there.
TEST(TorchBoard, AStaleAddressIsReadAgain) {
  TorchServer server;
  {
    const OpenedId dead = std::move(open_unique_id().value());  // its listeners close here
    std::string hex;
    for (const char c : dead.id.internal) {
      char two[3];
      std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      hex += two;
    }
    server.set("/hocket/run/0/1", hex);
  }
  std::vector<std::string> errors(3);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    errors[0] = run({member(0, 3, server.place())})[0];
  });
  const auto others = run({member(1, 3, server.place()), member(2, 3, server.place())});
  late.join();
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(others, std::vector<std::string>(2));
}

TEST(TorchBoard, WhatIsNoNoticeIsNotBelieved) {
  TorchServer server;
  for (const std::string& junk : {std::string(), std::string("zz"), std::string(256, 'g'), std::string(256, '0')}) {
    server.set("/hocket/run/0/1", junk);
    const auto errors = run({member(1, 2, server.place())}, 300);
    EXPECT_TRUE(contains(errors[0], "what rank 0 left with the launcher is no address of Hocket")) << errors[0];
  }
  server.set("/hocket/run/0/1", std::string(100'000, 'a'));
  EXPECT_TRUE(contains(run({member(1, 2, server.place())}, 300)[0], "answers with 100000 bytes"));
}

TEST(TorchBoard, ARankZeroThatDoesNotComeIsNamed) {
  TorchServer server;
  const auto errors = run({member(1, 3, server.place()), member(2, 3, server.place())}, 300);
  for (const std::string& e : errors) {
    EXPECT_TRUE(contains(e, "rank 0 has not left its address in torchrun's store at 127.0.0.1:")) << e;
    EXPECT_TRUE(contains(e, "raise HOCKET_INIT_TIMEOUT")) << e;
  }
}

TEST(TorchBoard, AnotherRankThatDoesNotComeIsNamed) {
  TorchServer server;
  const auto errors = run({member(0, 3, server.place()), member(1, 3, server.place())}, 500);
  for (const std::string& e : errors) EXPECT_TRUE(contains(e, "rank 2 of 3 did not come within")) << e;
}

TEST(TorchBoard, WhatIsNoStoreIsSaidSo) {
  Server deaf([](int fd) {
    char c = 0;
    (void)take(fd, &c, 1);
    give(fd, "HTTP/1.0 400 Bad\r\n\r\n");
  });
  const auto errors = run({member(1, 2, TorchPlace{deaf.where(), "run/0"})}, 3000);
  EXPECT_TRUE(contains(errors[0], "does not answer as torchrun's store at 127.0.0.1:")) << errors[0];
  const uint16_t nobody = bringup::free_port();
  const auto refused = run({member(1, 2, TorchPlace{{"127.0.0.1", nobody}, "run/0"})}, 300);
  EXPECT_TRUE(contains(refused[0], "torchrun's store at 127.0.0.1:")) << refused[0];
  EXPECT_TRUE(contains(refused[0], "cannot be reached")) << refused[0];
}

TEST(PmiBoard, RanksThatDisagreeWithTheServerAreRefused) {
  PmiServer server(2);
  server.wrong_rank = true;
  const auto errors = run({member(0, 2, server.place(0))}, 1000);
  EXPECT_TRUE(contains(errors[0], "the rank of this process is 0 by its environment variables, and 7 by the server"))
      << errors[0];
}

TEST(PmiBoard, ADescriptorThatIsNoneIsSaidSo) {
  const auto closed = run({member(0, 2, PmiPlace{999, {}, 0})}, 1000);
  EXPECT_TRUE(contains(closed[0], "PMI_FD is 999, which is no open socket of this process")) << closed[0];
}

TEST(PmiBoard, RanksThatDoNotComeToTheBarrier) {
  PmiServer server(3);
  const auto errors = run({member(-1, -1, server.place(0)), member(-1, -1, server.place(1))}, 400);
  for (const std::string& e : errors)
    EXPECT_TRUE(contains(e, "not all ranks have come to the barrier of the process manager at PMI_PORT=127.0.0.1:"))
        << e;
}

// A process has one session with its manager. Ranks as threads share it, so this is the only test that ends one, and
// the last: a second bring-up is for processes (tests/launch).
TEST(PmiBoard, ZAJobMeets) {
  PmiServer server(3);
  std::vector<Identity> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(member(-1, -1, server.place(r)));
  EXPECT_EQ(run(ranks), std::vector<std::string>(3));
  EXPECT_EQ(server.finalized, 3);
}

// Horovod's key-value server.
TEST(HorovodBoard, AJobMeets) {
  std::mutex mutex;
  std::map<std::string, std::string> values;
  Server server([&](int fd) {
    std::string text;
    char c = 0;
    while (text.find("\r\n\r\n") == std::string::npos && take(fd, &c, 1)) text += c;
    const size_t length = text.find("Content-Length: ");
    std::string body(length == std::string::npos ? 0 : std::stoul(text.substr(length + 16)), '\0');
    (void)take(fd, body.data(), body.size());
    const size_t start = text.find('/');
    const std::string path = text.substr(start, text.find(' ', start) - start);
    const std::lock_guard lock(mutex);
    if (text.rfind("PUT ", 0) == 0) {
      values[path] = body;
      give(fd, "HTTP/1.0 200 OK\r\nServer: x\r\n\r\n");
    } else if (values.count(path) != 0) {
      give(fd, "HTTP/1.0 200 OK\r\n\r\n" + values[path]);
    } else {
      give(fd, "HTTP/1.0 404 Not Found\r\n\r\n");
    }
  });
  std::vector<Identity> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(member(r, 3, HorovodPlace{server.where()}));
  EXPECT_EQ(run(ranks), std::vector<std::string>(3));
  const auto alone = run({member(1, 2, HorovodPlace{server.where()}, 2)}, 300);
  EXPECT_TRUE(contains(alone[0], "rank 0 has not left its address with Horovod's rendezvous server")) << alone[0];
}

// Two ports that are free now. Not of those that outgoing connections get: one could be connected to itself there.
std::vector<uint16_t> two_low_ports() {
  const auto is_free = [](uint16_t port) { return listen_on(Address::wildcard(Family::v4, port)).ok(); };
  auto port = static_cast<uint16_t>(10'000 + getpid() % 4000 * 2);
  while (!is_free(port) || !is_free(static_cast<uint16_t>(port + 1))) port = static_cast<uint16_t>(port + 2);
  return {port, static_cast<uint16_t>(port + 1)};
}

SearchPlace search_place(std::vector<std::string> hosts) {
  SearchPlace place;
  place.hosts = std::move(hosts);
  place.ports = two_low_ports();
  place.nonce = 77;
  place.job = "Slurm step 1.0";
  return place;
}

TEST(Search, RankZeroIsFoundOnThisHostWhateverItsName) {
  const SearchPlace place = search_place({"no-such-host.invalid"});
  std::vector<Identity> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(member(r, 3, place));
  EXPECT_EQ(run(ranks), std::vector<std::string>(3));
}

TEST(Search, APortThatIsTakenLeavesTheNext) {
  const SearchPlace place = search_place({"localhost"});
  std::vector<Fd> taken;
  const auto interfaces = usable_interfaces().value();
  for (const auto& i : interfaces) {
    Address a = i.address;
    a.set_port(place.ports[0]);
    taken.push_back(std::move(listen_on(a).value()));
  }
  EXPECT_EQ(run({member(0, 2, place), member(1, 2, place)}), std::vector<std::string>(2));
  SearchPlace one = place;
  one.ports.resize(1);
  const auto errors = run({member(0, 2, one)}, 500);
  EXPECT_TRUE(contains(errors[0], "rank 0 of Slurm step 1.0 cannot listen on the port")) << errors[0];
}

TEST(Search, ARankZeroThatIsNotThereIsSaidSo) {
  const auto errors = run({member(1, 2, search_place({"no-such-host.invalid", "localhost"}))}, 500);
  EXPECT_TRUE(
      contains(errors[0], "could not reach rank 0 of Slurm step 1.0, looked for on no-such-host.invalid, localhost"))
      << errors[0];
}

}  // namespace
}  // namespace hocket
