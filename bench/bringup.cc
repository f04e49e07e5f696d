// How long bring-up takes, and what it says on the way, with ranks as threads of this process over 127.0.0.1:
//   hocket-bringup [--ranks 2,8,64] [--by env,file,table,torch] [--torch-store PORT] [--transport tcp] [--rounds 5]
//                  [--json FILE]
// One line per number of ranks and way to meet: the time from the first rank's start until the last one has its
// communicator (least and median of the rounds), and requests and bytes to and from the store. `torch` needs a TCPStore
// of PyTorch, as torchrun's agent serves one, at the port given. Status 1 if any rank fails.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/identity.h"
#include "bootstrap/rendezvous.h"
#include "comm/bringup.h"

namespace hocket {
namespace {

constexpr int64_t kDeadlineMs = 120'000;

struct Options {
  std::vector<int> ranks = {2, 8, 64};
  std::vector<std::string> by = {"env", "file", "table"};
  std::string torch_store;
  std::string transport = "tcp";
  int rounds = 5;
  std::string json;
};

using Variables = std::map<std::string, std::string>;

// One job: where its ranks meet, as variables of each.
class Job {
 public:
  Job(const Options& o, const std::string& by, int nranks, const std::string& directory)
      : options_(o), by_(by), nranks_(nranks) {
    static int counter = 0;
    number_ = std::to_string(++counter);
    const auto listener = listen_on(Address::loopback(Family::v4, 0));
    port_ = listener.ok() ? local_address(listener.value().get()).value().port() : 0;
    path_ = directory + "/" + by + number_;
    if (by != "table") return;
    std::string devices;
    for (int r = 0; r < nranks; ++r) {
      devices += format(R"(%s{"device_id": "%d", "rank_id": "%d"})", r == 0 ? "" : ", ", r, r);
    }
    std::ofstream(path_) << R"({"version": "1.0", "status": "completed", "server_count": "1", "server_list": )"
                         << R"([{"server_id": "127.0.0.1", "device": [)" << devices << "]}]}";
  }

  Variables of(int rank) const {
    const std::string r = std::to_string(rank), n = std::to_string(nranks_);
    if (by_ == "file") return {{"HOCKET_INIT", "file://" + path_}, {"RANK", r}, {"WORLD_SIZE", n}};
    if (by_ == "table") {
      return {{"RANK_TABLE_FILE", path_}, {"RANK_ID", r}, {"HCCL_IF_BASE_PORT", std::to_string(port_)}};
    }
    Variables out = {{"RANK", r}, {"WORLD_SIZE", n}, {"MASTER_ADDR", "127.0.0.1"}};
    out["MASTER_PORT"] = by_ == "torch" ? options_.torch_store : std::to_string(port_);
    if (by_ == "torch") {
      out["TORCHELASTIC_USE_AGENT_STORE"] = "True";
      out["TORCHELASTIC_RUN_ID"] = format("bench%d-%s", getpid(), number_.c_str());
      out["TORCHELASTIC_RESTART_COUNT"] = "0";
      out["LOCAL_RANK"] = r;
    }
    return out;
  }

 private:
  const Options& options_;
  const std::string by_;
  const int nranks_;
  std::string number_;
  uint16_t port_ = 0;
  std::string path_;
};

struct Rank {
  std::string error;
  int64_t up_ns = 0;  // or failed
  Store::Traffic traffic;
};

struct Round {
  double seconds = 0;
  Store::Traffic total;
  uint64_t most_requests = 0;  // of one rank
  std::string error;
};

Status come(const Variables& variables, const Options& o, std::latch& all_up, Rank& out) {
  const Deadline deadline = Deadline::in_ms(kDeadlineMs);
  const Environment environment = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  HKT_ASSIGN(const Identity me, identify(environment, deadline));
  HKT_ASSIGN(const std::unique_ptr<Rendezvous> rendezvous, Rendezvous::open(me, deadline));
  CommSettings settings;
  settings.transport = o.transport;
  HKT_ASSIGN(const std::unique_ptr<Communicator> comm, bring_up(*rendezvous, settings, deadline));
  out.up_ns = now_ns();
  out.traffic = rendezvous->traffic();
  all_up.arrive_and_wait();  // what an end costs is not counted
  return {};
}

Round run(const Options& o, const Job& job, int nranks) {
  std::vector<Rank> ranks(static_cast<size_t>(nranks));
  std::latch all_up(nranks);
  std::vector<std::thread> threads;
  const int64_t start = now_ns();
  for (int r = 0; r < nranks; ++r) {
    threads.emplace_back([&, r] {
      Rank& rank = ranks[static_cast<size_t>(r)];
      if (Status s = come(job.of(r), o, all_up, rank); !s.ok()) {
        rank.error = s.error().text;
        rank.up_ns = now_ns();
        all_up.count_down();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  Round out;
  int64_t failed_ns = INT64_MAX;
  for (const Rank& rank : ranks) {
    if (!rank.error.empty() && rank.up_ns < failed_ns) {
      failed_ns = rank.up_ns;
      out.error = rank.error;  // of the first that failed: the others tell of the consequences
    }
    out.seconds = std::max(out.seconds, static_cast<double>(rank.up_ns - start) / 1e9);
    out.total.requests += rank.traffic.requests;
    out.total.sent += rank.traffic.sent;
    out.total.received += rank.traffic.received;
    out.most_requests = std::max(out.most_requests, rank.traffic.requests);
  }
  return out;
}

struct Row {
  std::string by;
  int nranks;
  double least, median;
  Round last;
};

void print(const Row& r) {
  std::printf(
      "%-6s %5d ranks  %8.3f s  (median %8.3f)  %7llu requests (at most %llu a rank)  %11llu bytes in, %11llu out\n",
      r.by.c_str(), r.nranks, r.least, r.median, static_cast<unsigned long long>(r.last.total.requests),
      static_cast<unsigned long long>(r.last.most_requests), static_cast<unsigned long long>(r.last.total.sent),
      static_cast<unsigned long long>(r.last.total.received));
  std::fflush(stdout);
}

bool write_json(const Options& o, const std::vector<Row>& rows) {
  std::ofstream f(o.json);
  f << "{\"what\": \"bring-up, ranks as threads over 127.0.0.1\", \"cpus\": " << std::thread::hardware_concurrency()
    << ", \"transport\": \"" << o.transport << "\", \"rounds\": " << o.rounds << ", \"results\": [";
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    f << (i == 0 ? "" : ",")
      << format(
             "\n  {\"by\": \"%s\", \"ranks\": %d, \"least_s\": %.4f, \"median_s\": %.4f, \"requests\": %llu, "
             "\"most_requests\": %llu, \"bytes_in\": %llu, \"bytes_out\": %llu}",
             r.by.c_str(), r.nranks, r.least, r.median, static_cast<unsigned long long>(r.last.total.requests),
             static_cast<unsigned long long>(r.last.most_requests), static_cast<unsigned long long>(r.last.total.sent),
             static_cast<unsigned long long>(r.last.total.received));
  }
  f << "\n]}\n";
  return f.good();
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> out;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    out.emplace_back(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return out;
}

bool parse(int argc, char** argv, Options& o) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    bool good = !value.empty();
    if (flag == "--ranks") {
      o.ranks.clear();
      for (const std::string& word : split(value)) {
        const auto n = parse_int(word);
        good = good && n && *n >= 1 && *n <= 4096;
        if (good) o.ranks.push_back(static_cast<int>(*n));
      }
    } else if (flag == "--by") {
      o.by = split(value);
      for (const std::string& by : o.by) good = good && (by == "env" || by == "file" || by == "table" || by == "torch");
    } else if (flag == "--torch-store") {
      o.torch_store = value;
    } else if (flag == "--transport") {
      o.transport = value;
    } else if (flag == "--rounds") {
      const auto n = parse_int(value);
      good = n && *n >= 1 && *n <= 1000;
      if (good) o.rounds = static_cast<int>(*n);
    } else if (flag == "--json") {
      o.json = value;
    } else {
      good = false;
    }
    if (good) continue;
    std::fprintf(stderr,
                 "usage: %s [--ranks 2,8,64] [--by env,file,table,torch] [--torch-store PORT] [--transport tcp] "
                 "[--rounds 5] [--json FILE]\n",
                 argv[0]);
    return false;
  }
  return true;
}

int run_all(const Options& o) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;  // all ranks are in this process
  setrlimit(RLIMIT_NOFILE, &limit);
  char directory[] = "/tmp/hocket-bringup.XXXXXX";
  if (mkdtemp(directory) == nullptr) {
    std::perror("mkdtemp");
    return 1;
  }
  std::vector<Row> rows;
  std::string failed;
  for (const int nranks : o.ranks) {
    // Round by round all ways in turn, so that a slow moment of the machine meets all of them.
    std::map<std::string, std::vector<double>> times;
    std::map<std::string, Round> last;
    for (int i = 0; i < o.rounds && failed.empty(); ++i) {
      for (const std::string& by : o.by) {
        const Round round = run(o, Job(o, by, nranks, directory), nranks);
        if (!round.error.empty()) failed = format("%s, %d ranks: %s", by.c_str(), nranks, round.error.c_str());
        times[by].push_back(round.seconds);
        last[by] = round;
      }
    }
    if (!failed.empty()) break;
    for (const std::string& by : o.by) {
      std::vector<double>& t = times[by];
      std::sort(t.begin(), t.end());
      rows.push_back({by, nranks, t.front(), t[t.size() / 2], last[by]});
      print(rows.back());
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  if (!failed.empty()) std::fprintf(stderr, "hocket-bringup: %s\n", failed.c_str());
  if (!o.json.empty() && !write_json(o, rows)) std::fprintf(stderr, "cannot write %s\n", o.json.c_str());
  return failed.empty() ? 0 : 1;
}

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) {
  hocket::Options o;
  return hocket::parse(argc, argv, o) ? hocket::run_all(o) : 2;
}
