#include "bootstrap/rank_table/rank_table.h"

#include <arpa/inet.h>

#include <array>

#include "base/text.h"

namespace hocket::rank_table {

const char* name_of(Version version) {
  switch (version) {
    case Version::v1_0:
      return "1.0";
    case Version::v1_2:
      return "1.2";
    case Version::v2_0:
      return "2.0";
    case Version::groups:
      return "template 2";
  }
  return "unknown";
}

int RankTable::size() const {
  size_t out = 0;
  for (const Server& server : servers) out += server.devices.size();
  return static_cast<int>(out);
}

std::optional<RankTable::Member> RankTable::find(int rank) const {
  int index = 0;
  for (const Server& server : servers) {
    for (const Device& device : server.devices) {
      if (device.rank == rank) return Member{&server, &device, index};
    }
    ++index;
  }
  return std::nullopt;
}

std::optional<HostAddress> host_address(const RankTable::Member& member) {
  const Server& server = *member.server;
  if (is_address(server.host_ip))
    return HostAddress{server.host_ip, "host_ip of server " + in_quotes(server.id), server.place};
  // A 2.0 table has no servers; what stands for them here is a network's instance, which may look like an address.
  const std::vector<Network>& networks = member.device->networks;
  if (networks.empty() && is_address(server.id)) return HostAddress{server.id, "server_id", server.place};
  // The outermost network is the one that all ranks share.
  for (auto network = networks.rbegin(); network != networks.rend(); ++network) {
    for (const NetworkAddress& address : network->addresses) {
      if ((address.type == "IPV4" || address.type == "IPV6") && is_address(address.address)) {
        return HostAddress{address.address, address.type + " address of rank " + std::to_string(member.device->rank),
                           member.device->place};
      }
    }
  }
  return std::nullopt;
}

bool is_address(std::string_view text) {
  const std::string terminated(text.substr(0, INET6_ADDRSTRLEN));
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return text.size() < INET6_ADDRSTRLEN && text.find('\0') == std::string_view::npos &&
         (inet_pton(AF_INET, terminated.c_str(), bytes.data()) == 1 ||
          inet_pton(AF_INET6, terminated.c_str(), bytes.data()) == 1);
}

bool is_loopback(std::string_view address) {
  in6_addr v6{};
  return is_address(address) &&
         (address.substr(0, 4) == "127." ||
          (inet_pton(AF_INET6, std::string(address).c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6)));
}

}  // namespace hocket::rank_table
