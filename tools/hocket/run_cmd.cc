// `hocket run`: starts a job on this machine, on hosts by ssh, or in a Slurm allocation.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/text.h"
#include "bootstrap/launchers.h"
#include "bootstrap/unique_id.h"
#include "commands.h"
#include "meeting_place.h"
#include "remote.h"
#include "supervise.h"

namespace hocket::tool {
namespace {

constexpr int kMostRanks = 4096;
constexpr int kSshFailed = 255;  // ssh's own failure, not that of what it ran

struct Host {
  std::string name;
  int ranks = 1;
};

struct RunFlags {
  int np = 0;
  std::string hosts;
  std::string remote;
  std::string nnodes;
  int max_restarts = 0;
  std::string output;
  bool no_prefix = false;
  std::vector<std::string> exported;
  std::vector<std::string> command;
  // of the part of a job on one host
  int first_rank = 0;
  int world_size = 0;
  std::string meet;
  bool leash = false;
};

struct Plan {
  std::vector<Host> hosts;          // none: this machine alone
  std::vector<std::string> remote;  // words before the host's name
  size_t min_hosts = 0, max_hosts = 0;
};

// "a:4,b": 4 ranks on a, one on b.
Result<std::vector<Host>> parse_hosts(const std::string& list) {
  std::vector<Host> out;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string word = list.substr(at, end - at);
    at = end + 1;
    const size_t colon = word.rfind(':');
    Host host{word.substr(0, colon), 1};
    if (colon != std::string::npos) {
      const auto ranks = hocket::parse_int(word.substr(colon + 1));
      if (!ranks || *ranks < 1 || *ranks > kMostRanks)
        return error(hktInvalidUsage, "--hosts: '%s' has no number of ranks from 1 to %d behind the colon",
                     word.c_str(), kMostRanks);
      host.ranks = static_cast<int>(*ranks);
    }
    // A name that begins with - would be an option of ssh.
    if (host.name.empty() || host.name.front() == '-' || host.name.find_first_of(" \t'\"\\") != std::string::npos)
      return error(hktInvalidUsage, "--hosts: '%s' is no HOST:RANKS; expected is a form like a:4,b:4", word.c_str());
    const auto same = [&](const Host& h) { return h.name == host.name; };
    if (std::any_of(out.begin(), out.end(), same))
      return error(hktInvalidUsage, "--hosts: '%s' occurs twice; add up its ranks", host.name.c_str());
    out.push_back(std::move(host));
  }
  return out;
}

// A Slurm allocation that this process is in without being a task.
Result<std::optional<Plan>> slurm_allocation(const Environment& environment) {
  const auto nodes = environment("SLURM_JOB_NODELIST");
  if (!nodes || environment("SLURM_STEP_ID")) return std::optional<Plan>();
  HKT_ASSIGN(const std::vector<std::string> names, expand_host_list(*nodes));
  std::vector<int> counts(names.size(), 1);
  if (const auto tasks = environment("SLURM_TASKS_PER_NODE")) {
    HKT_ASSIGN(counts, expand_task_counts(*tasks));
  }
  if (counts.size() != names.size())
    return error(hktInvalidUsage, "SLURM_JOB_NODELIST has %zu nodes, SLURM_TASKS_PER_NODE %zu", names.size(),
                 counts.size());
  Plan plan;
  for (size_t i = 0; i < names.size(); ++i)
    if (counts[i] > 0) plan.hosts.push_back({names[i], counts[i]});
  plan.remote = split("srun --quiet --overlap --kill-on-bad-exit=1 --nodes=1 --ntasks=1 --nodelist", ' ');
  return std::optional(std::move(plan));
}

Result<Plan> make_plan(const RunFlags& f) {
  Plan plan;
  if (f.np != 0 && !f.hosts.empty())
    return error(hktInvalidUsage, "--np and --hosts do not go together: write --hosts a:4,b:4");
  if (!f.hosts.empty()) {
    HKT_ASSIGN(plan.hosts, parse_hosts(f.hosts));
    plan.remote = split(f.remote.empty() ? "ssh -o BatchMode=yes" : f.remote, ' ');
  } else if (f.np == 0) {
    HKT_ASSIGN(std::optional<Plan> slurm, slurm_allocation(process_environment()));
    if (!slurm) return error(hktInvalidUsage, "say how many ranks to start: --np N here, or --hosts a:4,b:4");
    plan = *std::move(slurm);
  }
  plan.min_hosts = plan.max_hosts = plan.hosts.size();
  if (!f.nnodes.empty()) {
    const size_t colon = f.nnodes.find(':');
    const auto least = hocket::parse_int(f.nnodes.substr(0, colon));
    const auto most = colon == std::string::npos ? least : hocket::parse_int(f.nnodes.substr(colon + 1));
    if (plan.hosts.empty() || !least || !most || *least < 1 || *most < *least ||
        *least > static_cast<int64_t>(plan.hosts.size()))
      return error(hktInvalidUsage,
                   "--nnodes is '%s': MIN:MAX with 1 <= MIN <= MAX is expected, and at least MIN hosts (here: %zu)",
                   f.nnodes.c_str(), plan.hosts.size());
    plan.min_hosts = static_cast<size_t>(*least);
    plan.max_hosts = std::min(static_cast<size_t>(*most), plan.hosts.size());
  }
  return plan;
}

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string current_directory() {
  char path[PATH_MAX];
  return getcwd(path, sizeof path) != nullptr ? path : "/";
}

std::vector<Child> local_children(const RunFlags& f, const std::string& meet, int restart) {
  std::vector<Child> out;
  const int world = f.world_size != 0 ? f.world_size : f.np;
  for (int local = 0; local < f.np; ++local) {
    const std::string rank = std::to_string(f.first_rank + local);
    Child c;
    c.name = "rank " + rank;
    if (!f.no_prefix) c.prefix = "[" + rank + "] ";
    if (!f.output.empty()) {
      c.prefix.clear();
      c.file = f.output + "/rank." + rank;
    }
    c.command = f.command;
    c.environment = {"RANK=" + rank,
                     "WORLD_SIZE=" + std::to_string(world),
                     "LOCAL_RANK=" + std::to_string(local),
                     "LOCAL_WORLD_SIZE=" + std::to_string(f.np),
                     "HOCKET_RESTART_COUNT=" + std::to_string(restart),
                     "HOCKET_INIT=" + meet};
    out.push_back(std::move(c));
  }
  return out;
}

// What steers Hocket here steers it there, and what --export names.
std::vector<std::string> exported(const RunFlags& f) {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    // A command line is open to everybody on the host: a secret goes by HOCKET_SECRET_FILE.
    if (text.rfind("HOCKET_SECRET=", 0) == 0) continue;
    for (const char* start : {"HOCKET_", "HCCL_", "NCCL_"})
      if (text.rfind(start, 0) == 0) out.push_back(text);
  }
  for (const std::string& name : f.exported) {
    if (name.find('=') != std::string::npos)
      out.push_back(name);
    else if (const char* value = std::getenv(name.c_str()); value != nullptr)
      out.push_back(name + "=" + value);
  }
  return out;
}

// One child per host: this very command there, on a leash.
std::vector<Child> remote_children(const RunFlags& f, const Plan& plan, const std::vector<Host>& hosts, int restart) {
  int world = 0;
  for (const Host& h : hosts) world += h.ranks;
  // Below the ports of outgoing connections; another one at every start, as the last job's may not be free yet.
  const std::string meet = "tcp://" + hosts.front().name + ":" + std::to_string(20000 + random_nonce() % 12000);
  std::vector<Child> out;
  int first = 0;
  for (const Host& h : hosts) {
    std::vector<std::string> there{own_path(),     "run",
                                   "--np",         std::to_string(h.ranks),
                                   "--first-rank", std::to_string(first),
                                   "--world-size", std::to_string(world),
                                   "--meet",       meet,
                                   "--leash"};
    if (f.no_prefix) there.emplace_back("--no-prefix");
    if (!f.output.empty()) {
      there.emplace_back("--output");
      there.push_back(f.output);
    }
    there.emplace_back("--");
    there.insert(there.end(), f.command.begin(), f.command.end());
    std::string line = "cd " + quoted(current_directory()) + " && exec env";
    for (const std::string& setting : exported(f)) line += " " + quoted(setting);
    line += " " + quoted("HOCKET_RESTART_COUNT=" + std::to_string(restart));
    for (const std::string& word : there) line += " " + quoted(word);
    Child c;
    c.name = "host " + h.name;
    c.command = plan.remote;
    c.command.push_back(h.name);
    // srun runs a program, ssh a command line.
    const bool slurm = plan.remote.front() == "srun";
    if (slurm) c.command.insert(c.command.end(), {"sh", "-c"});
    c.command.push_back(line);
    c.leashed = true;
    out.push_back(std::move(c));
    first += h.ranks;
  }
  return out;
}

Result<JobEnd> run_here(const RunFlags& f, int restart) {
  if (!f.meet.empty()) {
    const char* count = std::getenv("HOCKET_RESTART_COUNT");
    const auto given = count == nullptr ? std::nullopt : hocket::parse_int(count);
    return supervise(local_children(f, f.meet, static_cast<int>(given.value_or(0))),
                     f.leash ? Leash::standard_input : Leash::none);
  }
  HKT_ASSIGN(const std::string directory, MeetingPlace::make());
  const MeetingPlace place(directory);
  return supervise(local_children(f, place.url(), restart), Leash::none);
}

Result<int> run_job(const RunFlags& f) {
  HKT_ASSIGN(Plan plan, make_plan(f));
  if (!f.output.empty() && mkdir(f.output.c_str(), 0755) != 0 && errno != EEXIST)
    return sys_error("--output: cannot make the folder %s", f.output.c_str());
  std::vector<Host> hosts = plan.hosts;
  hosts.resize(std::min(hosts.size(), std::max<size_t>(plan.max_hosts, 1)));
  size_t spare = hosts.size();  // the next host of the plan that is not in use
  for (int restart = 0, failures = 0;; ++restart) {
    std::vector<Child> children;
    Result<JobEnd> end = hosts.empty() ? run_here(f, restart)
                                       : supervise(children = remote_children(f, plan, hosts, restart), Leash::none);
    if (!end) return std::move(end.error());
    if (end->status == 0 || end->signal != 0) return end->status;
    const bool lost = !hosts.empty() && end->failed >= 0 && end->status == kSshFailed;
    if (lost && plan.min_hosts < plan.max_hosts) {
      // Elastic: a host that cannot be reached is replaced, or left out while there are enough.
      const std::string name = hosts[static_cast<size_t>(end->failed)].name;
      hosts.erase(hosts.begin() + end->failed);
      if (spare < plan.hosts.size()) hosts.push_back(plan.hosts[spare++]);
      if (hosts.size() < plan.min_hosts) return end->status;
      (void)complain(0, format("host %s is lost; going on with %zu", name.c_str(), hosts.size()));
      continue;
    }
    if (++failures > f.max_restarts) return end->status;
    (void)complain(0, format("restart %d of %d", failures, f.max_restarts));
  }
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  CLI::App* run = app.add_subcommand(
      "run", "start a job here, on hosts by ssh, or in a Slurm allocation: hocket run --np 4 ./a.out");
  const auto f = std::make_shared<RunFlags>();
  run->add_option("--np,-n", f->np, "ranks to start on this machine")->check(CLI::Range(1, kMostRanks));
  run->add_option("--hosts", f->hosts, "hosts and how many ranks on each: a:4,b:4; programs and folders as here");
  run->add_option("--remote", f->remote, "command that runs a command line on a host (default: ssh -o BatchMode=yes)");
  run->add_option("--nnodes", f->nnodes, "MIN:MAX: use up to MAX of the hosts; go on while MIN can be reached");
  run->add_option("--max-restarts", f->max_restarts, "start the job again so often when a rank fails")
      ->check(CLI::Range(0, 1000000));
  run->add_option("--output", f->output, "folder for what each rank prints, in rank.R; default: here, with a prefix");
  run->add_flag("--no-prefix", f->no_prefix, "print lines as they are");
  run->add_option("--export,-x", f->exported,
                  "NAME or NAME=VALUE for other hosts; HOCKET_*, HCCL_* and NCCL_* go by themselves");
  for (const auto& [name, place] : {std::pair{"--first-rank", &f->first_rank}, {"--world-size", &f->world_size}})
    run->add_option(name, *place)->group("")->check(CLI::Range(0, kMaxRanks));
  run->add_option("--meet", f->meet)->group("");
  run->add_flag("--leash", f->leash)->group("");
  run->add_option("command", f->command, "the program and its arguments")->required();
  run->positionals_at_end();
  run->callback([f, &status] {
    const Result<int> end = run_job(*f);
    status = end.ok() ? end.value() : complain(end.error().code == hktInvalidUsage ? 2 : 1, end.error().text);
  });
}

}  // namespace hocket::tool
