// `hocket run`: starts a job on this machine, on hosts by ssh, or in a Slurm allocation.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/network_env.h"
#include "base/random.h"
#include "base/text.h"
#include "commands.h"
#include "meeting_place.h"
#include "remote.h"
#include "run_plan.h"
#include "supervise.h"

namespace hocket::tool {
namespace {

constexpr int kMostRanks = 4096;

// One rank of this machine.
Child rank_child(const RunFlags& f, int rank, int nranks, int local, int local_size) {
  const std::string name = std::to_string(rank);
  Child c;
  c.name = "rank " + name;
  if (!f.no_prefix) c.prefix = "[" + name + "] ";
  if (!f.output.empty()) {
    c.prefix.clear();
    c.file = f.output + "/rank." + name;
  }
  c.command = f.command;
  c.environment = {"RANK=" + name, "WORLD_SIZE=" + std::to_string(nranks), "LOCAL_RANK=" + std::to_string(local),
                   "LOCAL_WORLD_SIZE=" + std::to_string(local_size)};
  return c;
}

std::vector<Child> local_children(const RunFlags& f, const std::string& meet) {
  std::vector<Child> out;
  for (int local = 0; local < f.np; ++local) {
    out.push_back(rank_child(f, f.first_rank + local, f.world_size != 0 ? f.world_size : f.np, local, f.np));
    out.back().environment.push_back("HOCKET_INIT=" + meet);
  }
  return out;
}

// The ranks of a table that are this process's to start. They meet as the table says.
std::vector<Child> table_children(const RunFlags& f, const Plan::Table& plan) {
  std::vector<Child> out;
  for (const int rank : plan.here) {
    const auto me = plan.table.find(rank);
    if (!me) continue;
    const auto of_server = std::count_if(me->server->devices.begin(), me->server->devices.end(),
                                         [&](const rank_table::Device& d) { return d.rank < plan.nranks; });
    Child c = rank_child(f, rank, plan.nranks, me->device->local, static_cast<int>(of_server));
    // What would count instead of the table, or contradict it, is empty.
    for (const std::string& setting :
         {"RANK_TABLE_FILE=" + f.rank_table, "RANK_ID=" + std::to_string(rank),
          "RANK_SIZE=" + std::to_string(plan.nranks), "DEVICE_ID=" + std::to_string(me->device->id),
          "HOCKET_SPARES=" + std::to_string(plan.table.size() - plan.nranks), std::string("HOCKET_INIT="),
          std::string("MINDSPORE_HCCL_CONFIG_PATH="), std::string("CM_CHIEF_IP=")})
      c.environment.push_back(setting);
    out.push_back(std::move(c));
  }
  return out;
}

// What the parts on other hosts are to have in their environment.
std::vector<std::string> settings(const RunFlags& f, const Plan& plan, int restart) {
  std::vector<std::string> out = own_settings();
  out.push_back("HOCKET_RESTART_COUNT=" + std::to_string(restart));
  for (const char* name : kOfOneHost) {
    if (std::getenv(name) == nullptr) continue;
    (void)complain(0, format("%s is this host's alone: the ranks on others do not get it, unless by -x", name));
    // srun hands on everything.
    if (plan.slurm) out.emplace_back(name);
  }
  for (const std::string& name : f.exported) {
    if (name.find('=') != std::string::npos)
      out.push_back(name);
    else if (const char* value = std::getenv(name.c_str()); value != nullptr)
      out.push_back(name + "=" + value);
  }
  return out;
}

// Where the ranks of several hosts meet: another port at every start, as the last job's may not be free yet.
Result<std::string> meeting_url(const std::string& host) {
  HKT_ASSIGN(PortRanges ports, port_ranges());
  // Below the ports of outgoing connections.
  if (ports.ranges.empty()) ports.ranges = {{20000, 31999}};
  HKT_ASSIGN(const uint64_t bits, random_bits());
  const std::string address = host.substr(host.find('@') + 1);
  const bool v6 = address.find(':') != std::string::npos;
  return "tcp://" + (v6 ? "[" + address + "]" : address) + ":" + std::to_string(ports.port(bits % ports.size()));
}

// One child per host: this very command there, on a leash.
Result<std::vector<Child>> remote_children(const RunFlags& f, const Plan& plan, const std::vector<Plan::Host>& hosts,
                                           int restart) {
  int world = 0;
  for (const Plan::Host& h : hosts) world += h.ranks;
  HKT_ASSIGN(const std::string meet, meeting_url(hosts.front().name));
  HKT_ASSIGN(const uint64_t bits, random_bits());
  const Leash leash{format("hocket-run-%016llx", static_cast<unsigned long long>(bits)), settings(f, plan, restart)};
  std::vector<Child> out;
  int first = 0;
  for (const Plan::Host& h : hosts) {
    std::vector<std::string> there{own_path(), "run", "--leash"};
    const auto add = [&](const char* name, const std::string& value) {
      there.emplace_back(name);
      there.push_back(value);
    };
    if (plan.table) {
      add("--rank-table", f.rank_table);
      add("--server", std::to_string(h.server));
      add("--spares", std::to_string(plan.table->table.size() - plan.table->nranks));
    } else {
      add("--np", std::to_string(h.ranks));
      add("--first-rank", std::to_string(first));
      add("--world-size", std::to_string(world));
      add("--meet", meet);
    }
    if (f.no_prefix) there.emplace_back("--no-prefix");
    if (!f.output.empty()) add("--output", f.output);
    there.emplace_back("--");
    there.insert(there.end(), f.command.begin(), f.command.end());
    Child c;
    c.name = "host " + h.name;
    c.leash = leash;
    if (h.here) {
      c.command = there;
    } else {
      std::string line = "cd " + quoted(current_directory()) + " && exec";
      for (const std::string& word : there) line += " " + quoted(word);
      c.command = plan.remote;
      c.command.push_back(h.name);
      // srun runs a program, ssh a command line.
      if (plan.slurm) c.command.insert(c.command.end(), {"sh", "-c"});
      c.command.push_back(line);
    }
    out.push_back(std::move(c));
    first += h.ranks;
  }
  return out;
}

Result<JobEnd> run_here(const RunFlags& f, const Plan& plan, const Leash& leash) {
  if (plan.table) return supervise(table_children(f, *plan.table), leash);
  if (!f.meet.empty()) return supervise(local_children(f, f.meet), leash);
  HKT_ASSIGN(const std::string directory, MeetingPlace::make());
  const MeetingPlace place(directory);
  return supervise(local_children(f, place.url()));
}

// Takes the hosts that are lost out of those in use, and fills up with others; whether enough are left.
bool replace(const std::vector<int>& lost, const Plan& plan, std::vector<Plan::Host>& hosts, size_t& spare) {
  std::string names;
  for (auto i = lost.rbegin(); i != lost.rend(); ++i) {
    names.insert(0, hosts[static_cast<size_t>(*i)].name + (names.empty() ? "" : ", "));
    hosts.erase(hosts.begin() + *i);
  }
  while (hosts.size() < plan.max_hosts && spare < plan.hosts.size()) hosts.push_back(plan.hosts[spare++]);
  const bool enough = hosts.size() >= plan.min_hosts;
  (void)complain(0, format("host %s is lost; %s %zu", names.c_str(),
                           enough ? "going on with" : "too few are left:", hosts.size()));
  return enough;
}

Result<int> run_job(const RunFlags& f, const Leash& leash) {
  HKT_ASSIGN(Plan plan, make_plan(f, process_environment()));
  if (!f.output.empty() && mkdir(f.output.c_str(), 0755) != 0 && errno != EEXIST)
    return sys_error("--output: cannot make the folder %s", f.output.c_str());
  std::vector<Plan::Host> hosts = plan.hosts;
  if (!hosts.empty()) hosts.resize(plan.max_hosts);
  size_t spare = hosts.size();  // the next host of the plan that is not in use
  for (int restart = 0, failures = 0;; ++restart) {
    // A part has it from its launcher.
    if (!leash) setenv("HOCKET_RESTART_COUNT", std::to_string(restart).c_str(), 1);
    std::vector<Child> children;
    if (!hosts.empty()) {
      HKT_ASSIGN(children, remote_children(f, plan, hosts, restart));
    }
    HKT_ASSIGN(const JobEnd end, hosts.empty() ? run_here(f, plan, leash) : supervise(children));
    if (end.status == 0 || end.signal != 0) return end.status;
    if (!end.lost.empty() && plan.elastic) {
      if (!replace(end.lost, plan, hosts, spare)) return end.status;
      continue;
    }
    if (!end.lost.empty() && plan.table)
      (void)complain(1, format("where no host can be reached like this, start `hocket run --rank-table %s --this-host` "
                               "on each",
                               f.rank_table.c_str()));
    if (++failures > f.max_restarts) return end.status;
    (void)complain(0, format("restart %d of %d", failures, f.max_restarts));
  }
}

int run_status(const RunFlags& f, const Leash& leash) {
  const Result<int> end = run_job(f, leash);
  return end.ok() ? end.value() : complain(end.error().code == hktInvalidUsage ? 2 : 1, end.error().text);
}

// The part of a job on another host.
int run_part(const RunFlags& f) {
  const Result<Leash> leash = take_leash();
  if (!leash) return complain(1, leash.error().text);
  const int status = run_status(f, leash.value());
  tell_end(leash.value(), status);
  return status;
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  CLI::App* run = app.add_subcommand(
      "run", "start a job here, on hosts by ssh, or in a Slurm allocation: hocket run --np 4 ./a.out");
  const auto f = std::make_shared<RunFlags>();
  run->add_option("--np,-n", f->np, "ranks to start on this machine")->check(CLI::Range(1, kMostRanks));
  run->add_option("--hosts", f->hosts, "hosts and how many ranks on each: a:4,b:4; programs and folders as here");
  run->add_option("--rank-table", f->rank_table,
                  "rank table: starts the ranks of this host here, and those of the others there");
  run->add_flag("--this-host", f->this_host, "of a rank table only the ranks of this host: run it on each");
  run->add_option("--spares", f->spares, "how many entries of the rank table are spare cards (as HOCKET_SPARES)")
      ->check(CLI::Range(0, kMaxRanks));
  run->add_option("--remote", f->remote,
                  "command that runs a command line on a host (default: ssh, without questions)");
  run->add_option("--nnodes", f->nnodes, "MIN:MAX: use up to MAX of the hosts; go on while MIN can be reached");
  run->add_option("--max-restarts", f->max_restarts, "start the job again so often when a rank fails")
      ->check(CLI::Range(0, 1000000));
  run->add_option("--output", f->output, "folder for what each rank prints, in rank.R; default: here, with a prefix");
  run->add_flag("--no-prefix", f->no_prefix, "print lines as they are");
  run->add_option("--export,-x", f->exported,
                  "NAME or NAME=VALUE for other hosts; HOCKET_*, HCCL_* and NCCL_* go by themselves");
  for (const auto& [name, place] :
       {std::pair{"--first-rank", &f->first_rank}, {"--world-size", &f->world_size}, {"--server", &f->server}})
    run->add_option(name, *place)->group("")->check(CLI::Range(0, kMaxRanks));
  run->add_option("--meet", f->meet)->group("");
  run->add_flag("--leash", f->leash)->group("");
  run->add_option("command", f->command, "the program and its arguments")->required();
  run->positionals_at_end();
  run->callback([f, &status] {
    // Ranks and other hosts may be in another folder.
    if (!f->rank_table.empty() && f->rank_table.front() != '/')
      f->rank_table = current_directory() + "/" + f->rank_table;
    status = f->leash ? run_part(*f) : run_status(*f, {});
  });
}

}  // namespace hocket::tool
