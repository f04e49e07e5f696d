// Who am I: URLs and environments, right and wrong; unique ids; names of interfaces; bytes off the wire.
#include <gtest/gtest.h>

#include <string>

#include "bootstrap/identity.h"
#include "bootstrap/interfaces.h"
#include "bootstrap/unique_id.h"
#include "bootstrap/wire.h"
#include "unit/environment.h"

namespace hocket {
namespace {

const Variables kGood = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};

Variables changed(const std::string& name, const std::string& value) {
  Variables out = kGood;
  out[name] = value;
  return out;
}

TEST(Url, GoodOnes) {
  const struct {
    std::string url;
    Variables variables;
    int rank, nranks, local_rank;
    std::string place;
  } cases[] = {
      {"env://", kGood, 1, 4, -1, "tcp://node0:29500"},
      {"env://", changed("LOCAL_RANK", "3"), 1, 4, 3, "tcp://node0:29500"},
      {"env://", changed("MASTER_ADDR", "::1"), 1, 4, -1, "tcp://[::1]:29500"},
      {"env://", changed("MASTER_ADDR", "[fd77::1]"), 1, 4, -1, "tcp://[fd77::1]:29500"},
      {"env://", changed("TORCHELASTIC_USE_AGENT_STORE", "False"), 1, 4, -1, "tcp://node0:29500"},
      {"tcp://10.0.0.1:80?rank=0&world_size=1", {}, 0, 1, -1, "tcp://10.0.0.1:80"},
      {"tcp://10.0.0.1:80/?world_size=3&rank=2", {}, 2, 3, -1, "tcp://10.0.0.1:80"},
      {"tcp://[::1]:80?rank=2&world_size=3", {}, 2, 3, -1, "tcp://[::1]:80"},
      {"tcp://node0:80", kGood, 1, 4, -1, "tcp://node0:80"},
      {"tcp://node0:80?rank=3", kGood, 3, 4, -1, "tcp://node0:80"},
      {"tcp://node0:80", changed("TORCHELASTIC_USE_AGENT_STORE", "True"), 1, 4, -1, "tcp://node0:80"},
      {"file:///tmp/x%20y?rank=2&world_size=3", {}, 2, 3, -1, "file:///tmp/x%20y"},
      {"file:///tmp/x", kGood, 1, 4, -1, "file:///tmp/x"},
  };
  for (const auto& c : cases) {
    const auto me = parse_url(c.url, with(c.variables));
    ASSERT_TRUE(me) << c.url << ": " << me.error().text;
    EXPECT_EQ(me.value().rank, c.rank) << c.url;
    EXPECT_EQ(me.value().nranks, c.nranks) << c.url;
    EXPECT_EQ(me.value().local_rank, c.local_rank) << c.url;
    EXPECT_EQ(me.value().url, c.place) << c.url;
  }
}

TEST(Url, BadOnesSayWhatWhereAndTheFix) {
  const struct {
    std::string url;
    Variables variables;
    std::string text;  // part of the message
  } cases[] = {
      {"", {}, "the URL '' does not parse: use env://, tcp://HOST:PORT or file:///PATH"},
      {"10.0.0.1:80", {}, "the URL '10.0.0.1:80' does not parse"},
      {"http://x:80", kGood, "the scheme 'http' of the URL 'http://x:80' is unknown: use env://, tcp://"},
      {"env://x", kGood, "env:// takes nothing behind it"},
      {"tcp://", kGood, "the URL 'tcp://' does not parse: '' has no port"},
      {"tcp://node0", kGood, "'node0' has no port: write HOST:PORT"},
      {"tcp://node0:0", kGood, "port '0' of 'node0:0' is out of range: use 1 to 65535"},
      {"tcp://node0:65536", kGood, "port '65536'"},
      {"tcp://node0:80x", kGood, "port '80x'"},
      {"tcp://::1:80", kGood, "an IPv6 address is written [ADDRESS]:PORT"},
      {"tcp://node0:80?rank=1&size=2", {}, "'size=2' in the URL 'tcp://node0:80?rank=1&size=2' is no parameter"},
      {"tcp://node0:80?rank", {}, "'rank' in the URL 'tcp://node0:80?rank' is no parameter"},
      {"tcp://node0:80?rank=1&rank=2", {}, "parameter 'rank' occurs twice"},
      {"tcp://node0:80?rank=1", {}, "WORLD_SIZE (the number of processes of the job) is not set, but the URL"},
      {"tcp://node0:80?world_size=2", {}, "RANK (the number of this process in its job) is not set"},
      {"tcp://node0:80?world_size=2", {}, "set it, or write ?rank=R into the URL"},
      {"tcp://node0:80?rank=x&world_size=2", {}, "rank in the URL 'tcp://node0:80?rank=x&world_size=2' is 'x': set it"},
      {"tcp://node0:80?rank=2&world_size=2", {}, "ranks go from 0 to 1"},
      {"file://x/y", kGood, "file:// needs the absolute path of a file"},
      {"file:///", kGood, "file:// needs the absolute path of a file"},
      {"file:///tmp/", kGood, "file:// needs the absolute path of a file"},
      {"file:///tmp/x", {}, "RANK (the number of this process in its job) is not set"},
      {"env://",
       {},
       "environment variable RANK (the number of this process in its job) is not set, but the URL 'env://'"},
      {"env://", {}, "or set HOCKET_INIT to a tcp:// or file:// URL"},
      {"env://", changed("RANK", ""), "environment variable RANK (the"},
      {"env://", changed("WORLD_SIZE", ""), "environment variable WORLD_SIZE (the number of processes"},
      {"env://", changed("MASTER_ADDR", ""), "environment variable MASTER_ADDR (the host of rank 0) is not set"},
      {"env://", changed("MASTER_PORT", ""), "environment variable MASTER_PORT (a free port on the host of rank 0)"},
      {"env://", changed("RANK", "one"), "environment variable RANK is 'one': set it to a whole number from 0"},
      {"env://", changed("RANK", "-1"), "environment variable RANK is -1: set it to a whole number from 0"},
      {"env://", changed("RANK", "1.5"), "environment variable RANK is '1.5'"},
      {"env://", changed("RANK", "99999999999999999999"), "environment variable RANK is '99999999999999999999'"},
      {"env://", changed("RANK", "4"),
       "environment variable RANK is 4, but environment variable WORLD_SIZE is 4: "
       "ranks go from 0 to 3"},
      {"env://", changed("WORLD_SIZE", "0"), "environment variable WORLD_SIZE is 0: set it to a whole number from 1"},
      {"env://", changed("LOCAL_RANK", "x"), "environment variable LOCAL_RANK is 'x'"},
      {"env://", changed("MASTER_PORT", "http"),
       "environment variable MASTER_PORT is 'http': set it to a port from 1 to "},
      {"env://", changed("MASTER_PORT", "70000"), "environment variable MASTER_PORT is '70000'"},
      {"env://", changed("MASTER_ADDR", "a b"), "environment variable MASTER_ADDR is 'a b': set it to the host name"},
      {"env://", changed("MASTER_ADDR", "a\nb"), "MASTER_ADDR is 'a\\x0ab'"},
      {std::string(5000, 'x') + "://", {}, "does not parse"},
  };
  for (const auto& c : cases) {
    const auto me = parse_url(c.url, with(c.variables));
    ASSERT_FALSE(me) << c.url;
    EXPECT_NE(me.error().text.find(c.text), std::string::npos) << me.error().text << "\nlacks: " << c.text;
    EXPECT_EQ(me.error().text.find('\n'), std::string::npos);
  }
}

TEST(Rank, IsCheckedAgainstTheSize) {
  EXPECT_TRUE(check_rank(0, 1).ok());
  EXPECT_EQ(check_rank(2, 2).error().text, "the rank is 2 of 2: ranks go from 0 to 1");
  EXPECT_FALSE(check_rank(-1, 2).ok());
  EXPECT_FALSE(check_rank(0, 0).ok());
  EXPECT_FALSE(check_rank(0, kMaxRanks + 1).ok());
}

TEST(HostId, IsGivenOrStable) {
  const auto first = host_id();
  ASSERT_TRUE(first);
  EXPECT_FALSE(first.value().empty());
  EXPECT_EQ(first.value(), host_id().value());
  setenv("HOCKET_HOST_ID", "left", 1);
  EXPECT_EQ(host_id().value(), "left");
  setenv("HOCKET_HOST_ID", std::string(129, 'x').c_str(), 1);
  EXPECT_FALSE(host_id());
  unsetenv("HOCKET_HOST_ID");
}

TEST(Interfaces, ListGrammar) {
  EXPECT_TRUE(interface_matches("eth", "eth0"));
  EXPECT_FALSE(interface_matches("eth", "ib0"));
  EXPECT_TRUE(interface_matches("eth,ib", "ib0"));
  EXPECT_TRUE(interface_matches("=eth0", "eth0"));
  EXPECT_FALSE(interface_matches("=eth1", "eth10"));
  EXPECT_TRUE(interface_matches("eth,=ib0", "ib0"));
  EXPECT_FALSE(interface_matches("eth,=ib0", "ib01"));
  EXPECT_FALSE(interface_matches("^docker,lo", "lo"));
  EXPECT_TRUE(interface_matches("^docker,lo", "eth0"));
  EXPECT_TRUE(interface_matches("^=eth0", "eth01"));
  EXPECT_FALSE(interface_matches("^=eth0", "eth0"));
}

TEST(Interfaces, LoopbackWhenAskedForAndAnErrorWhenNoneIsLeft) {
  setenv("HOCKET_SOCKET_IFNAME", "=lo", 1);
  const auto loopback = usable_interfaces();
  ASSERT_TRUE(loopback) << loopback.error().text;
  for (const Interface& i : loopback.value()) EXPECT_EQ(i.name, "lo");
  setenv("HOCKET_SOCKET_IFNAME", "nosuch", 1);
  const auto none = usable_interfaces();
  unsetenv("HOCKET_SOCKET_IFNAME");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().text.find("HOCKET_SOCKET_IFNAME='nosuch'"), std::string::npos) << none.error().text;
  EXPECT_NE(none.error().text.find("this host has "), std::string::npos);
}

TEST(UniqueId, WhatIsNoneIsRefused) {
  hktUniqueId id{};
  EXPECT_FALSE(read_unique_id(id));
  const auto put = [&](std::string_view bytes) {
    id = hktUniqueId{};
    bytes.copy(id.internal, sizeof id.internal);
  };
  const auto make = [](uint8_t version, uint8_t count, uint64_t nonce) {
    return wire::Writer().raw("HKTU").u8(version).u8(count).u64(nonce).take();
  };
  const std::string address = Address::loopback(Family::v4, 80).encode();
  put(make(1, 1, 7) + address);
  const auto good = read_unique_id(id);
  ASSERT_TRUE(good);
  EXPECT_EQ(good.value().nonce, 7u);
  ASSERT_EQ(good.value().addresses.size(), 1u);
  EXPECT_EQ(good.value().addresses[0].text(), "127.0.0.1:80");
  for (const std::string& bad :
       {make(2, 1, 7) + address, make(1, 0, 7) + address, make(1, 2, 7) + address, make(1, 255, 7) + address,
        make(1, 1, 0) + address, make(1, 1, 7), make(1, 1, 7) + Address::loopback(Family::v4, 0).encode()}) {
    put(bad);
    const auto result = read_unique_id(id);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, hktInvalidArgument);
  }
}

TEST(Wire, ReaderStaysWithinItsInput) {
  const std::string bytes = wire::Writer().u8(1).u16(2).u32(3).u64(4).bytes("five").take();
  wire::Reader in(bytes);
  EXPECT_EQ(in.u8(), 1);
  EXPECT_EQ(in.u16(), 2);
  EXPECT_EQ(in.u32(), 3u);
  EXPECT_EQ(in.u64(), 4u);
  EXPECT_EQ(in.bytes(), "five");
  EXPECT_TRUE(in.done());
  EXPECT_EQ(in.u32(), 0u);
  EXPECT_FALSE(in.ok());
  // A length that promises more than there is.
  const std::string lie = wire::Writer().u32(0xffffffff).raw("x").take();
  wire::Reader liar(lie);
  EXPECT_EQ(liar.bytes(), "");
  EXPECT_FALSE(liar.ok());
  EXPECT_EQ(liar.left(), 0u);
}

TEST(Wire, AnErrorFromOutsideIsOneLineWithAKnownCode) {
  const Error sent = error(hktMismatch, "a\nb");
  const Error back = wire::unpack_error(wire::pack_error(sent));
  EXPECT_EQ(back.code, hktMismatch);
  EXPECT_EQ(back.text, "a\\x0ab");
  for (const std::string& bad : {std::string(), std::string("xx"), wire::Writer().u32(77).bytes("t").take(),
                                 wire::Writer().u32(0).bytes("t").take(), wire::Writer().u32(2).u32(99).take()}) {
    const Error e = wire::unpack_error(bad);
    EXPECT_NE(e.code, hktSuccess);
    EXPECT_LE(e.code, hktAborted);
    EXPECT_FALSE(e.text.empty());
  }
}

}  // namespace
}  // namespace hocket
