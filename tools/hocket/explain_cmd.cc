#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "comm/bringup.h"
#include "commands.h"
#include "engine/wait.h"
#include "explain_network.h"
#include "perf_collective.h"
#include "perf_options.h"
#include "schedule/text.h"
#include "select/explain.h"
#include "select/tune_file.h"

namespace hocket::tool {
namespace {

struct ExplainFlags {
  std::string collective, bytes = "1M", transport = "shm";
  std::vector<std::string> peers;
  uint32_t np = 2, cpus = 0;
  bool json = false;
};

Result<Collective> collective_of(const std::string& name) {
  std::vector<std::string> known;
  for (uint32_t c = 0; c < kCollectives; ++c) {
    known.emplace_back(collective_name(static_cast<Collective>(c)));
    if (name == known.back()) return static_cast<Collective>(c);
  }
  std::string all;
  for (const std::string& k : known) all += (all.empty() ? "" : ", ") + k;
  return error(hktInvalidArgument, "unknown collective '%s'%s; known: %s", name.c_str(),
               did_you_mean(name, known).c_str(), all.c_str());
}

// What a communicator of ranks of this machine would choose by.
Result<select::Grounds> grounds_here(const ExplainFlags& f) {
  static constexpr std::string_view kClasses[] = {"R1", "R2", "R3", "R4"};
  HKT_ASSIGN(const std::string determinism, env::get_choice("HOCKET_DETERMINISM", "R1", kClasses));
  const bool tcp = f.transport == "tcp";
  static constexpr std::string_view kCma[] = {"auto", "0", "1"};
  HKT_ASSIGN(const std::string cma, env::get_choice("HOCKET_CMA", "auto", kCma));
  const RingGeometry g = geometry_for(static_cast<int>(f.np), tcp ? Memory::apart : Memory::shared);
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  select::Grounds all;
  all.facts.nranks = f.np;
  all.facts.hosts = tcp ? f.np : 1;
  all.facts.cpus = f.cpus != 0 ? f.cpus : usable_cpus({cpu_share()});
  all.facts.oversubscribed = f.np > all.facts.cpus;
  all.facts.readable = !tcp && cma != "0";
  all.facts.slot_bytes = g.slot_bytes;
  all.facts.depth = g.depth;
  all.facts.cache_bytes = cache > 0 ? static_cast<uint64_t>(cache) : 0;
  all.costs = select::costs_of_this_machine({});
  all.algo = env::get("HOCKET_ALGO").value_or("");
  all.determinism = static_cast<hktDeterminism_t>(determinism[1] - '0');
  return all;
}

double us(uint64_t ps) { return static_cast<double>(ps) / 1e6; }

void print_text(const select::Grounds& g, Collective collective, uint64_t bytes, const select::Explanation& e) {
  std::printf("%s of %llu bytes, %u ranks, %u CPU%s%s\n", collective_name(collective),
              static_cast<unsigned long long>(bytes), g.facts.nranks, g.facts.cpus, g.facts.cpus == 1 ? "" : "s",
              g.facts.hosts == 1 ? "" : ", over TCP on this machine");
  if (e.ranking.empty()) {
    std::printf("  %s\n", select::sentence(e).c_str());
    return;
  }
  std::printf("  %-20s %12s %14s\n", "planner", "predicted us", "/ lower bound");
  for (const select::Ranked& r : e.ranking)
    std::printf("%c %-20s %12.2f %14.2f%s\n", e.is_chosen(r) ? '>' : ' ', select::name_of(r).c_str(), us(r.ps),
                static_cast<double>(r.ps) / static_cast<double>(std::max<uint64_t>(e.bound_ps, 1)),
                e.is_chosen(r) && e.forced ? "  by HOCKET_ALGO" : "");
  std::printf("  %-20s %12.2f  %s\n", "lower bound", us(e.bound_ps),
              g.facts.hosts == 1 ? "a message's way; every input read once, every output written once"
                                 : "a message's way; the least that the ranks have to send");
}

void print_json(const select::Grounds& g, Collective collective, uint64_t bytes, const select::Explanation& e) {
  nlohmann::ordered_json all{{"collective", collective_name(collective)},
                             {"bytes", bytes},
                             {"ranks", g.facts.nranks},
                             {"cpus", g.facts.cpus},
                             {"groups", g.facts.hosts},
                             {"planner", e.chosen->name},
                             {"way", e.way == select::Way::reading ? "reading" : "copying"},
                             {"forced", e.forced},
                             {"forecast", !e.ranking.empty()},
                             {"lower_bound_us", us(e.bound_ps)},
                             {"ranking", nlohmann::ordered_json::array()}};
  for (const select::Ranked& r : e.ranking)
    all["ranking"].push_back({{"planner", r.planner->name},
                              {"way", r.way == select::Way::reading ? "reading" : "copying"},
                              {"predicted_us", us(r.ps)}});
  std::printf("%s\n", all.dump(1).c_str());
}

Status run_explain(const ExplainFlags& f) {
  if (f.collective == "network") return explain_network(f.peers, f.json);
  if (!f.peers.empty())
    return error(hktInvalidArgument, "'%s' has no place here: only `hocket explain network` takes peers",
                 f.peers.front().c_str());
  HKT_ASSIGN(const Collective collective, collective_of(f.collective));
  HKT_ASSIGN(const uint64_t bytes, parse_size(f.bytes, "--bytes"));
  HKT_ASSIGN(const select::Grounds grounds, grounds_here(f));
  HKT_ASSIGN(const select::Explanation e, select::explain(grounds, collective, bytes));
  (f.json ? print_json : print_text)(grounds, collective, bytes, e);
  return {};
}

}  // namespace

void add_explain(CLI::App& app, int& status) {
  CLI::App* explain = app.add_subcommand(
      "explain", "which plan a call takes, how long that should take, and why; or which way the network takes");
  const auto f = std::make_shared<ExplainFlags>();
  explain->add_option("collective", f->collective, "all_reduce, broadcast, ..., or network")->required();
  explain->add_option("peers", f->peers, "with network: HOST:PORT to be tried");
  explain->add_option("--np", f->np, "number of ranks, all on this machine")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  explain->add_option("--bytes", f->bytes, "size of the (larger) buffer")->capture_default_str();
  explain->add_option("--cpus", f->cpus, "CPUs for the ranks; 0: those of this machine")
      ->check(CLI::Range(0, 1 << 12))
      ->capture_default_str();
  explain->add_option("--transport", f->transport, "shm or tcp")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->capture_default_str();
  explain->add_flag("--json", f->json, "as JSON");
  explain->callback([f, &status] {
    const Status s = run_explain(*f);
    status = s.ok() ? 0 : complain(s.error().code == hktRemoteError ? 1 : 2, s.error().text);
  });
}

}  // namespace hocket::tool
