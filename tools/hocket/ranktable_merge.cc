#include "ranktable_merge.h"

#include <algorithm>

namespace hocket::tool {

using rank_table::Device;
using rank_table::Group;
using rank_table::RankTable;
using rank_table::Server;

namespace {

void append(std::vector<Group>& to, std::vector<Group>& from) {
  for (Group& group : from) {
    // Tables of two halves of one super pod.
    const auto known = std::find_if(to.begin(), to.end(), [&](const Group& g) { return g.id == group.id; });
    if (known == to.end()) {
      to.push_back(std::move(group));
    } else {
      known->servers.insert(known->servers.end(), group.servers.begin(), group.servers.end());
    }
  }
}

int lowest(const Server& server) {
  const auto least = std::min_element(server.devices.begin(), server.devices.end(),
                                      [](const Device& a, const Device& b) { return a.rank < b.rank; });
  return least == server.devices.end() ? 0 : least->rank;
}

}  // namespace

Result<RankTable> merge(std::vector<RankTable> tables) {
  RankTable out;
  out.version = tables.at(0).version;
  out.attributes = tables[0].attributes;
  int rank = 0;
  for (RankTable& table : tables) {
    if (table.version != out.version) {
      return error(hktInvalidUsage,
                   "%s has version %s, %s has %s: bring them to one version first (`hocket ranktable convert`)",
                   tables[0].file.c_str(), rank_table::name_of(out.version), table.file.c_str(),
                   rank_table::name_of(table.version));
    }
    std::stable_sort(table.servers.begin(), table.servers.end(),
                     [](const Server& a, const Server& b) { return lowest(a) < lowest(b); });
    for (Server& server : table.servers) {
      // The list keeps the order of the devices.
      std::vector<Device*> order;
      for (Device& device : server.devices) order.push_back(&device);
      std::stable_sort(order.begin(), order.end(), [](const Device* a, const Device* b) { return a->rank < b->rank; });
      for (Device* device : order) device->rank = rank++;
      out.servers.push_back(std::move(server));
    }
    append(out.super_pods, table.super_pods);
    append(out.clusters, table.clusters);
  }
  return out;
}

}  // namespace hocket::tool
