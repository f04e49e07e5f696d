#include "run_plan.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/env.h"
#include "base/network_env.h"
#include "base/text.h"
#include "bootstrap/rank_table/identify.h"
#include "host_list.h"
#include "remote.h"
#include "table_hosts.h"

namespace hocket::tool {
namespace {

constexpr int kMostRanks = 4096;  // of one host

Status take_hosts(const std::vector<HostSlots>& hosts, const char* origin, Plan& plan) {
  std::set<std::string> seen;
  for (const HostSlots& host : hosts) {
    const int ranks = std::max(host.slots, 1);
    if (ranks > kMostRanks)
      return error(hktInvalidUsage, "%s: %d ranks on host %s: a host takes 1 to %d", origin, ranks, host.host.c_str(),
                   kMostRanks);
    if (!seen.insert(host.host).second)
      return error(hktInvalidUsage, "%s: '%s' occurs twice; add up its ranks", origin, host.host.c_str());
    plan.hosts.push_back({host.host, ranks, -1, false});
  }
  return {};
}

std::string list_of(const std::vector<TableHost>& hosts) {
  constexpr size_t kShown = 8;
  std::string out;
  for (size_t i = 0; i < std::min(kShown, hosts.size()); ++i) out += (i == 0 ? "" : ", ") + hosts[i].name;
  return hosts.size() > kShown ? out + ", ..." : out;
}

Status take_table(const RunFlags& f, const Environment& environment, Plan& plan) {
  const Environment with_spares = [&](const char* name) {
    return f.spares >= 0 && std::string(name) == "HOCKET_SPARES" ? std::optional(std::to_string(f.spares))
                                                                 : environment(name);
  };
  HKT_ASSIGN(const int64_t patience_ms, env::get_seconds_ms("HOCKET_INIT_TIMEOUT", 30'000));
  Plan::Table out;
  HKT_ASSIGN(out.table, rank_table::read_completed(f.rank_table, Deadline::in_ms(patience_ms)));
  HKT_ASSIGN(out.nranks, rank_table::ranks_of_job(out.table, with_spares));
  HKT_ASSIGN(const std::vector<TableHost> hosts, hosts_of(out.table, out.nranks));
  for (const TableHost& host : hosts) {
    if (f.server >= 0 ? static_cast<size_t>(f.server) == host.server : f.this_host && host.here)
      out.here.insert(out.here.end(), host.ranks.begin(), host.ranks.end());
  }
  if (f.server >= 0 || f.this_host) {
    if (out.here.empty() && f.server >= 0)
      return error(hktInvalidUsage,
                   "this host's copy of rank table %s has no ranks of the job on server %d, counted from 0 (it has %zu "
                   "servers): it is another table than the launcher's; give all hosts the same",
                   f.rank_table.c_str(), f.server, out.table.servers.size());
    if (out.here.empty()) {
      HKT_ASSIGN(const std::string mine, own_addresses());
      return error(hktInvalidUsage, "--this-host: none of the hosts of rank table %s (%s) is this one, which has %s",
                   f.rank_table.c_str(), list_of(hosts).c_str(), mine.c_str());
    }
    plan.table = std::move(out);
    return {};
  }
  plan.remote = split(kSsh, ' ');
  if (!f.remote.empty()) {
    HKT_ASSIGN(plan.remote, remote_command(f.remote));
  }
  for (const TableHost& host : hosts) {
    if (host.name.empty() && !host.here)
      return error(hktInvalidUsage,
                   "rank table %s has no address of server %s: add host_ip, or start `hocket run --rank-table %s "
                   "--this-host` on each host",
                   f.rank_table.c_str(), in_quotes(out.table.servers[host.server].id).c_str(), f.rank_table.c_str());
    plan.hosts.push_back({host.name, static_cast<int>(host.ranks.size()), static_cast<int>(host.server), host.here});
  }
  plan.table = std::move(out);
  return {};
}

Status take_nnodes(const std::string& text, Plan& plan) {
  const size_t colon = text.find(':');
  const auto least = parse_int(text.substr(0, colon));
  const auto most = colon == std::string::npos ? least : parse_int(text.substr(colon + 1));
  if (!least || !most || *least < 1 || *most < *least || *least > static_cast<int64_t>(plan.hosts.size()))
    return error(hktInvalidUsage,
                 "--nnodes is '%s': MIN:MAX with 1 <= MIN <= MAX is expected, and at least MIN hosts (here: %zu)",
                 text.c_str(), plan.hosts.size());
  plan.elastic = true;
  plan.min_hosts = static_cast<size_t>(*least);
  plan.max_hosts = std::min(static_cast<size_t>(*most), plan.hosts.size());
  return {};
}

// A variable may be set to nothing: so not by an Environment, to which that is not set.
Status check_exported(const RunFlags& f) {
  for (const std::string& name : f.exported) {
    if (name.empty() || name.front() == '=')
      return error(hktInvalidUsage, "-x is '%s': NAME or NAME=VALUE is expected", name.c_str());
    if (name.find('=') == std::string::npos && std::getenv(name.c_str()) == nullptr)
      return error(hktInvalidUsage, "-x %s: it is not set here; set it, or give the value as -x %s=VALUE", name.c_str(),
                   name.c_str());
  }
  return {};
}

// A port for each rank, and one to meet at, on every host.
Status check_ports(const Plan& plan, const Environment& environment) {
  HKT_ASSIGN(const PortRanges ports, port_ranges(environment));
  if (plan.hosts.size() < 2) return {};
  for (const Plan::Host& host : plan.hosts) HKT_TRY(check_enough(ports, static_cast<size_t>(host.ranks)));
  return {};
}

}  // namespace

Result<Plan> make_plan(const RunFlags& f, const Environment& environment) {
  Plan plan;
  const int ways = (f.np != 0 ? 1 : 0) + (f.hosts.empty() ? 0 : 1) + (f.rank_table.empty() ? 0 : 1);
  if (ways > 1)
    return error(hktInvalidUsage,
                 "--np, --hosts and --rank-table do not go together: write --hosts a:4,b:4 for ranks "
                 "on hosts; a rank table has its own");
  if ((f.this_host || f.spares >= 0) && f.rank_table.empty())
    return error(hktInvalidUsage, "--this-host and --spares are about a rank table: give it by --rank-table");
  if (!f.rank_table.empty() && !f.nnodes.empty())
    return error(hktInvalidUsage,
                 "--nnodes does not go with --rank-table: the table says which ranks there are, none can be left out");
  HKT_TRY(check_exported(f));
  if (!f.rank_table.empty()) {
    HKT_TRY(take_table(f, environment, plan));
  } else if (!f.hosts.empty()) {
    const Result<std::vector<HostSlots>> hosts = parse_hosts(f.hosts);
    if (!hosts) return error(hktInvalidUsage, "--hosts: %s", hosts.error().text.c_str());
    HKT_TRY(take_hosts(hosts.value(), "--hosts", plan));
    HKT_ASSIGN(plan.remote, remote_command(f.remote.empty() ? kSsh : f.remote));
  } else if (f.np == 0) {
    // In an allocation without being a task of it.
    if (!environment("SLURM_JOB_NODELIST") || environment("SLURM_STEP_ID"))
      return error(hktInvalidUsage, "say how many ranks to start: --np N here, --hosts a:4,b:4, or --rank-table FILE");
    HKT_ASSIGN(const std::vector<HostSlots> hosts, slurm_hosts(environment));
    HKT_TRY(take_hosts(hosts, "SLURM_JOB_NODELIST", plan));
    plan.remote = split("srun --quiet --overlap --kill-on-bad-exit=1 --nodes=1 --ntasks=1 --nodelist", ' ');
    plan.slurm = true;
  }
  plan.min_hosts = plan.max_hosts = plan.hosts.size();
  if (!f.nnodes.empty()) HKT_TRY(take_nnodes(f.nnodes, plan));
  HKT_TRY(check_ports(plan, environment));
  return plan;
}

}  // namespace hocket::tool
