#include "table_hosts.h"

#include <algorithm>

#include "base/log.h"
#include "bootstrap/interfaces.h"
#include "host_list.h"

namespace hocket::tool {

Result<std::vector<TableHost>> hosts_of(const rank_table::RankTable& table, int nranks) {
  HKT_ASSIGN(const std::vector<Interface> interfaces, all_interfaces());
  std::vector<TableHost> out;
  for (size_t i = 0; i < table.servers.size(); ++i) {
    const rank_table::Server& server = table.servers[i];
    TableHost host;
    host.server = i;
    for (const rank_table::Device& device : server.devices)
      if (device.rank < nranks) host.ranks.push_back(device.rank);
    if (host.ranks.empty()) continue;
    if (const auto found = rank_table::host_address({&server, &server.devices.front(), static_cast<int>(i)}))
      host.address = found->host;
    const auto same = [&](const Interface& x) { return x.address.host() == host.address; };
    if (host.address.empty())
      host.here = table.servers.size() == 1 || server.id == host_name();
    else
      host.here = rank_table::is_loopback(host.address) || std::any_of(interfaces.begin(), interfaces.end(), same);
    host.name = !host.address.empty() ? host.address : is_host_name(server.id) ? server.id : "";
    out.push_back(std::move(host));
  }
  return out;
}

Result<std::string> own_addresses() {
  HKT_ASSIGN(const std::vector<Interface> interfaces, all_interfaces());
  std::string out;
  for (const Interface& i : interfaces)
    if (!i.address.is_loopback()) out += (out.empty() ? "" : ", ") + i.address.host();
  return out.empty() ? "none but loopback" : out;
}

}  // namespace hocket::tool
