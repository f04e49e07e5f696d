// Rank tables: what each format becomes, and the text of every error that a file can have.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/rank_table/agree.h"
#include "bootstrap/rank_table/read.h"

namespace hocket::rank_table {
namespace {

// Two servers with two devices each, a field or two per line.
const char* const kV10 = R"({"status": "completed",
"version": "1.0",
"server_count": "2",
"server_list": [
{"server_id": "a", "host_ip": "10.0.0.1", "device": [
{"device_id": "0", "device_ip": "10.1.0.1", "rank_id": "0"},
{"device_id": "1", "device_ip": "10.1.0.2", "rank_id": "1"}]},
{"server_id": "b", "host_ip": "10.0.0.2", "device": [
{"device_id": "0", "device_ip": "10.1.0.3", "rank_id": "2"},
{"device_id": "1", "device_ip": "10.1.0.4", "rank_id": "3"}]}]})";

const char* const kV12 = R"({"status": "completed", "version": "1.2",
"server_list": [
{"server_id": "a", "host_ip": "10.0.0.1", "device": [{"device_id": "0", "device_ip": "10.1.0.1", "rank_id": "0", "super_device_id": "0"}]},
{"server_id": "b", "host_ip": "10.0.0.2", "device": [{"device_id": "0", "device_ip": "10.1.0.2", "rank_id": "1", "super_device_id": "1"}]},
{"server_id": "c", "host_ip": "10.0.0.3", "device": [{"device_id": "0", "device_ip": "10.1.0.3", "rank_id": "2", "super_device_id": "0"}]}],
"super_pod_list": [
{"super_pod_id": "p", "server_list": [{"server_id": "a"}, {"server_id": "b"}]},
{"super_pod_id": "q", "server_list": [{"server_id": "c"}]}]})";

const char* const kV20 = R"({"version": "2.0", "rank_count": 2, "rank_list": [
{"rank_id": 0, "local_id": 0, "device_id": 4, "level_list": [
{"net_layer": 0, "net_instance_id": "s", "net_type": "TOPO_FILE_DESC", "rank_addr_list": []},
{"net_layer": 3, "net_instance_id": "c", "net_type": "CLOS", "rank_addr_list": [
{"addr_type": "IPV6", "addr": "fd00::1", "ports": ["d2h"], "plane_id": "x"}]}]},
{"rank_id": 1, "local_id": 1, "device_id": 5, "level_list": [
{"net_layer": 0, "net_instance_id": "s", "net_type": "TOPO_FILE_DESC", "rank_addr_list": [
{"addr_type": "EID", "addr": "00000000000000000000100000aa0021", "ports": ["0/4"]}]}]}]})";

const char* const kGroups = R"({"status": "completed", "group_count": "1", "group_list": [
{"group_name": "hccl_world_group", "instance_count": "2", "device_count": "3", "instance_list": [
{"pod_name": "x", "server_id": "10.0.0.1", "devices": [{"device_id": "3", "device_ip": "10.1.0.1"}]},
{"pod_name": "y", "server_id": "10.0.0.2", "devices": [{"device_id": "0", "device_ip": "10.1.0.2"}, {"device_id": "1", "device_ip": "10.1.0.3"}]}]}]})";

std::vector<std::string> lines(const Reading& reading) {
  std::vector<std::string> out;
  for (const Problem& problem : reading.problems.list()) out.push_back(problem.text());
  return out;
}

// The text with the first `from` at or behind `after` made `to`.
struct Change {
  const char* from;
  const char* to;
  const char* after = "";
};

std::string changed(std::string text, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const size_t begin = text.find(change.after);
    const size_t at = begin == std::string::npos ? begin : text.find(change.from, begin);
    if (at == std::string::npos) {
      ADD_FAILURE() << "no " << change.from << " behind " << change.after;
      continue;
    }
    text.replace(at, std::string(change.from).size(), change.to);
  }
  return text;
}

// Which kinds some test has provoked.
std::set<std::string>& provoked() {
  static std::set<std::string> kinds;
  return kinds;
}

void expect(const char* base, const std::vector<Change>& changes, const std::vector<std::string>& expected) {
  const Reading reading = parse(changed(base, changes), "t.json");
  EXPECT_EQ(lines(reading), expected);
  for (const Problem& problem : reading.problems.list()) provoked().insert(name_of(problem.kind));
}

TEST(RankTable, TheExamplesHaveNoErrors) {
  expect(kV10, {}, {});
  expect(kV12, {}, {});
  expect(kV20, {}, {});
  expect(kGroups, {}, {});
}

// Of a rank that is there.
RankTable::Member member_of(const RankTable& table, int rank) {
  const std::optional<RankTable::Member> found = table.find(rank);
  if (!found) throw std::runtime_error("there is no rank " + std::to_string(rank));
  return *found;
}

std::string address_of(const RankTable& table, int rank) {
  const std::optional<HostAddress> found = host_address(member_of(table, rank));
  return found ? found->host + ", " + found->field : "none";
}

TEST(RankTable, AllFormatsBecomeServersDevicesAndRanks) {
  const RankTable v10 = parse(kV10, "t.json").table;
  ASSERT_EQ(v10.size(), 4);
  const RankTable::Member member = member_of(v10, 3);
  EXPECT_EQ(member.server->id, "b");
  EXPECT_EQ(member.server_index, 1);
  EXPECT_EQ(member.device->id, 1);
  EXPECT_EQ(member.device->local, 1);
  EXPECT_EQ(member.device->ip, "10.1.0.4");
  EXPECT_FALSE(v10.find(4));
  EXPECT_EQ(address_of(v10, 3), "10.0.0.2, host_ip of server 'b'");

  const RankTable v12 = parse(kV12, "t.json").table;
  ASSERT_EQ(v12.super_pods.size(), 2u);
  EXPECT_EQ(v12.super_pods[0].servers, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(member_of(v12, 1).device->attributes, (Attributes{{"super_device_id", "1"}}));

  const RankTable v20 = parse(kV20, "t.json").table;
  ASSERT_EQ(v20.servers.size(), 1u);
  EXPECT_EQ(member_of(v20, 1).device->id, 5);
  EXPECT_EQ(member_of(v20, 0).device->networks[1].addresses[0].plane, "x");
  EXPECT_EQ(address_of(v20, 0), "fd00::1, IPV6 address of rank 0");
  EXPECT_EQ(address_of(v20, 1), "none");

  const RankTable groups = parse(kGroups, "t.json").table;
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(member_of(groups, 2).device->id, 1);
  EXPECT_EQ(address_of(groups, 0), "10.0.0.1, server_id");
}

TEST(RankTable, HostIpComesBeforeServerId) {
  const RankTable table = parse(changed(kV10, {{"\"a\"", "\"10.9.9.9\""}}), "t.json").table;
  EXPECT_EQ(address_of(table, 0), "10.0.0.1, host_ip of server '10.9.9.9'");
  const RankTable other = parse(changed(kV10, {{"\"a\", \"host_ip\": \"10.0.0.1\"", "\"10.9.9.9\""}}), "t.json").table;
  EXPECT_EQ(address_of(other, 0), "10.9.9.9, server_id");
}

TEST(RankTable, AFileThatIsNoTable) {
  expect("", {}, {"t.json:1:1: found nothing, expected JSON, fix: write the file again [empty-file]"});
  expect("{\"status\": ", {},
         {"t.json:1:12: found the end of the file, expected the rest of it, fix: write the file again: "
          "whoever wrote it did not finish [truncated-file]"});
  expect(kV10, {{"\"1.0\",", "\"1.0\", // A2"}},
         {"t.json:2:19: found '// A2' (invalid literal), expected string literal, fix: take the comment out: JSON has "
          "none "
          "[not-json]"});
  expect("{\"status\": \"\xc0\"}", {},
         {"t.json:1:13: found a byte that is not UTF-8, expected UTF-8, fix: save the file as "
          "UTF-8 [not-utf8]"});
  expect("[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", {},
         {"t.json:1:17: found an array, expected at most 16 levels, fix: a rank table "
          "has no more than 8: write the file again [too-large]"});
  expect("[]", {}, {"t.json:1:1: found an array, expected an object, fix: write the file again [wrong-type, EI0014]"});
  expect("{\"status\": \"completed\", \"version\": \"1.0\"}", {},
         {"t.json:1:1: server_list: found nothing, expected a field of the name server_list, fix: add \"server_list\" "
          "[missing-field, EI0017]"});
}

TEST(RankTable, StatusAndVersion) {
  const Reading waiting = parse("{\"status\": \"initializing\"}", "t.json");
  EXPECT_TRUE(waiting.initializing);
  EXPECT_EQ(waiting.problems.errors(), 0u);
  expect(kV10, {{"completed", "done"}},
         {"t.json:1:12: status: found 'done', expected \"completed\" or \"initializing\", fix: let the table be made "
          "again "
          "[not-completed]"});
  expect(kV10, {{"\"status\"", "\"state\""}},
         {"t.json:1:1: status: found nothing, expected a field of the name status, fix: "
          "rename 'state' to it [missing-field, EI0017]"});
  // Read as template 2 by others, which then misses group_count.
  expect(kV10, {{"\"version\": \"1.0\",", ""}},
         {"t.json:1:1: version: found nothing, expected \"1.0\", \"1.2\" or \"2.0\", fix: add "
          "\"version\": \"1.0\" [missing-field, EI0017]"});
  expect(kV10, {{"1.0", "3.0"}},
         {"t.json:2:12: version: found \"3.0\", expected \"1.0\", \"1.2\" or \"2.0\", fix: generate the "
          "table for one of these [unknown-version, EI0014]"});
  expect(kV20, {{"2.0", "1.0"}},
         {"t.json:1:13: version: found \"1.0\" with the fields of version 2.0, expected the fields of its "
          "version, fix: generate the table again, or see whether an old file is mounted "
          "[stale-version, EI0014]"});
}

TEST(RankTable, Fields) {
  expect(kV10, {{"\"rank_id\": \"1\"", "\"rank_id\": 1"}, {"\"device_id\": \"1\"", "\"device_id\": \"one\"", "\"b\""}},
         {"t.json:7:56: server_list[0].device[1].rank_id: found 1, expected a number in double quotes, fix: put it in "
          "double quotes "
          "[wrong-type, EI0014]",
          "t.json:10:15: server_list[1].device[1].device_id: found \"one\", expected a whole number from 0 to 65535, "
          "fix: write the "
          "right number [bad-value, EI0014]"});
  expect(kV20, {{"\"rank_id\": 0", "\"rank_id\": \"0\""}},
         {"t.json:2:13: rank_list[0].rank_id: found \"0\", expected a number without quotes, fix: take the quotes away "
          "[wrong-type, EI0014]"});
  expect(
      kV10, {{", \"rank_id\": \"3\"", ", \"rank\": \"3\""}},
      {"t.json:10:1: server_list[1].device[1].rank_id: found nothing, expected a field of the name rank_id, fix: add "
       "\"rank_id\" [missing-field, EI0017]"});
  expect(kV10, {{"\"version\"", "\"status\": \"completed\", \"version\""}},
         {"t.json:2:11: status: found a second value, expected one: the first is at 1:12, fix: take one of them out "
          "[repeated-key]"});
}

TEST(RankTable, Addresses) {
  expect(kV10, {{"10.1.0.2", "-.-.-.-"}, {"10.0.0.2", "192.168.200.1000"}},
         {"t.json:7:33: server_list[0].device[1].device_ip: found \"-.-.-.-\", expected an IPv4 or IPv6 address, fix: "
          "give the "
          "device an address (`hccn_tool -i N -ip -g` shows it) and generate the table again [bad-address, EI0014]",
          "t.json:8:31: server_list[1].host_ip: found \"192.168.200.1000\", expected an IPv4 or IPv6 address, fix: "
          "write the "
          "whole address in numbers [bad-address, EI0014]"});
  expect(kV10, {{"\"b\"", "\"10.0.*.1\""}},
         {"t.json:8:15: server_list[1].server_id: found \"10.0.*.1\", expected an IPv4 or IPv6 "
          "address, or a name, fix: write the address that stands behind the * "
          "[bad-address, EI0014]"});
  expect(kV10, {{"10.0.0.2", "127.0.1.1"}},
         {"t.json:8:31: server_list[1].host_ip: found 127.0.1.1, expected an address that other "
          "servers can reach, fix: write the server's address in their network (`ip addr` shows it) "
          "[loopback-address]"});
  expect(kV10, {{", \"host_ip\": \"10.0.0.1\"", ""}},
         {"t.json:5:15: warning: server_list[0].server_id: found no address of the host, expected host_ip, or an "
          "address as "
          "server_id, fix: add it: rank 0's is where the ranks meet [no-host-address]"});
  expect(
      kV10, {{"\"device_ip\": \"10.1.0.1\", ", ""}},
      {"t.json:6:1: warning: server_list[0].device[0].device_ip: found nothing, expected the address of the device's "
       "network "
       "port, as there are several servers, fix: nothing for ranks on CPUs; add it for devices [missing-device-ip]"});
  expect(kV20, {{"fd00::1", "10.0.0.1"}},
         {"t.json:5:31: rank_list[0].level_list[1].rank_addr_list[0].addr: found '10.0.0.1', "
          "expected an IPv6 address, fix: write the whole address, or the right addr_type "
          "[bad-address, EI0014]"});
}

TEST(RankTable, EntriesThatContradictOneAnother) {
  expect(kV10, {{"\"server_count\": \"2\"", "\"server_count\": \"3\""}},
         {"t.json:3:17: server_count: found 3, expected 2, as many as are listed, fix: write the number of entries, or "
          "complete "
          "the list [wrong-count]"});
  expect(kV10, {{"\"server_count\": \"2\",", ""}},
         {"t.json:1:1: server_count: found nothing, expected a field of the name "
          "server_count, fix: add \"server_count\" [missing-field, EI0017]"});
  expect(kV10, {{"\"b\"", "\"a\""}},
         {"t.json:8:15: server_list[1].server_id: found 'a' again, expected an id of its own: it is that "
          "of the server in line 5, fix: put the devices of one server into one entry, or correct the "
          "id [duplicate-server]"});
  expect(kV10, {{"\"device_id\": \"1\"", "\"device_id\": \"0\""}},
         {"t.json:7:15: server_list[0].device[1].device_id: found device 0 of server 'a' again, expected each device "
          "once: it is in "
          "line 6 as well, fix: give each rank its own device [duplicate-device, EI0004]"});
  expect(kV10, {{"10.1.0.4", "10.1.0.1"}},
         {"t.json:10:33: server_list[1].device[1].device_ip: found 10.1.0.1 again, expected an "
          "address of its own: it is that of the device in line 6, fix: write the device's own "
          "address [duplicate-device-ip]"});
  expect(kV10, {{"\"rank_id\": \"3\"", "\"rank_id\": \"1\""}},
         {"t.json:10:56: server_list[1].device[1].rank_id: found rank 1 again, expected each rank once: it is in line "
          "7 as well, and "
          "there is no rank 3, fix: number the ranks anew (`hocket ranktable merge` does) [duplicate-rank]"});
  expect(kV10, {{"\"rank_id\": \"3\"", "\"rank_id\": \"7\""}},
         {"t.json:10:56: server_list[1].device[1].rank_id: found rank 7 of 4, expected 0 to 3, without gaps: there is "
          "no rank 3, "
          "fix: number the ranks anew (`hocket ranktable merge` does) [rank-gap]"});
  expect(kV10, {{"\"rank_id\": \"1\"", "\"rank_id\": \"2\""}, {"\"rank_id\": \"2\"", "\"rank_id\": \"1\"", "\"b\""}},
         {"t.json:7:56: server_list[0].device[1].rank_id: found ranks 0, 2 on server 'a', expected ranks of a server "
          "that follow "
          "one another, fix: number the ranks anew (`hocket ranktable merge` does) [interleaved-ranks]",
          "t.json:10:56: server_list[1].device[1].rank_id: found ranks 1, 3 on server 'b', expected ranks of a server "
          "that follow "
          "one another, fix: number the ranks anew (`hocket ranktable merge` does) [interleaved-ranks]"});
  expect(kV10, {{",\n{\"device_id\": \"1\", \"device_ip\": \"10.1.0.4\", \"rank_id\": \"3\"}", ""}},
         {"t.json:8:53: warning: server_list[1].device: found 1 devices, expected 2, as the first server has, fix: "
          "nothing for "
          "Hocket; other libraries want equal servers [unequal-servers]"});
}

TEST(RankTable, SuperPods) {
  expect(kV12, {{"{\"server_id\": \"c\"}]}]", "{\"server_id\": \"d\"}]}]"}},
         {"t.json:5:15: server_list[2].server_id: found 'c' in none, expected each server in one entry of "
          "super_pod_list, fix: add "
          "it there [group-of-servers]",
          "t.json:8:53: super_pod_list[1].server_list[0].server_id: found 'd', expected a server of the table's "
          "server_list, fix: "
          "add the server, or take it out here [group-of-servers]"});
  expect(kV12, {{"{\"server_id\": \"c\"}]}]", "{\"server_id\": \"c\"}, {\"server_id\": \"a\"}]}]"}},
         {"t.json:8:73: super_pod_list[1].server_list[1].server_id: found 'a' again, expected each server in one: it "
          "is in 'p', "
          "fix: take it out of one of them [group-of-servers]"});
  expect(kV12,
         {{"{\"server_id\": \"b\"}]", "{\"server_id\": \"c\"}]"},
          {"{\"server_id\": \"c\"}]}]}", "{\"server_id\": \"b\"}]}]}"}},
         {"t.json:5:15: server_list[2].server_id: found a server of super pod 'p' behind those of others, expected the "
          "servers of a "
          "super pod next to one another, fix: move it to them [group-of-servers]"});
  expect(kV12, {{", \"super_device_id\": \"1\"", ""}},
         {"t.json:4:54: server_list[1].device[0].super_device_id: found nothing, expected a field of the name "
          "super_device_id, fix: "
          "add \"super_device_id\" [missing-field, EI0017]"});
  expect(kV12, {{"\"super_device_id\": \"1\"", "\"super_device_id\": \"\""}},
         {"t.json:4:133: server_list[1].device[0].super_device_id: found \"\", expected a whole number from 0 to "
          "2147483647, fix: "
          "write the right number [bad-value, EI0014]"});
}

TEST(RankTable, Networks) {
  expect(kV20, {{"\"rank_count\": 2", "\"rank_count\": 3"}, {"\"net_layer\": 3", "\"net_layer\": 0"}},
         {"t.json:1:34: rank_count: found 3, expected 2, as many as are listed, fix: write the number of entries, or "
          "complete the "
          "list [wrong-count]",
          "t.json:4:15: rank_list[0].level_list[1].net_layer: found 0, expected 1 or more: layers ascend, fix: put the "
          "layers in "
          "order [bad-value, EI0014]",
          "t.json:4:54: rank_list[0].level_list[1].net_type: found 'CLOS', expected \"TOPO_FILE_DESC\" in layer 0, "
          "fix: write the "
          "right one [bad-value, EI0014]"});
  expect(kV20, {{"00aa0021", "00aa002"}, {"IPV6", "MAC"}},
         {"t.json:5:15: rank_list[0].level_list[1].rank_addr_list[0].addr_type: found 'MAC', expected \"EID\", "
          "\"IPV4\" or \"IPV6\", "
          "fix: write one of these [bad-value, EI0014]",
          "t.json:8:30: rank_list[1].level_list[0].rank_addr_list[0].addr: found '00000000000000000000100000aa002', "
          "expected an EID "
          "of 32 hexadecimal digits, fix: write the whole address, or the right addr_type [bad-address, EI0014]"});
}

TEST(RankTable, TemplateTwo) {
  expect(kGroups, {{"\"device_count\": \"3\"", "\"device_count\": \"2\""}, {"hccl_world_group", "mine"}},
         {"t.json:2:16: group_list[0].group_name: found 'mine', expected \"hccl_world_group\", fix: give the group of "
          "all ranks "
          "[bad-value, EI0014]",
          "t.json:2:63: group_list[0].device_count: found 2, expected 3, as many as are listed, fix: write the number "
          "of entries, or "
          "complete the list [wrong-count]"});
  expect(kGroups, {{"\"group_count\": \"1\", ", ""}},
         {"t.json:1:1: group_count: found nothing, expected a field of the name group_count, fix: add \"group_count\" "
          "[missing-field, EI0017]"});
}

TEST(RankTable, ManyErrorsAreCountedAndOnlyTheFirstAreKept) {
  std::string text = "{\"status\": \"completed\", \"version\": \"2.0\", \"rank_count\": 5000, \"rank_list\": [1";
  for (int i = 1; i < 5000; ++i) text += ",1";
  const Reading reading = parse(text + "]}", "t.json");
  EXPECT_EQ(reading.problems.list().size(), Problems::kMost);
  EXPECT_EQ(reading.problems.errors(), 5000u);
  const std::string error = reading.problems.as_error().text;
  EXPECT_EQ(error,
            "rank table t.json:1:77: rank_list[0]: found 1, expected an object, fix: put it in { } [wrong-type, "
            "EI0014]; and 4999 "
            "more: `hocket ranktable lint` lists them");
}

// Files.

class File {
 public:
  explicit File(const std::string& text = "")
      : path_(testing::TempDir() + "/rank_table." + std::to_string(getpid()) + ".json") {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove_all(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

std::string only_line(const std::string& path) {
  const Reading reading = read_file(path);
  for (const Problem& problem : reading.problems.list()) provoked().insert(name_of(problem.kind));
  return lines(reading).size() == 1 ? lines(reading)[0] : std::to_string(lines(reading).size()) + " problems";
}

TEST(RankTableFile, IsReadWhole) {
  const File file(kV10);
  const Reading reading = read_file(file.path());
  EXPECT_EQ(lines(reading), std::vector<std::string>());
  EXPECT_EQ(reading.table.size(), 4);
  EXPECT_EQ(reading.table.file, file.path());
}

TEST(RankTableFile, MustBeThereAndReadable) {
  EXPECT_EQ(only_line("/no/such/table.json"),
            "/no/such/table.json: found No such file or directory, expected a regular file that this "
            "process can read, fix: see whether the file is there, and mounted on this host "
            "[unreadable-file]");
  EXPECT_EQ(only_line("/tmp"),
            "/tmp: found a directory, expected a regular file that this process can read, fix: give the path of "
            "the table [unreadable-file]");
  EXPECT_EQ(only_line("/dev/null"),
            "/dev/null: found no regular file, expected a regular file that this process can read, fix: give "
            "the path of the table [unreadable-file]");
  const File file;
  EXPECT_EQ(only_line(file.path()),
            file.path() + ":1:1: found nothing, expected JSON, fix: write the file again [empty-file]");
}

TEST(RankTableFile, IsNoSymbolicLink) {
  const File file(kV10);
  const std::string link = file.path() + ".link";
  std::filesystem::create_symlink(file.path(), link);
  EXPECT_EQ(only_line(link),
            link +
                ": found a symbolic link, expected a regular file that this process can read, fix: give the path it "
                "leads to: " +
                std::filesystem::canonical(file.path()).string() + " [symbolic-link]");
  std::filesystem::remove(link);
}

TEST(RankTableFile, APipeDoesNotHoldAnybodyUp) {
  const std::string path = testing::TempDir() + "/rank_table_pipe." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(only_line(path).find("found no regular file"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(RankTableFile, OfTooManyBytesIsNotRead) {
  const File file;
  ASSERT_EQ(truncate(file.path().c_str(), (256LL << 20) + 1), 0);
  EXPECT_EQ(only_line(file.path()),
            file.path() +
                ": found 268435457 bytes, expected a regular file that this process can read, fix: keep "
                "it below 268435456 bytes [too-large]");
}

// Every kind that a file alone can have was seen above: a new one needs a test.
TEST(RankTableKinds, EachHasATest) {
  if (provoked().size() < 5) GTEST_FAIL() << "runs with all tests of this program only";
  for (int i = 0; i <= static_cast<int>(Kind::no_host_address); ++i) {
    EXPECT_EQ(provoked().count(name_of(static_cast<Kind>(i))), 1u) << name_of(static_cast<Kind>(i));
  }
}

TEST(RankTableKinds, EachHasAnEntryInTheDocumentation) {
  std::ifstream in(HOCKET_TESTS_FOLDER "/../docs/errors.md");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  for (int i = 0; i < kKinds; ++i) {
    const std::string heading = std::string("\n### ") + name_of(static_cast<Kind>(i)) + "\n";
    EXPECT_NE(text.find(heading), std::string::npos) << heading;
  }
}

// The tables of a folder keep what their names promise.
void check_folder(const std::string& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() != ".json") continue;
    ++count;
    const Reading reading = read_file(entry.path());
    const std::vector<std::string> all = lines(reading);
    const std::string text = all.empty() ? "" : all[0];
    if (name.rfind("own_", 0) == 0) {
      EXPECT_EQ(reading.problems.errors(), 0u) << name << ": " << text;
      EXPECT_EQ(reading.initializing, name.find("initializing") != std::string::npos) << name;
      if (!reading.initializing) {
        EXPECT_GE(reading.table.size(), 2) << name;
      }
    } else {
      // Among the others are masked addresses, a device twice, and devices without an address: each is named.
      EXPECT_GT(reading.problems.errors(), 0u) << name;
      const Kind kind = name.find("dup_device") != std::string::npos ? Kind::duplicate_device : Kind::bad_address;
      EXPECT_EQ(reading.problems.list()[0].kind, kind) << name << ": " << text;
      EXPECT_GT(reading.problems.list()[0].place.line, 1u) << name << ": " << text;
    }
  }
  EXPECT_GE(count, 8) << folder;
}

TEST(RankTableData, OwnExamplesKeepWhatTheirNamesPromise) { check_folder(HOCKET_TESTS_FOLDER "/data/rank_tables"); }

TEST(RankTableData, OthersKeepWhatTheirNamesPromise) {
  const char* folder = std::getenv("HOCKET_TEST_DATA");
  if (folder == nullptr || !std::filesystem::is_directory(std::string(folder) + "/ranktables")) {
    GTEST_SKIP() << "HOCKET_TEST_DATA names no folder with ranktables";
  }
  check_folder(std::string(folder) + "/ranktables");
}

// Digests.

TEST(RankTableDigest, IsOfTheMeaningNotOfTheLayout) {
  const auto digest = [](const std::string& text) { return share(parse(text, "t.json").table)->digest; };
  EXPECT_EQ(digest(kV10), digest(changed(kV10, {{"\n", "\n\n   "},
                                                {"\"device_id\": \"0\", \"device_ip\": \"10.1.0.1\"",
                                                 "\"device_ip\": \"10.1.0.1\", \"device_id\": \"0\""}})));
  const std::vector<Change> each[] = {{{"10.1.0.4", "10.1.0.5"}},
                                      {{"\"b\"", "\"c\""}},
                                      {{"10.0.0.1", "10.0.0.9"}},
                                      {{"\"device_id\": \"1\"", "\"device_id\": \"2\""}},
                                      {{"\"rank_id\": \"1\"", "\"rank_id\": \"1\", \"host_port\": \"5\""}},
                                      {{"\"rank_id\": \"1\"", "\"rank_id\": \"1\", \"device_port\": \"5\""}}};
  std::set<uint64_t> all = {digest(kV10), digest(kV12), digest(kV20), digest(kGroups)};
  for (const std::vector<Change>& changes : each) all.insert(digest(changed(kV10, changes)));
  EXPECT_EQ(all.size(), 4u + std::size(each));
}

}  // namespace
}  // namespace hocket::rank_table
