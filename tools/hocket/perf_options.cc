#include "perf_options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/types.h"
#include "bootstrap/launchers.h"
#include "commands.h"
#include "schedule/collective.h"

namespace hocket::tool {
namespace {

// A flag of nccl-tests that means nothing here: its default is accepted.
struct FixedFlag {
  const char *names, *fallback, *why;
};
constexpr FixedFlag kFixed[] = {
    {"-m,--agg_iters", "1", "calls are not aggregated"},
    {"-p,--parallel_init", "0", "ranks come up in parallel anyway"},
    {"-z,--blocking", "0", "calls are blocking anyway, unless --nonblocking is given"},
    {"-y,--stream_null", "0", "there are no streams on a CPU"},
    {"-G,--cudagraph", "0", "there are no CUDA graphs on a CPU"},
    {"-C,--report_cputime", "0", "all time is CPU time here"},
    {"-x,--cta_policy", "0", "there are no CTAs on a CPU"},
    {"-D,--device_implementation", "0", "there is no device on a CPU"},
    {"-V,--device_cta_count", "16", "there are no CTAs on a CPU"},
    {"-M,--memory_report", "0", "not available"},
    {"-u,--unalign", "0", "not available"},
    {"-K,--per_iter_skip", "0", "not available"},
};

constexpr int kMaxRanks = 4096;  // started on one machine: more are a slip of the keyboard

template <class T, class List, class Name>
Result<std::vector<T>> pick(const std::string& text, const char* what, const List& list, Name&& name) {
  std::vector<T> picked;
  std::vector<std::string> known;
  for (const T v : list) {
    known.emplace_back(name(v));
    if (text == "all" || text == known.back()) picked.push_back(v);
  }
  if (!picked.empty()) return picked;
  std::string all;
  for (const std::string& k : known) all += (all.empty() ? "" : ", ") + k;
  return error(hktInvalidArgument, "unknown %s '%s'%s; known: %s, all", what, text.c_str(),
               did_you_mean(text, known).c_str(), all.c_str());
}

Result<int> parse_int(const std::string& text, const char* flag, int low) {
  int value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size() || value < low)
    return error(hktInvalidArgument, "%s is '%s', must be a whole number of at least %d", flag, text.c_str(), low);
  return value;
}

Result<const PerfCollective*> pick_collective(const std::string& text) {
  if (const PerfCollective* found = find_perf_collective(text); found != nullptr) return found;
  std::vector<std::string> known;
  std::string all;
  for (const PerfCollective& c : perf_collectives()) {
    known.emplace_back(c.name);
    all += (all.empty() ? "" : ", ") + known.back();
  }
  return error(hktInvalidArgument, "unknown collective '%s'%s; known: %s", text.c_str(),
               did_you_mean(text, known).c_str(), all.c_str());
}

// What says that a launcher has made this process a rank; "" if nothing does.
Result<std::string> launcher_variable() {
  const Environment environment = process_environment();
  for (const char* name : {"HOCKET_INIT", "RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH", "RANK"})
    if (environment(name)) return std::string(name);
  HKT_ASSIGN(const std::optional<Claim> claim, find_launcher(environment));
  if (!claim) return std::string();
  constexpr std::string_view kPrefix = "environment variable ";
  return claim->rank.value < 0 ? claim->launcher : claim->rank.origin.substr(kPrefix.size());
}

// How many ranks to start here; 0: this process is one already.
Result<int> ranks_to_start(const PerfFlags& f, const PerfOptions& o) {
  const int64_t asked = int64_t{o.threads} * o.gpus;
  if (asked > kMaxRanks)
    return error(hktInvalidArgument, "-t %d times -g %d are more than %d ranks", o.threads, o.gpus, kMaxRanks);
  if (!f.np.empty()) {
    HKT_ASSIGN(const int np, parse_int(f.np, "--np", 1));
    if (np > kMaxRanks) return error(hktInvalidArgument, "--np %d is more than %d ranks", np, kMaxRanks);
    if (asked != 1 && asked != np)
      return error(hktInvalidArgument, "--np %d and -t %d times -g %d disagree; give one of them", np, o.threads,
                   o.gpus);
    return np;
  }
  HKT_ASSIGN(const std::string launcher, launcher_variable());
  if (launcher.empty() && (f.form == PerfForm::program || asked != 1)) return static_cast<int>(asked);
  if (asked != 1)
    return error(hktInvalidArgument,
                 "-t %d and -g %d: %s is set, so this process is one rank of a launcher's; leave both at 1, or start "
                 "ranks here with --np %lld",
                 o.threads, o.gpus, launcher.c_str(), static_cast<long long>(asked));
  return 0;
}

// What nccl-tests takes from the environment.
Status read_environment(PerfOptions& o) {
  for (const char* name : {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK"})
    if (std::getenv(name) != nullptr)
      return error(hktInvalidUsage, "environment variable %s is set: all ranks are one group here; unset it", name);
  const char* least = std::getenv("NCCL_TESTS_MIN_BW");
  if (least == nullptr) return {};
  char* end = nullptr;
  o.least_bandwidth = std::strtod(least, &end);
  if (end == least || *end != '\0' || !(*o.least_bandwidth >= 0))
    return error(hktInvalidUsage, "environment variable NCCL_TESTS_MIN_BW is '%s': set it to a number of GB/s", least);
  return {};
}

}  // namespace

Result<uint64_t> parse_size(const std::string& text, const std::string& flag) {
  uint64_t value = 0;
  const char* last = text.data() + text.size();
  const auto [end, ec] = std::from_chars(text.data(), last, value);
  if (ec == std::errc() && end != text.data()) {
    uint64_t unit = 1;
    const std::string suffix(end, last);
    if (suffix == "K" || suffix == "k") unit = uint64_t{1} << 10;
    if (suffix == "M" || suffix == "m") unit = uint64_t{1} << 20;
    if (suffix == "G" || suffix == "g") unit = uint64_t{1} << 30;
    if (suffix.empty() || unit > 1) {
      if (value <= static_cast<uint64_t>(INT64_MAX) / unit) return value * unit;
      return error(hktInvalidArgument, "%s %s overflows 63 bits of bytes", flag.c_str(), text.c_str());
    }
  }
  if (ec == std::errc::result_out_of_range)
    return error(hktInvalidArgument, "%s %s overflows 63 bits of bytes", flag.c_str(), text.c_str());
  return error(hktInvalidArgument,
               "%s is '%s', must be a number of bytes with K, M or G (base 1024) behind it if you like", flag.c_str(),
               text.c_str());
}

std::vector<uint64_t> PerfOptions::sizes() const {
  if (collective() == Collective::barrier) return {0};
  std::vector<uint64_t> list;
  for (uint64_t s = min_bytes; s <= max_bytes;) {
    list.push_back(s);
    const uint64_t next =
        step_factor != 0 ? (s > UINT64_MAX / step_factor ? UINT64_MAX : s * step_factor) : s + step_bytes;
    if (next <= s) break;  // 0 times anything
    s = next;
  }
  return list;
}

void add_perf_flags(CLI::App& app, PerfFlags& f) {
  if (f.form == PerfForm::subcommand) {
    std::string all;
    for (const PerfCollective& c : perf_collectives()) all += (all.empty() ? "" : ", ") + std::string(c.name);
    app.add_option("collective", f.collective, all)->capture_default_str();
  }
  const char* otherwise = f.form == PerfForm::program
                              ? "ranks to start on this machine, whatever launcher there is; without it -t times -g"
                              : "ranks to start on this machine; without it the rank comes from the environment";
  app.add_option("--np", f.np, otherwise);
  app.add_option("-t,--nthreads", f.threads, "-t times -g is the number of ranks to start, as with --np")
      ->capture_default_str();
  app.add_option("-g,--ngpus", f.gpus, "see -t: each rank is a process here, without a GPU")->capture_default_str();
  app.add_option("--bind", f.bind,
                 "core: each rank started here has a CPU of its own, if there are enough; none: they run anywhere")
      ->check(CLI::IsMember({"core", "none"}))
      ->capture_default_str();
  app.add_option("-b,--minbytes", f.min, "smallest size")->capture_default_str();
  app.add_option("-e,--maxbytes", f.max, "largest size")->capture_default_str();
  CLI::Option* step = app.add_option("-i,--stepbytes", f.step, "added from size to size")->capture_default_str();
  app.add_option("-f,--stepfactor", f.factor, "multiplied from size to size")->excludes(step);
  app.add_option("-n,--iters", f.options.iters, "timed calls per size")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("-w,--warmup_iters", f.options.warmup, "calls per size before that")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-N,--run_cycles", f.options.cycles, "runs over all sizes; 0: until stopped")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-c,--check", f.options.check, "check every element of so many calls per size; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-d,--datatype", f.type, "element type, or all; `hocket types` lists them")->capture_default_str();
  app.add_option(
         "-o,--op", f.op,
         "operation of all_reduce, reduce and reduce_scatter: sum, prod, max, min, avg, band, bor, bxor, land, lor, "
         "lxor, or all")
      ->capture_default_str();
  app.add_option("-r,--root", f.root, "root of broadcast, gather, reduce and scatter; or all")->capture_default_str();
  app.add_option("-a,--average", f.average,
                 "report the time of 0: rank 0, 1: the mean, 2: the fastest, 3: the slowest rank")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  app.add_option("-J,--output_file,--json", f.options.json,
                 "write the results to FILE as JSON; an existing file is kept");
  app.add_flag("-I,--per_iter_timing,--percentiles", f.options.percentiles,
               "time each call: p50 and p99 of the slowest rank");
  app.add_option("-S,--report_timestamps", f.options.timestamps, "1: show when each row was done")
      ->check(CLI::Range(0, 1))
      ->capture_default_str();
  app.add_option("-T,--timeout", f.timeout, "seconds that a call may take; 0: as HOCKET_TIMEOUT says")
      ->capture_default_str();
  app.add_option("-R,--local_register", f.options.registered,
                 "1: buffers of registered memory; 2 has no meaning on a CPU")
      ->check(CLI::Range(0, 1))
      ->capture_default_str();
  app.add_flag("--registered{1}", f.options.registered, "the same as -R 1");
  app.add_flag("--explain", f.options.explain, "say of each size by which plan it is done, and why");
  app.add_flag("--nonblocking", f.options.nonblocking, "make each call with a request and wait for that");
  app.add_option("--transport", f.options.transport, "auto, shm or tcp")->check(CLI::IsMember({"auto", "shm", "tcp"}));
  f.fixed.resize(std::size(kFixed));
  for (size_t i = 0; i < std::size(kFixed); ++i) {
    f.fixed[i] = {kFixed[i].names, kFixed[i].fallback};
    app.add_option(kFixed[i].names, f.fixed[i].second, std::string("no meaning here: ") + kFixed[i].why)
        ->group("nccl-tests");
  }
}

Result<PerfOptions> perf_options(const PerfFlags& f) {
  PerfOptions o = f.options;
  for (size_t i = 0; i < std::size(kFixed); ++i) {
    if (f.fixed[i].second != kFixed[i].fallback)
      return error(hktInvalidArgument, "%s %s has no meaning on a CPU (only %s is accepted): %s", kFixed[i].names,
                   f.fixed[i].second.c_str(), kFixed[i].fallback, kFixed[i].why);
  }
  HKT_ASSIGN(o.test, pick_collective(f.collective));
  HKT_ASSIGN(o.threads, parse_int(f.threads, "-t", 1));
  HKT_ASSIGN(o.gpus, parse_int(f.gpus, "-g", 1));
  HKT_ASSIGN(o.np, ranks_to_start(f, o));
  HKT_ASSIGN(o.timeout_s, parse_int(f.timeout, "-T", 0));
  HKT_TRY(read_environment(o));
  o.bind = f.bind == "core" ? Bind::core : Bind::none;
  HKT_ASSIGN(o.min_bytes, parse_size(f.min, "-b"));
  HKT_ASSIGN(o.max_bytes, parse_size(f.max, "-e"));
  HKT_ASSIGN(o.step_bytes, parse_size(f.step, "-i"));
  if (o.min_bytes > o.max_bytes)
    return error(hktInvalidArgument, "-b %s is larger than -e %s; swap them", f.min.c_str(), f.max.c_str());
  if (!f.factor.empty()) {
    HKT_ASSIGN(const int factor, parse_int(f.factor, "-f", 2));
    o.step_factor = static_cast<uint64_t>(factor);
    if (o.min_bytes == 0)
      return error(hktInvalidArgument, "-b 0 cannot be multiplied; start at 1 byte or more, or use -i");
  } else if (o.step_bytes == 0 && o.min_bytes != o.max_bytes) {
    return error(hktInvalidArgument, "-i 0 never reaches -e %s; give a step", f.max.c_str());
  }
  HKT_ASSIGN(o.types, pick<hktDataType_t>(f.type, "type", kAllTypes, type_name));
  HKT_ASSIGN(o.ops, pick<hktRedOp_t>(f.op, "operation", kAllOps, op_name));
  if (reduces(o.collective()) && o.types.size() == 1 && o.ops.size() == 1) {
    if (const char* why = unsupported(o.types.front(), o.ops.front()); why != nullptr)
      return error(hktInvalidArgument, "-d %s -o %s: %s", f.type.c_str(), f.op.c_str(), why);
  }
  if (f.root != "all" && f.root != "-1") {  // nccl-tests of old take -1 for all
    HKT_ASSIGN(const int root, parse_int(f.root, "-r", 0));
    if (o.np > 0 && root >= o.np)
      return error(hktInvalidArgument, "-r %d must be less than the number of ranks, %d", root, o.np);
    o.roots = {root};
  }
  o.average = static_cast<Average>(f.average);
  return o;
}

}  // namespace hocket::tool
