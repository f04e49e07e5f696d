// Ranks that find each other by a rank table, or are told why not: every error on every rank that can be reached.
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/rank_table/identify.h"
#include "bootstrap/rendezvous.h"
#include "unit/bootstrap_jobs.h"

namespace hocket::rank_table {
namespace {

using bringup::contains;
using Variables = std::map<std::string, std::string>;

Environment environment_of(const Variables& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

// A table in a file, of one server with `devices` devices.
class Table {
 public:
  explicit Table(int devices, const std::string& host = "127.0.0.1") : port_(bringup::free_port()) {
    static std::atomic<int> counter{0};
    path_ = testing::TempDir() + "/table." + std::to_string(getpid()) + "." + std::to_string(counter++) + ".json";
    text_ =
        "{\"status\": \"completed\", \"version\": \"1.0\", \"server_count\": \"1\", \"server_list\": "
        "[\n{\"server_id\": \"s\", "
        "\"host_ip\": \"" +
        host + "\", \"device\": [";
    for (int i = 0; i < devices; ++i) {
      const std::string n = std::to_string(i);
      text_ +=
          (i == 0 ? "\n" : ",\n") + ("{\"device_id\": \"" + std::to_string(i + 4)) + "\", \"rank_id\": \"" + n + "\"}";
    }
    write(text_ += "]}]}");
  }
  ~Table() { std::filesystem::remove(path_); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  void write(const std::string& text) const {
    const std::string next = path_ + ".next";
    std::ofstream(next) << text;
    std::filesystem::rename(next, path_);
  }
  const std::string& path() const { return path_; }
  const std::string& text() const { return text_; }
  int port() const { return port_; }

  Variables rank(int id) const {
    return {{"RANK_TABLE_FILE", path_}, {"RANK_ID", std::to_string(id)}, {"HCCL_IF_BASE_PORT", std::to_string(port_)}};
  }
  std::vector<Variables> ranks(int n) const {
    std::vector<Variables> out;
    for (int r = 0; r < n; ++r) out.push_back(rank(r));
    return out;
  }

 private:
  // The base of a range of a port that is free.
  const int port_;
  std::string path_;
  std::string text_;
};

// Each process's error, "" if it came up and all of them met.
std::vector<std::string> run(const std::vector<Variables>& processes, int64_t deadline_ms = 20'000) {
  std::vector<std::string> out(processes.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < processes.size(); ++i) {
    threads.emplace_back([&, i]() {
      const Deadline deadline = Deadline::in_ms(deadline_ms);
      const auto come = [&]() -> Status {
        HKT_ASSIGN(const Identity me, identity_from_table(environment_of(processes[i]), deadline));
        HKT_ASSIGN(const std::unique_ptr<Rendezvous> r, Rendezvous::open(me, deadline));
        HKT_TRY(r->barrier("here"));
        return r->leave();
      };
      const Status status = come();
      out[i] = status.ok() ? "" : status.error().text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

void expect_all(const std::vector<std::string>& errors, const std::string& text) {
  for (size_t i = 0; i < errors.size(); ++i) EXPECT_EQ(errors[i], text) << "process " << i;
}

std::string error_of(const Variables& variables, int64_t deadline_ms = 200) {
  const Result<Identity> me = identity_from_table(environment_of(variables), Deadline::in_ms(deadline_ms));
  if (!me) return me.error().text;
  return me.value().refusal ? me.value().refusal->text : "";
}

TEST(RankTableBringUp, RanksMeetWithoutAMaster) {
  for (const int n : {1, 2, 3, 8}) {
    const Table table(n);
    expect_all(run(table.ranks(n)), "");
  }
}

TEST(RankTableBringUp, EveryVariableThatAgreesIsTaken) {
  const Table table(3);
  std::vector<Variables> all = table.ranks(3);
  for (int r = 0; r < 3; ++r) {
    Variables& mine = all[static_cast<size_t>(r)];
    mine["RANK_SIZE"] = "3";
    mine["DEVICE_ID"] = std::to_string(r + 4);
    mine["SERVER_ID"] = r == 0 ? "0" : "s";
    mine["MINDSPORE_HCCL_CONFIG_PATH"] = mine["RANK_TABLE_FILE"];
  }
  all[1].erase("RANK_TABLE_FILE");
  expect_all(run(all), "");
}

TEST(RankTableBringUp, ThePlaceIsThatOfRankZero) {
  const auto place = [](const Variables& variables) {
    const Result<Identity> me = identity_from_table(environment_of(variables), Deadline::in_ms(200));
    return me ? me.value().url + " " + me.value().note : me.error().text;
  };
  Table table(3);
  Variables mine = {{"RANK_TABLE_FILE", table.path()}, {"RANK_ID", "2"}};
  const std::string note = " host_ip of server 's' in " + table.path() + ":2:1; port: ";
  EXPECT_EQ(place(mine), "tcp://127.0.0.1:60000" + note + "base port 60000, local id 0");
  mine["HCCL_IF_BASE_PORT"] = "5000";
  EXPECT_EQ(place(mine), "tcp://127.0.0.1:5000" + note + "HCCL_IF_BASE_PORT=5000, local id 0");
  mine["HCCL_HOST_SOCKET_PORT_RANGE"] = "auto";
  EXPECT_EQ(place(mine), "tcp://127.0.0.1:5000" + note + "base port 5000, local id 0");
  mine["HCCL_HOST_SOCKET_PORT_RANGE"] = "6000-6001,6100";
  EXPECT_EQ(place(mine), "tcp://127.0.0.1:6000" + note + "HCCL_HOST_SOCKET_PORT_RANGE=6000-6001,6100, local id 0");
  std::string text = table.text();
  // Rank 0 is the third device.
  text.replace(text.find("\"rank_id\": \"0\""), 14, "\"rank_id\": \"2\"");
  text.replace(text.rfind("\"rank_id\": \"2\""), 14, "\"rank_id\": \"0\"");
  table.write(text);
  EXPECT_EQ(place(mine), "tcp://127.0.0.1:6100" + note + "HCCL_HOST_SOCKET_PORT_RANGE=6000-6001,6100, local id 2");
  mine["HCCL_HOST_SOCKET_PORT_RANGE"] = "6000-6001";
  EXPECT_EQ(place(mine),
            "HCCL_HOST_SOCKET_PORT_RANGE=6000-6001 has 2 ports, and none for local id 2: give it "
            "3 ports [port-taken]");
  mine["HOCKET_PORT_RANGE"] = "6200-6300";
  EXPECT_EQ(place(mine), "tcp://127.0.0.1:6202" + note + "HOCKET_PORT_RANGE=6200-6300, local id 2");
  mine.erase("HOCKET_PORT_RANGE");
  mine["HCCL_HOST_SOCKET_PORT_RANGE"] = "6001-6000";
  EXPECT_EQ(place(mine),
            "environment variable HCCL_HOST_SOCKET_PORT_RANGE is '6001-6000': set it to ports such as "
            "60000-60050,60100, or auto");
  text.replace(text.find("\"rank_id\": \"0\""), 14, "\"rank_id\": \"0\", \"host_port\": \"7000\"");
  table.write(text);
  EXPECT_EQ(place(mine), "tcp://127.0.0.1:7000" + note + "host_port of rank 0");
}

TEST(RankTableBringUp, HocketsOwnPlaceComesBeforeTheTable) {
  const Table table(2);
  Variables mine = table.rank(1);
  EXPECT_TRUE(contains(hocket::identify(environment_of(mine), Deadline::in_ms(200)).value().url, "tcp://127.0.0.1:"));
  mine["HOCKET_INIT"] = "file:///tmp/place?rank=0&world_size=4";
  EXPECT_EQ(hocket::identify(environment_of(mine), Deadline::in_ms(200)).value().url, "file:///tmp/place");
}

TEST(RankTableBringUp, TheSameRankTwice) {
  const Table table(3);
  for (const std::string& error : run({table.rank(0), table.rank(1), table.rank(1)})) {
    EXPECT_TRUE(contains(error, "two processes say they are rank 1 of 3: host ")) << error;
    EXPECT_TRUE(contains(error, "give each its own RANK (RANK_ID with a rank table)")) << error;
  }
}

TEST(RankTableBringUp, TooFewProcesses) {
  const Table table(4);
  for (const std::string& error : run({table.rank(0), table.rank(1), table.rank(3)}, 500)) {
    EXPECT_TRUE(contains(error, "rank 2 of 4 did not come within 0.5 s: ")) << error;
  }
}

TEST(RankTableBringUp, TooManyProcesses) {
  const Table table(3);
  const std::vector<std::string> errors = run(table.ranks(4));
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(errors[r], "");
  EXPECT_EQ(errors[3], "rank table " + table.path() +
                           ": environment variable RANK_ID: found 3, expected 0 to 2, as the table has 3 ranks, "
                           "fix: start as many processes as the table has ranks, or give all the table that has this "
                           "rank [rank-not-in-table]");
}

TEST(RankTableBringUp, ARankThatComesLate) {
  const Table table(3);
  std::vector<std::string> late;
  std::thread third([&]() {
    // Later than the first tries of the others to connect; no result depends on how much.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    late = run({table.rank(0)});
  });
  expect_all(run({table.rank(1), table.rank(2)}), "");
  third.join();
  expect_all(late, "");
}

TEST(RankTableBringUp, RankSizeAgainstTheTable) {
  const Table table(3);
  std::vector<Variables> all = table.ranks(3);
  all[1]["RANK_SIZE"] = "4";
  expect_all(
      run(all),
      "rank 1: rank table " + table.path() +
          ": environment variable RANK_SIZE: found 4, expected 3, as many as the table "
          "has, fix: start as many processes as the table has ranks, or use the table of this job [rank-size-differs]");
}

TEST(RankTableBringUp, SpareDevicesAreNeverTakenSilently) {
  const Table table(5);
  std::vector<Variables> all = table.ranks(3);
  all[2]["RANK_SIZE"] = "3";
  expect_all(run(all), "rank 2: rank table " + table.path() +
                           ": environment variable RANK_SIZE: found 3, expected 5, as many as the table "
                           "has, fix: set it to 5; or, if the last 2 ranks are spare cards, set HOCKET_SPARES=2 on all "
                           "ranks [spare-devices]");
  for (Variables& mine : all) mine["HOCKET_SPARES"] = "2";
  expect_all(run(all), "");
  Variables spare = table.rank(3);
  spare["HOCKET_SPARES"] = "2";
  EXPECT_TRUE(contains(error_of(spare), "found 3, expected 0 to 2, as the table has 3 ranks without its spares"));
  spare["HOCKET_SPARES"] = "5";
  EXPECT_TRUE(contains(error_of(spare), "HOCKET_SPARES: found 5, expected fewer than the 5 entries of the table"))
      << error_of(spare);
}

TEST(RankTableBringUp, DeviceIdAgainstTheTable) {
  const Table table(3);
  std::vector<Variables> all = table.ranks(3);
  // Two processes with one device.
  all[1]["DEVICE_ID"] = "4";
  expect_all(
      run(all),
      "rank 1: rank table " + table.path() +
          ":4:1: environment variable DEVICE_ID: found 4, which the table gives to rank "
          "0, expected 5: the device of rank 1 of the table, fix: give each process its own RANK_ID and DEVICE_ID; in "
          "a "
          "container, where devices are counted anew, say by ASCEND_RT_VISIBLE_DEVICES which of the host's they are "
          "[device-id-differs, EI0004]");
  // A container counts from 0.
  Variables inside = table.rank(1);
  inside["DEVICE_ID"] = "1";
  EXPECT_TRUE(contains(error_of(inside), "DEVICE_ID: found 1, expected 5: the device of rank 1")) << error_of(inside);
  inside["ASCEND_VISIBLE_DEVICES"] = "4,5,6";
  EXPECT_EQ(error_of(inside), "");
  inside["ASCEND_RT_VISIBLE_DEVICES"] = "4,6";
  EXPECT_TRUE(contains(error_of(inside), "DEVICE_ID: found 1, expected 5")) << error_of(inside);
}

TEST(RankTableBringUp, ServerIdAgainstTheTable) {
  const Table table(3);
  std::vector<Variables> all = table.ranks(3);
  all[2]["SERVER_ID"] = "1";
  expect_all(run(all),
             "rank 2: rank table " + table.path() +
                 ":2:1: environment variable SERVER_ID: found '1', expected 0 or 's': the server "
                 "of rank 2 of the table, fix: correct RANK_ID or SERVER_ID of this process [server-id-differs]");
}

TEST(RankTableBringUp, RankIdIsNotSet) {
  const Table table(3);
  Variables mine = table.rank(0);
  mine.erase("RANK_ID");
  EXPECT_EQ(error_of(mine),
            "environment variable RANK_ID: found nothing, expected the rank of this process in the rank table '" +
                table.path() + "', fix: export RANK_ID in each process, from 0 on [rank-id-not-set]");
  mine["RANK_ID"] = "first";
  EXPECT_EQ(error_of(mine), "environment variable RANK_ID is 'first': set it to a whole number from 0 to 1048575");
  mine["RANK_ID"] = "-1";
  EXPECT_TRUE(contains(error_of(mine), "RANK_ID is -1:"));
}

TEST(RankTableBringUp, TwoTables) {
  const Table table(3);
  Variables mine = table.rank(0);
  mine["MINDSPORE_HCCL_CONFIG_PATH"] = "/other";
  EXPECT_EQ(error_of(mine),
            "environment variable MINDSPORE_HCCL_CONFIG_PATH: found '/other', expected the same as RANK_TABLE_FILE, '" +
                table.path() + "', fix: unset one of them [two-tables]");
  mine.erase("MINDSPORE_HCCL_CONFIG_PATH");
  mine["CM_CHIEF_IP"] = "10.0.0.1";
  EXPECT_TRUE(contains(error_of(mine), "CM_CHIEF_IP: found '10.0.0.1', expected it unset, as there is a rank table"));
}

TEST(RankTableBringUp, ABrokenTableIsNamedOnEveryRank) {
  const Table table(3);
  std::string text = table.text();
  text.replace(text.find("\"5\""), 3, "\"4\"");
  text.replace(text.find("\"server_count\": \"1\""), 19, "\"server_count\": \"2\"");
  table.write(text);
  expect_all(
      run(table.ranks(3)),
      "rank table " + table.path() +
          ":1:59: server_count: found 2, expected 1, as many as are listed, fix: write the "
          "number of entries, or complete the list [wrong-count]; and 1 more: `hocket ranktable lint` lists them");
}

// What is wrong with one process of three that does not even know its rank: its table, or its variables.
struct Fault {
  const char* kind;
  std::function<void(const std::string& copy, std::string text, Variables& mine)> make;
};

Fault text_fault(const char* kind, const std::string& from, const std::string& to) {
  return {kind, [from, to](const std::string& copy, std::string text, Variables&) {
            const size_t at = text.find(from);
            ASSERT_NE(at, std::string::npos) << from;
            std::ofstream(copy) << text.replace(at, from.size(), to);
          }};
}

Fault variable_fault(const char* kind, const char* name, const char* value) {
  return {kind, [name, value](const std::string& copy, const std::string& text, Variables& mine) {
            std::ofstream(copy) << text;
            mine[name] = value;
            if (*value == '\0') mine.erase(name);
          }};
}

std::vector<Fault> faults() {
  return {
      {"unreadable-file", [](const std::string&, const std::string&, Variables&) {}},
      {"symbolic-link", [](const std::string& copy, const std::string&,
                           Variables& mine) { std::filesystem::create_symlink(mine["RANK_TABLE_FILE"], copy); }},
      {"empty-file", [](const std::string& copy, const std::string&, Variables&) { std::ofstream file(copy); }},
      {"truncated-file", [](const std::string& copy, const std::string& text,
                            Variables&) { std::ofstream(copy) << text.substr(0, text.size() / 2); }},
      text_fault("not-json", "{\"device_id\": \"5\"", "// the second\n{\"device_id\": \"5\""),
      text_fault("missing-field", "\"server_count\": \"1\", ", ""),
      text_fault("wrong-count", "\"server_count\": \"1\"", "\"server_count\": \"2\""),
      text_fault("duplicate-device", "\"device_id\": \"5\"", "\"device_id\": \"4\""),
      text_fault("duplicate-rank", "\"rank_id\": \"2\"", "\"rank_id\": \"1\""),
      text_fault("rank-gap", "\"rank_id\": \"2\"", "\"rank_id\": \"3\""),
      text_fault("bad-address", "\"device_id\": \"5\"", "\"device_id\": \"5\", \"device_ip\": \"-.-.-.-\""),
      text_fault("bad-address", "127.0.0.1", "192.168.200.1000"),
      {"interleaved-ranks",
       [](const std::string& copy, const std::string&, Variables&) {
         std::ofstream(copy) << R"({"status": "completed", "version": "1.0", "server_count": "2", "server_list": [
                {"server_id": "s", "host_ip": "198.51.100.1", "device": [{"device_id": "0", "rank_id": "0"},
                                                                         {"device_id": "1", "rank_id": "2"}]},
                {"server_id": "t", "host_ip": "198.51.100.2", "device": [{"device_id": "0", "rank_id": "1"}]}]})";
       }},
      {"stale-version",
       [](const std::string& copy, const std::string&, Variables&) {
         std::ofstream(copy) << R"({"version": "1.0", "status": "completed", "rank_count": 3, "rank_list": []})";
       }},
      variable_fault("rank-id-not-set", "RANK_ID", ""),
      variable_fault("rank-not-in-table", "RANK_ID", "3"),
      variable_fault("two-tables", "MINDSPORE_HCCL_CONFIG_PATH", "/another"),
  };
}

TEST(RankTableBringUp, OneOfThreeThatCannotComeSaysWhyAndTheOthersNameIt) {
  const std::vector<Fault> all = faults();
  std::vector<std::unique_ptr<Table>> tables;
  std::set<int> ports;
  while (tables.size() < all.size()) {
    auto table = std::make_unique<Table>(3);
    if (ports.insert(table->port()).second) tables.push_back(std::move(table));
  }
  std::vector<std::vector<std::string>> errors(all.size());
  // All jobs at the same time: each waits for its deadline.
  std::vector<std::thread> jobs;
  for (size_t i = 0; i < all.size(); ++i) {
    jobs.emplace_back([&, i]() {
      const Table& table = *tables[i];
      const std::string copy = table.path() + ".copy";
      std::vector<Variables> ranks = table.ranks(3);
      all[i].make(copy, table.text(), ranks[1]);
      ranks[1]["RANK_TABLE_FILE"] = copy;
      errors[i] = run(ranks, 3000);
      std::filesystem::remove(copy);
    });
  }
  for (std::thread& job : jobs) job.join();
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(contains(errors[i][1], std::string("[") + all[i].kind)) << all[i].kind << ": " << errors[i][1];
    for (const size_t r : {0u, 2u})
      EXPECT_TRUE(contains(errors[i][r], "rank 1 of 3 did not come within 3 s")) << all[i].kind << ": " << errors[i][r];
  }
}

TEST(RankTableBringUp, AnAddressThatIsNotOfThisHost) {
  // Of TEST-NET-2: nobody has it.
  const Table table(3, "198.51.100.1");
  const std::vector<std::string> errors = run(table.ranks(3), 700);
  EXPECT_TRUE(
      contains(errors[0], "rank table " + table.path() +
                              ":2:1: host_ip of server 's': found 198.51.100.1, expected an address of this host, "
                              "which has "))
      << errors[0];
  EXPECT_TRUE(
      contains(errors[0], "fix: start rank 0 on the host of this address, or correct the table [foreign-address]"))
      << errors[0];
  for (size_t r = 1; r < 3; ++r) {
    EXPECT_TRUE(contains(
        errors[r], "rank " + std::to_string(r) + " of 3 could not reach rank 0 at tcp://198.51.100.1:" +
                       std::to_string(table.port()) + " (host_ip of server 's' in " + table.path() + ":2:1; port: "))
        << errors[r];
  }
}

TEST(RankTableBringUp, NoAddressOfRankZero) {
  const Table table(3);
  std::string text = table.text();
  text.replace(text.find("\"host_ip\": \"127.0.0.1\", "), 24, "");
  table.write(text);
  EXPECT_TRUE(contains(error_of(table.rank(1)),
                       "found no address of the host of rank 0, expected host_ip, an address as server_id"))
      << error_of(table.rank(1));
}

TEST(RankTableBringUp, APortThatAnotherJobHas) {
  const Table table(3);
  const auto other = listen_on(Address::loopback(Family::v4, static_cast<uint16_t>(table.port())));
  ASSERT_TRUE(other);
  const std::vector<std::string> errors = run(table.ranks(3), 1500);
  const std::string port = std::to_string(table.port());
  EXPECT_TRUE(contains(errors[0], "cannot listen on 127.0.0.1:" + port + ": the port is taken by another process"))
      << errors[0];
  EXPECT_TRUE(contains(errors[0], "port: HCCL_IF_BASE_PORT=" + port + ", local id 0)")) << errors[0];
  for (size_t r = 1; r < 3; ++r)
    EXPECT_TRUE(contains(errors[r], "could not reach rank 0 at tcp://127.0.0.1:" + port)) << errors[r];
}

TEST(RankTableBringUp, TablesThatDiffer) {
  const Table table(3);
  const Table other(3);
  std::string text = other.text();
  text.replace(text.find("\"6\""), 3, "\"7\"");
  other.write(text);
  std::vector<Variables> all = table.ranks(3);
  all[1]["RANK_TABLE_FILE"] = other.path();
  expect_all(run(all), "the rank tables differ: rank 1 has 'rank 2: device 7 of server 's', local id 2' (" +
                           other.path() + ":5:1), rank 0 has 'rank 2: device 6 of server 's', local id 2' (" +
                           table.path() +
                           ":5:1): give all ranks the same rank table, or none of them one [tables-differ]");
  // One that is the same but for its layout.
  other.write("\n\n" + table.text());
  expect_all(run(all), "");
  // A stale one, of another version of the same ranks.
  text = table.text();
  text.replace(text.find("\"1.0\""), 5, "\"1.2\"");
  other.write(text);
  expect_all(run(all), "the rank tables differ: rank 1 has 'version 1.2' (" + other.path() +
                           "), rank 0 has 'version 1.0' (" + table.path() +
                           "): give all ranks the same rank table, or none of them one [tables-differ]");
}

TEST(RankTableBringUp, ARankWithoutATable) {
  const Table table(3);
  std::vector<Variables> all = table.ranks(3);
  std::vector<std::string> errors;
  std::thread without([&]() {
    const Identity me = bringup::identity_at(2, 3, "tcp://127.0.0.1:" + std::to_string(table.port()));
    const auto r = Rendezvous::open(me, Deadline::in_ms(20'000));
    errors.push_back(r ? "" : r.error().text);
  });
  const std::vector<std::string> others = run({all[0], all[1]});
  without.join();
  errors.insert(errors.end(), others.begin(), others.end());
  expect_all(errors, "rank 2 was started with no rank table, rank 0 with " + table.path() +
                         ": give all ranks the same rank table, or none of them one [tables-differ]");
}

// Says when a file has been read and closed.
class Reads {
 public:
  Reads() : queue_(inotify_init1(IN_CLOEXEC)) {}
  void watch(const std::string& path) const {
    ASSERT_GE(inotify_add_watch(queue_.get(), path.c_str(), IN_CLOSE_NOWRITE), 0);
  }
  void wait() const {
    alignas(inotify_event) char event[4096];
    ASSERT_GT(read(queue_.get(), event, sizeof event), 0);
  }

 private:
  const Fd queue_;
};

TEST(RankTableBringUp, ATableThatIsStillBeingMadeIsWaitedFor) {
  const Table table(3);
  table.write("{\"status\": \"initializing\"}");
  std::vector<std::string> errors;
  std::thread job([&]() { errors = run(table.ranks(3)); });
  table.write(table.text());
  job.join();
  expect_all(errors, "");
}

TEST(RankTableBringUp, ATableThatIsHalfWrittenIsWaitedForOnceItWasSeenToBeMade) {
  const Table table(1);
  table.write("{\"status\": \"initializing\"}");
  const Reads reads;
  reads.watch(table.path());
  std::vector<std::string> errors;
  std::thread job([&]() { errors = run(table.ranks(1)); });
  reads.wait();
  const std::string half = table.path() + ".half";
  std::ofstream(half) << table.text().substr(0, table.text().size() / 2);
  const Reads reads_of_half;
  reads_of_half.watch(half);
  std::filesystem::rename(half, table.path());
  reads_of_half.wait();
  table.write(table.text());
  job.join();
  expect_all(errors, "");
  // Without that it is an error at once.
  table.write(table.text().substr(0, table.text().size() / 2));
  EXPECT_TRUE(contains(error_of(table.rank(0), 20'000), "[truncated-file]")) << error_of(table.rank(0), 20'000);
}

TEST(RankTableBringUp, ATableThatIsNeverMade) {
  const Table table(3);
  table.write("{\"status\": \"initializing\"}");
  expect_all(run(table.ranks(3), 300),
             "rank table " + table.path() +
                 ": status: found \"initializing\" for 0.3 s, expected \"completed\" in time, "
                 "fix: see whether what fills the table is running, or raise HOCKET_INIT_TIMEOUT [not-completed]");
}

}  // namespace
}  // namespace hocket::rank_table
