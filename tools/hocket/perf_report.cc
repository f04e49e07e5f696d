#include "perf_report.h"

#include <unistd.h>

#include <cinttypes>
#include <cstring>
#include <ctime>
#include <set>

extern char** environ;

namespace hocket::tool {
namespace {

using nlohmann::ordered_json;

std::string now_text() {
  const std::time_t t = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&t, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// As nccl-tests shows it in a row: local time.
std::string timestamp() {
  const std::time_t t = std::time(nullptr);
  std::tm parts{};
  localtime_r(&t, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

// Only what concerns this run: the rest of an environment holds secrets.
ordered_json environment() {
  static const std::set<std::string> launcher = {
      "RANK",        "LOCAL_RANK",        "WORLD_SIZE",      "LOCAL_WORLD_SIZE",           "MASTER_ADDR",
      "MASTER_PORT", "NCCL_TESTS_MIN_BW", "RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH", "RANK_ID",
      "RANK_SIZE",   "DEVICE_ID",         "SERVER_ID"};
  ordered_json list = ordered_json::array();
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    if (entry.rfind("HOCKET_SECRET=", 0) == 0) continue;
    if (entry.rfind("HOCKET_", 0) == 0 || launcher.count(entry.substr(0, entry.find('='))) != 0) list.push_back(entry);
  }
  return list;
}

}  // namespace

std::string fit(double value, int width) {
  for (const char* f : {"%.2f", "%.1f", "%.0f"}) {
    char text[64];
    if (std::snprintf(text, sizeof text, f, value) <= width) return text;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

Report::Report(const PerfOptions& options, std::vector<Device> devices, std::vector<std::string> args)
    : options_(options), devices_(std::move(devices)), args_(std::move(args)), start_(now_text()) {}

void Report::begin(std::FILE* to) const {
  std::fprintf(to, "# hocket version %d.%d.%d\n", HKT_MAJOR, HKT_MINOR, HKT_PATCH);
  std::fprintf(to, "# Collective test starting: %s_perf\n", options_.test->name);
  std::fprintf(to,
               "# nThread %d nGpus %d minBytes %" PRIu64 " maxBytes %" PRIu64 " step: %" PRIu64
               "(%s) warmup iters: %d iters: %d agg iters: 1 validation: %d graph: 0 unalign: 0%s%s\n#\n",
               options_.threads, options_.gpus, options_.min_bytes, options_.max_bytes,
               options_.step_factor != 0 ? options_.step_factor : options_.step_bytes,
               options_.step_factor != 0 ? "factor" : "bytes", options_.warmup, options_.iters, options_.check,
               options_.nonblocking ? " nonblocking: 1" : "", options_.registered != 0 ? " registered: 1" : "");
  std::fprintf(to, "# Using devices\n");
  for (const Device& d : devices_)
    std::fprintf(to, "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n", d.rank, 0, d.pid,
                 d.host.c_str(), 0, 0, 0, 0, "cpu");
  std::fprintf(to, "#\n");
  const char* extra = options_.percentiles ? "  %7s  %7s" : "";
  const auto head = [&](const char* a, const char* b) {
    if (*extra != '\0') std::fprintf(to, extra, a, b);
  };
  std::fprintf(to, "# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "",
               "", "", "", "");
  std::fprintf(to, "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s", "size", "count", "type", "redop", "root", "time",
               "algbw", "busbw", "#wrong");
  head("p50", "p99");
  std::fprintf(to, "  %7s  %6s  %6s  %6s", "time", "algbw", "busbw", "#wrong");
  head("p50", "p99");
  if (options_.timestamps) std::fprintf(to, "  %19s", "timestamp");
  std::fprintf(to, "\n# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s", "(B)", "(elements)", "", "", "", "(us)",
               "(GB/s)", "(GB/s)", "");
  head("(us)", "(us)");
  std::fprintf(to, "  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
  head("(us)", "(us)");
  if (options_.timestamps) std::fprintf(to, "  %19s", "(local time)");
  std::fprintf(to, "\n");
  std::fflush(to);
}

void Report::row(std::FILE* to, const Row& r) {
  std::fprintf(to, "%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6i", r.size, r.count, r.type.c_str(), r.op.c_str(),
               r.root);
  for (const Measured* m : {&r.out_of_place, &r.in_place}) {
    std::fprintf(to, "  %7s  %6s  %6s", fit(m->time_us, 7).c_str(), fit(m->alg_bw, 6).c_str(),
                 fit(m->bus_bw, 6).c_str());
    if (m->wrong < 0)
      std::fprintf(to, "  %6s", "N/A");
    else
      std::fprintf(to, "  %6g", static_cast<double>(m->wrong));
    if (options_.percentiles) std::fprintf(to, "  %7s  %7s", fit(m->p50_us, 7).c_str(), fit(m->p99_us, 7).c_str());
    if (m->wrong > 0) wrong_ += m->wrong;
    if (m->time_us == 0) continue;  // was not run
    bus_bw_sum_ += m->bus_bw;
    ++halves_;
  }
  if (options_.timestamps) std::fprintf(to, "  %19s", timestamp().c_str());
  std::fprintf(to, "\n");
  std::fflush(to);
  if (!options_.json.empty()) rows_.push_back(r);
}

void Report::end(std::FILE* to) const {
  std::fprintf(to, "# %-20s : %" PRId64 " %s\n", "Out of bounds values", wrong_, wrong_ == 0 ? "OK" : "FAILED");
  std::fprintf(to, "# %-20s : %g %s\n#\n", "Avg bus bandwidth", average_bus_bw(),
               !options_.least_bandwidth ? ""
               : fast_enough()           ? "OK"
                                         : "FAILED");
  std::fprintf(to, "# Collective test concluded: %s_perf\n#\n", options_.test->name);
  std::fflush(to);
}

ordered_json Report::json() const {
  ordered_json j;
  j["version"] = 3;
  j["start_time"] = start_;
  j["args"] = args_;
  j["env"] = environment();
  j["hocket_version"] = format("%d.%d.%d", HKT_MAJOR, HKT_MINOR, HKT_PATCH);
  ordered_json& c = j["config"];
  c["nthreads"] = options_.threads;
  c["ngpus"] = options_.gpus;
  c["minimum_bytes"] = options_.min_bytes;
  c["maximum_bytes"] = options_.max_bytes;
  c[options_.step_factor != 0 ? "step_factor" : "step_bytes"] =
      options_.step_factor != 0 ? options_.step_factor : options_.step_bytes;
  c["warmup_iters"] = options_.warmup;
  c["iterations"] = options_.iters;
  c["aggregated_iterations"] = 1;
  c["validation"] = options_.check;
  c["graph"] = 0;
  c["blocking_collectives"] = 0;
  if (options_.nonblocking) c["nonblocking"] = 1;
  if (options_.registered != 0) c["local_register"] = 1;
  c["per_iter_timing"] = options_.percentiles ? 1 : 0;
  c["per_iter_skip"] = 0;
  c["parallel_init"] = 0;
  c["devices"] = ordered_json::array();
  for (const Device& d : devices_) {
    ordered_json one;
    one["rank"] = d.rank;
    one["group"] = 0;
    one["pid"] = d.pid;
    one["hostname"] = d.host;
    one["device"] = 0;
    one["device_hex"] = "0000:00:00";
    one["device_info"] = "cpu";
    c["devices"].push_back(one);
  }
  j["results"] = ordered_json::array();
  for (const Row& r : rows_) {
    ordered_json one;
    one["size"] = r.size;
    one["count"] = r.count;
    one["type"] = r.type;
    one["redop"] = r.op;
    one["root"] = std::to_string(r.root);
    for (const auto& [name, m] : {std::pair{"out_of_place", &r.out_of_place}, std::pair{"in_place", &r.in_place}}) {
      ordered_json& half = one[name];
      half["time"] = m->time_us;
      half["alg_bw"] = m->alg_bw;
      half["bus_bw"] = m->bus_bw;
      half["nwrong"] = m->wrong < 0 ? ordered_json("N/A") : ordered_json(m->wrong);
      if (options_.percentiles) {
        half["p50_us"] = m->p50_us;
        half["p99_us"] = m->p99_us;
      }
    }
    one["actual_iterations"] = options_.iters;
    one["experiment_name"] = std::string(options_.test->name) + "_perf";
    j["results"].push_back(one);
  }
  j["out_of_bounds"] = {{"count", wrong_},
                        {"okay", wrong_ == 0 ? "true" : "false"}};  // strings, as nccl-tests writes them
  j["average_bus_bandwidth"] = {{"bandwidth", average_bus_bw()},
                                {"okay", !options_.least_bandwidth ? "unchecked"
                                         : fast_enough()           ? "true"
                                                                   : "false"}};
  j["errors"] = ordered_json::array();
  j["end_time"] = now_text();
  return j;
}

}  // namespace hocket::tool
