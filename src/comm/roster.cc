#include "comm/roster.h"

#include <algorithm>
#include <map>
#include <set>

#include "comm/parts.h"

namespace hocket {

std::vector<int> Roster::group_of(int rank) const {
  std::vector<int> group;
  for (int r = 0; r < static_cast<int>(mates.size()); ++r)
    if (mate(r).memory == mate(rank).memory) group.push_back(r);
  return group;
}

std::vector<int32_t> Roster::processes(const std::vector<int>& group, int rank) const {
  std::vector<int32_t> all;
  for (const int r : group)
    all.push_back(!readable ? Link::kUnreadable : mate(r).token == mate(rank).token ? Link::kThisProcess : mate(r).pid);
  return all;
}

shm::GroupConfig shm_config(const Roster& roster, const Parts& parts) {
  shm::GroupConfig config;
  config.ranks = roster.group_of(parts.rank);
  config.my_rank = parts.rank;
  config.nonce = parts.nonce;
  config.process_token = roster.mate(parts.rank).token;
  for (const int r : config.ranks) {
    config.tokens.push_back(roster.mate(r).token);
    config.seats.push_back(roster.mate(r).seat);
  }
  config.processes = roster.processes(config.ranks, parts.rank);
  config.geometry = roster.geometry;
  config.tags = kLinkTags;
  config.small_tags = kLinkTags - kExchangeTag;
  config.backing = roster.backing;
  config.fence = parts.fence;
  config.log = {parts.rank, parts.nranks};
  return config;
}

tcp::Config tcp_config(const Roster& roster, const Parts& parts) {
  tcp::Config config;
  config.rank = parts.rank;
  config.nranks = parts.nranks;
  config.nonce = parts.nonce;
  config.epoch = parts.epoch;
  config.geometry = roster.geometry;
  config.striping = roster.striping;
  config.tags = kLinkTags;
  config.log = {parts.rank, parts.nranks};
  config.secret = roster.secret;
  return config;
}

void look_up_facts(const Roster& roster, Parts& parts) {
  parts.facts.nranks = static_cast<uint32_t>(parts.nranks);
  parts.facts.slot_bytes = roster.geometry.slot_bytes;
  parts.facts.depth = roster.geometry.depth;
  parts.facts.readable = roster.readable;
  parts.costs = roster.costs;
  std::map<std::string, std::vector<CpuShare>> hosts;  // what each rank of a host may use
  std::set<int> memories;
  for (int r = 0; r < parts.nranks; ++r) {
    const Mate& m = roster.mate(r);
    hosts[m.host].push_back(m.cpus);
    memories.insert(m.memory);
    parts.facts.cache_bytes = r == 0 ? m.cache : std::min(parts.facts.cache_bytes, m.cache);
  }
  parts.facts.machines = static_cast<uint32_t>(hosts.size());
  parts.facts.cpus = UINT32_MAX;
  for (const auto& [host, shares] : hosts) {
    const uint32_t cpus = usable_cpus(shares);
    parts.facts.oversubscribed = parts.facts.oversubscribed || shares.size() > cpus;
    parts.facts.cpus = std::min(parts.facts.cpus, cpus);
  }
  parts.facts.hosts = static_cast<uint32_t>(memories.size());
  const std::vector<CpuShare>& mine = hosts[roster.mate(parts.rank).host];
  parts.local_ranks = static_cast<uint32_t>(mine.size());
  parts.cpus = usable_cpus(mine);
}

}  // namespace hocket
