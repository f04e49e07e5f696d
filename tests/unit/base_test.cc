// Tests of src/base: result, deadline, text, env, log and sockets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/env.h"
#include "base/log.h"
#include "base/network_env.h"
#include "base/result.h"
#include "base/socket.h"
#include "base/text.h"
#include "base/thread_annotations.h"

namespace hocket {
namespace {

// Sets an environment variable for one scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedEnv() { unsetenv(name_); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  const char* name_;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Text, ParseInt) {
  EXPECT_EQ(parse_int("0"), 0);
  EXPECT_EQ(parse_int("-12"), -12);
  EXPECT_EQ(parse_int("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "-", "+1", " 1", "1 ", "1x", "0x10", "1.0", "9223372036854775808"}) {
    EXPECT_FALSE(parse_int(bad).has_value()) << bad;
  }
}

TEST(Text, InQuotesIsOneShortLineOfAscii) {
  EXPECT_EQ(in_quotes("a b"), "'a b'");
  EXPECT_EQ(in_quotes(std::string("a\n\x1b\0\xff", 5)), "'a\\x0a\\x1b\\x00\\xff'");
  EXPECT_EQ(in_quotes("abcdef", 3), "'abc...'");
  EXPECT_EQ(one_line("a\tb"), "a\\x09b");
  EXPECT_EQ(one_line("\xc3\xa4"), "\xc3\xa4");
}

TEST(Text, NumberList) {
  EXPECT_EQ(number_list({}), "");
  EXPECT_EQ(number_list({3}), "3");
  EXPECT_EQ(number_list({2, 5, 6, 7}), "2, 5-7");
  EXPECT_EQ(number_list({0, 1, 3, 4, 5, 9}), "0, 1, 3-5, 9");
}

TEST(Deadline, SpansAndLimits) {
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_FALSE(Deadline::in_ms(-1).passed());
  EXPECT_EQ(Deadline::in_ms(INT64_MAX).ns(), INT64_MAX);
  EXPECT_TRUE(Deadline::in_ms(0).passed());
  EXPECT_EQ(Deadline::in_ms(0).left_ms(), 0);
  EXPECT_EQ(Deadline::never().left_ms(7), 7);
  const int left = Deadline::in_ms(60'000).left_ms();
  EXPECT_GT(left, 30'000);
  EXPECT_LE(left, 60'000);
}

TEST(Env, TableIsSortedOutAndComplete) {
  for (const env::Variable& variable : env::table()) {
    EXPECT_EQ(std::string(variable.name).substr(0, 7), "HOCKET_");
    EXPECT_NE(std::string(variable.values), "") << variable.name;
    EXPECT_EQ(std::string(variable.meaning).back(), '.') << variable.name;
  }
}

TEST(Env, GetTreatsEmptyAsUnset) {
  EXPECT_FALSE(env::get("HOCKET_ALGO").has_value());
  const ScopedEnv empty("HOCKET_ALGO", "");
  EXPECT_FALSE(env::get("HOCKET_ALGO").has_value());
  const ScopedEnv set("HOCKET_ALGO", "ring");
  EXPECT_EQ(env::get("HOCKET_ALGO"), "ring");
}

TEST(Env, Choice) {
  static constexpr std::string_view kChoices[] = {"auto", "shm", "tcp"};
  EXPECT_EQ(*env::get_choice("HOCKET_TRANSPORT", "auto", kChoices), "auto");
  {
    const ScopedEnv set("HOCKET_TRANSPORT", "tcp");
    EXPECT_EQ(*env::get_choice("HOCKET_TRANSPORT", "auto", kChoices), "tcp");
  }
  const ScopedEnv set("HOCKET_TRANSPORT", "rdma");
  const auto bad = env::get_choice("HOCKET_TRANSPORT", "auto", kChoices);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().text, "environment variable HOCKET_TRANSPORT is 'rdma': set it to one of auto, shm, tcp");
}

TEST(Env, Numbers) {
  EXPECT_EQ(*env::get_int("HOCKET_TIMEOUT", 5, 0, 10), 5);
  EXPECT_EQ(*env::get_seconds_ms("HOCKET_TIMEOUT", 600'000), 600'000);
  {
    const ScopedEnv set("HOCKET_TIMEOUT", "10");
    EXPECT_EQ(*env::get_int("HOCKET_TIMEOUT", 5, 0, 10), 10);
    EXPECT_EQ(*env::get_seconds_ms("HOCKET_TIMEOUT", 1), 10'000);
  }
  {
    const ScopedEnv set("HOCKET_TIMEOUT", "2.5");
    EXPECT_EQ(*env::get_seconds_ms("HOCKET_TIMEOUT", 1), 2'500);
  }
  for (const char* value : {"11", "-1", "x", "3x", "99999999999999999999"}) {
    const ScopedEnv set("HOCKET_TIMEOUT", value);
    const auto bad = env::get_int("HOCKET_TIMEOUT", 5, 0, 10);
    ASSERT_FALSE(bad) << value;
    EXPECT_EQ(bad.error().text, std::string("environment variable HOCKET_TIMEOUT is '") + value +
                                    "': set it to a whole number from 0 to 10");
  }
  for (const char* value : {"0", "-1", "nan", "inf", "1e30", "5s", "s", "0.0001"}) {
    const ScopedEnv set("HOCKET_TIMEOUT", value);
    const auto bad = env::get_seconds_ms("HOCKET_TIMEOUT", 5);
    ASSERT_FALSE(bad) << value;
    EXPECT_TRUE(contains(bad.error().text, "HOCKET_TIMEOUT is '" + std::string(value) + "': set it to seconds"));
  }
}

// What a process reads once is tested in processes of their own: "threadsafe" death tests start the binary anew.
class LogDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(LogDeathTest, UnknownVariableWarnsWithTheNearestName) {
  const ScopedEnv set("HOCKET_TIMOUT", "5"), tests_own("HOCKET_TEST_DATA", "/");
  EXPECT_EXIT(
      {
        env::warn_unknown();
        env::warn_unknown();
        _exit(0);
      },
      testing::ExitedWithCode(0),
      "^[^\n]*WARN environment variable 'HOCKET_TIMOUT' is unknown and has no effect; did you mean "
      "HOCKET_TIMEOUT\\?\n$");
}

TEST_F(LogDeathTest, UnknownTableNameIsAFaultOfTheCaller) {
  EXPECT_DEATH((void)env::get("HOCKET_NO_SUCH"), "HOCKET_NO_SUCH is not in the table");
}

TEST_F(LogDeathTest, LineHasHostProcessAndRank) {
  EXPECT_EXIT(
      {
        HKT_WARN(net, (LogId{3, 8}), "x is %d\nand more", 5);
        HKT_INFO(net, LogId{}, "not shown");
        _exit(0);
      },
      testing::ExitedWithCode(0), "^[^ ]+:[0-9]+ 3/8 WARN x is 5.x0aand more\n$");
}

TEST_F(LogDeathTest, LevelAndSubsystemsFilter) {
  const ScopedEnv level("HOCKET_DEBUG", "info");
  const ScopedEnv subsystems("HOCKET_DEBUG_SUBSYS", "^INIT,NET");
  EXPECT_EXIT(
      {
        HKT_INFO(net, LogId{}, "a");
        HKT_INFO(init, LogId{}, "b");
        HKT_INFO(shm, LogId{}, "c");
        HKT_TRACE(shm, LogId{}, "d");
        HKT_WARN(net, LogId{}, "e");
        _exit(0);
      },
      testing::ExitedWithCode(0), "^[^ ]+ -/- INFO c\n[^ ]+ -/- WARN e\n$");
}

TEST_F(LogDeathTest, BadSettingsAreNamed) {
  const ScopedEnv level("HOCKET_DEBUG", "LOUD");
  const ScopedEnv subsystems("HOCKET_DEBUG_SUBSYS", "INIT,NIT");
  const ScopedEnv file("HOCKET_DEBUG_FILE", "/no/such/directory/log");
  EXPECT_EXIT(
      {
        HKT_WARN(init, LogId{}, "on");
        _exit(0);
      },
      testing::ExitedWithCode(0),
      "HOCKET_DEBUG_FILE: cannot open '/no/such/directory/log'.*\n.*HOCKET_DEBUG is 'LOUD': set it to one of.*\n"
      ".*HOCKET_DEBUG_SUBSYS names 'NIT'.*\n.* WARN on\n$");
}

TEST_F(LogDeathTest, FileTakesHostAndProcess) {
  const std::string directory = testing::TempDir();
  const std::string pattern = directory + "/log.%h.%p";
  const ScopedEnv file("HOCKET_DEBUG_FILE", pattern.c_str());
  EXPECT_EXIT(
      {
        HKT_WARN(init, LogId{}, "into the file");
        std::ifstream in(directory + "/log." + host_name() + "." + std::to_string(getpid()));
        std::stringstream text;
        text << in.rdbuf();
        std::remove((directory + "/log." + host_name() + "." + std::to_string(getpid())).c_str());
        std::fputs(text.str().c_str(), stderr);
        _exit(0);
      },
      testing::ExitedWithCode(0), "WARN into the file\n$");
}

TEST(HostPort, ParsesAddressesAndNames) {
  const auto check = [](const char* text, const char* host, int port) {
    const auto parsed = parse_host_port(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed.value().host, host);
    EXPECT_EQ(parsed.value().port, port);
  };
  check("localhost:1", "localhost", 1);
  check("10.0.0.1:65535", "10.0.0.1", 65535);
  check("[::1]:29500", "::1", 29500);
  check("[fe80::1%eth0]:80", "fe80::1%eth0", 80);
}

TEST(HostPort, NamesWhatIsWrong) {
  const struct {
    const char* text;
    const char* part;
  } cases[] = {
      {"", "has no port"},
      {"host", "has no port"},
      {":80", "has no host"},
      {"[]:80", "has no host"},
      {"host:", "port '' of 'host:' is out of range: use 1 to 65535"},
      {"host:0", "port '0'"},
      {"host:65536", "port '65536'"},
      {"host:-1", "port '-1'"},
      {"host:http", "port 'http'"},
      {"::1:80", "has several colons: an IPv6 address is written [ADDRESS]:PORT"},
      {"[::1]80", "an IPv6 address is written [ADDRESS]:PORT"},
      {"[::1", "an IPv6 address is written [ADDRESS]:PORT"},
      {"ho st:80", "'ho st' is no host name"},
      {"a@b:80", "'a@b' is no host name"},
  };
  for (const auto& c : cases) {
    const auto parsed = parse_host_port(c.text);
    ASSERT_FALSE(parsed) << c.text;
    EXPECT_TRUE(contains(parsed.error().text, c.part)) << parsed.error().text;
    EXPECT_EQ(parsed.error().code, hktInvalidArgument);
  }
}

TEST(Address, TextAndBytes) {
  Address v4 = Address::loopback(Family::v4, 80);
  EXPECT_EQ(v4.text(), "127.0.0.1:80");
  EXPECT_TRUE(v4.is_loopback());
  const Address v6 = Address::loopback(Family::v6, 443);
  EXPECT_EQ(v6.text(), "[::1]:443");
  EXPECT_TRUE(v6.is_loopback());
  EXPECT_TRUE(Address::wildcard(Family::v6, 1).is_wildcard());
  EXPECT_FALSE(Address().valid());
  EXPECT_FALSE(v4 == v6);

  const std::string both = v4.encode() + v6.encode();
  EXPECT_EQ(both.size(), 7u + 19u);
  std::string_view rest = both;
  EXPECT_EQ(Address::decode(rest), v4);
  EXPECT_EQ(Address::decode(rest), v6);
  EXPECT_TRUE(rest.empty());
  for (size_t n = 0; n < both.size(); ++n) {
    std::string_view cut = std::string_view(both).substr(0, n);
    (void)Address::decode(cut);
    EXPECT_FALSE(Address::decode(cut).has_value()) << n;
  }
  v4.set_port(81);
  EXPECT_EQ(v4.port(), 81);
}

TEST(Address, ResolveHeedsTheFamily) {
  const auto v4 = resolve({"127.0.0.1", 80}, Family::any);
  ASSERT_TRUE(v4);
  ASSERT_EQ(v4.value().size(), 1u);
  EXPECT_EQ(v4.value()[0].text(), "127.0.0.1:80");
  const auto other = resolve({"127.0.0.1", 80}, Family::v6);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, hktInvalidArgument);
  const auto unknown = resolve({"no-such-host.invalid", 80}, Family::any);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, hktRemoteError);
  EXPECT_TRUE(contains(unknown.error().text, "cannot look up host 'no-such-host.invalid'"));
}

class Sockets : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    auto listener = listen_on(Address::loopback(GetParam(), 0));
    if (!listener) GTEST_SKIP() << "this host has no IPv6";
    listener_ = std::move(*listener);
    where_ = *local_address(listener_.get());
  }
  Fd listener_;
  Address where_;
};

TEST_P(Sockets, ConnectSendReceive) {
  EXPECT_FALSE(*accept_on(listener_.get()));
  auto client = connect_to(where_, Deadline::in_ms(5000));
  ASSERT_TRUE(client) << client.error().text;
  ASSERT_TRUE(*wait_ready(listener_.get(), 1, Deadline::in_ms(5000)));
  Address peer;
  auto server = accept_on(listener_.get(), &peer);
  ASSERT_TRUE(server);
  ASSERT_TRUE(*server);
  EXPECT_EQ(peer, *local_address(client->get()));
  EXPECT_EQ(where_, *peer_address(client->get()));

  // More than the socket's buffers hold, so that both sides have to wait.
  const std::string sent(8'000'000, 'x');
  std::string received(sent.size(), '\0');
  std::thread sender([&]() {
    EXPECT_TRUE(send_all(client->get(), sent.data(), sent.size(), Deadline::in_ms(20'000)).ok());
    client->reset();
  });
  EXPECT_TRUE(recv_all(server->get(), received.data(), received.size(), Deadline::in_ms(20'000)).ok());
  sender.join();
  EXPECT_EQ(received, sent);
  char byte = 0;
  const Status end = recv_all(server->get(), &byte, 1, Deadline::in_ms(5000));
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code, hktRemoteError);
  EXPECT_EQ(end.error().text, "connection closed by the other side");
  // Writing to a closed connection is an error, too, and no signal.
  Status sending;
  for (int i = 0; i < 1000 && sending.ok(); ++i) {
    sending = send_all(server->get(), sent.data(), 1000, Deadline::in_ms(5000));
  }
  ASSERT_FALSE(sending.ok());
  EXPECT_EQ(sending.error().code, hktRemoteError);
}

TEST_P(Sockets, DeadlinesHold) {
  auto client = connect_to(where_, Deadline::in_ms(5000));
  ASSERT_TRUE(client);
  char byte = 0;
  const Status reading = recv_all(client->get(), &byte, 1, Deadline::in_ms(20));
  ASSERT_FALSE(reading.ok());
  EXPECT_EQ(reading.error().code, hktTimeout);
  const std::string much(32'000'000, 'x');
  const Status writing = send_all(client->get(), much.data(), much.size(), Deadline::in_ms(50));
  ASSERT_FALSE(writing.ok());
  EXPECT_EQ(writing.error().code, hktTimeout);
}

TEST_P(Sockets, RefusedAndTakenAreTold) {
  const auto second = listen_on(where_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, hktInvalidUsage);
  EXPECT_TRUE(contains(second.error().text, "cannot listen on " + where_.text() + ": the port is taken"));
  listener_.reset();
  const auto refused = connect_to(where_, Deadline::in_ms(5000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, hktRemoteError);
  EXPECT_TRUE(contains(refused.error().text, where_.text()));
}

TEST_P(Sockets, DescriptorsCloseOnExecAndDoNotBlock) {
  auto client = connect_to(where_, Deadline::in_ms(5000));
  ASSERT_TRUE(client);
  for (const int fd : {listener_.get(), client->get()}) {
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  }
}

std::string family_name(const testing::TestParamInfo<Family>& info) { return info.param == Family::v4 ? "v4" : "v6"; }
INSTANTIATE_TEST_SUITE_P(Families, Sockets, testing::Values(Family::v4, Family::v6), family_name);

TEST(Descriptors, OutOfDescriptorsNamesTheLimitAndTheFix) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit low = before;
  low.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto made = listen_on(Address::loopback(Family::v4, 0));
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, hktSystemError);
  EXPECT_TRUE(contains(made.error().text, "no file descriptor left (the limit is 0)")) << made.error().text;
  EXPECT_TRUE(contains(made.error().text, "ulimit -n 4096")) << made.error().text;
}

TEST(Ports, OfARangeAndHowManyItHolds) {
  std::map<std::string, std::string> variables;
  const Lookup lookup = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_TRUE(port_ranges(lookup)->ranges.empty());
  EXPECT_TRUE(check_enough(*port_ranges(lookup), 1000));  // any port that is free
  variables["HCCL_IF_BASE_PORT"] = "7000";
  EXPECT_EQ(port_ranges(lookup)->size(), 32u);
  variables["HCCL_HOST_SOCKET_PORT_RANGE"] = "80";
  EXPECT_EQ(port_ranges(lookup)->origin, "HCCL_HOST_SOCKET_PORT_RANGE=80");
  variables["HOCKET_PORT_RANGE"] = "100-102,200,300-301";
  Result<PortRanges> ports = port_ranges(lookup);
  ASSERT_TRUE(ports);
  ASSERT_EQ(ports->size(), 6u);
  std::vector<int> all;
  for (size_t i = 0; i < ports->size(); ++i) all.push_back(ports->port(i));
  EXPECT_EQ(all, (std::vector<int>{100, 101, 102, 200, 300, 301}));
  EXPECT_TRUE(check_enough(*ports, 5));
  const Status few = check_enough(*ports, 6);
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().code, hktInvalidUsage);
  EXPECT_EQ(few.error().text,
            "HOCKET_PORT_RANGE=100-102,200,300-301 has 6 ports, but a host with 6 ranks needs 7: one for each, and one "
            "for the ranks to meet: give it more");
  variables["HOCKET_PORT_RANGE"] = "100-";
  EXPECT_FALSE(port_ranges(lookup));
}

TEST(Ports, OneThatAConnectionMayHoldIsSaidWhereItIsTaken) {
  auto holder = listen_on(Address::loopback(Family::v4, 0));
  ASSERT_TRUE(holder);
  auto at = local_address(holder->get());
  ASSERT_TRUE(at);
  const OutgoingPorts outgoing = OutgoingPorts::read();
  EXPECT_FALSE(outgoing.has(80));
  const auto again = listen_on(*at);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, hktInvalidUsage);
  // The system gives port 0 one of those that it gives to connections.
  ASSERT_TRUE(outgoing.has(at->port()));
  EXPECT_TRUE(contains(again.error().text, "the port is taken by another process: end it")) << again.error().text;
  EXPECT_TRUE(
      contains(again.error().text, "the system takes the ports " + outgoing.text() + " for outgoing connections"))
      << again.error().text;
}

TEST(Fd, OwnsItsDescriptor) {
  auto pair = socket_pair();
  ASSERT_TRUE(pair);
  const int raw = pair->first.get();
  Fd moved = std::move(pair->first);
  EXPECT_FALSE(pair->first);  // NOLINT(bugprone-use-after-move): empty by contract
  EXPECT_EQ(moved.get(), raw);
  moved.reset();
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
}

TEST(ThreadAnnotations, MutexExcludes) {
  struct Counter {
    Mutex mutex;
    int value HKT_GUARDED_BY(mutex) = 0;
  } counter;
  const auto add = [&]() {
    for (int i = 0; i < 1000; ++i) {
      const MutexLock lock(counter.mutex);
      ++counter.value;
    }
  };
  std::thread other(add);
  add();
  other.join();
  const MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 2000);
}

}  // namespace
}  // namespace hocket
