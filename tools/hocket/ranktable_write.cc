#include "ranktable_write.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.h"

namespace hocket::tool {
namespace {

using nlohmann::ordered_json;
using rank_table::Attributes;
using rank_table::Device;
using rank_table::Group;
using rank_table::Network;
using rank_table::NetworkAddress;
using rank_table::RankTable;
using rank_table::Server;
using rank_table::Version;

constexpr int kMax20Id = 64;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Fields that only some formats have; all others belong to the 1.x formats, or to nobody's, and stay with those.
bool has_place(Version version, std::string_view name) {
  if (version == Version::v2_0) return name == "device_port";
  if (is_one_of(name, {"super_device_id", "backup_device_ip", "backup_device_port"})) return version == Version::v1_2;
  if (is_one_of(name, {"server_ip", "dpu_ip", "numa_id"})) return version == Version::v1_0;
  return name != "pod_name";  // template 2
}

class Writer {
 public:
  Writer(const RankTable& table, Version version) : table_(table), version_(version) {}

  Result<Written> write() {
    if (version_ == Version::v2_0) HKT_TRY(check_ids());
    ordered_json root = {{"status", "completed"}, {"version", rank_table::name_of(version_)}};
    add(root, table_.attributes);
    if (version_ == Version::v2_0) {
      ranks(root);
    } else {
      servers(root);
    }
    Written out;
    out.text = root.dump(2) + "\n";
    for (const auto& [what, example] : lost_) {
      out.lost.push_back(what + (example.count > 1 ? format(" (%zu of them, the first: ", example.count) : " (") +
                         example.first + ")");
    }
    return out;
  }

 private:
  struct Example {
    std::string first;
    size_t count = 0;
  };

  void lose(const std::string& what, const std::string& value) {
    Example& example = lost_[what];
    if (example.count++ == 0) example.first = value;
  }

  void add(ordered_json& to, const Attributes& attributes) {
    for (const auto& [name, value] : attributes) {
      if (!has_place(version_, name)) {
        lose(format("version %s has no %s", rank_table::name_of(version_), name.c_str()), in_quotes(value));
      } else if (version_ == Version::v2_0) {
        to[name] = parse_int(value).value_or(0);
      } else {
        to[name] = value;
      }
    }
  }

  Status check_ids() const {
    for (const Server& server : table_.servers) {
      for (const Device& device : server.devices) {
        if (device.id <= kMax20Id && device.local <= kMax20Id) continue;
        return error(hktInvalidArgument,
                     "rank %d has device %d and local id %d: version 2.0 has at most %d of a server", device.rank,
                     device.id, device.local, kMax20Id);
      }
    }
    return {};
  }

  // 1.x

  void servers(ordered_json& root) {
    root["server_count"] = std::to_string(table_.servers.size());
    ordered_json list = ordered_json::array();
    for (const Server& server : table_.servers) list.push_back(one_server(server));
    root["server_list"] = std::move(list);
    groups(root, table_.super_pods, "super_pod", version_ == Version::v1_2);
    groups(root, table_.clusters, "cluster", version_ == Version::v1_0);
  }

  void groups(ordered_json& root, const std::vector<Group>& groups, const std::string& what, bool has_them) {
    ordered_json list = ordered_json::array();
    for (const Group& group : groups) {
      if (!has_them) {
        lose(format("version %s has no %s_list", rank_table::name_of(version_), what.c_str()), in_quotes(group.id));
        continue;
      }
      ordered_json entry = {{what + "_id", group.id}};
      for (const auto& [name, value] : group.attributes) entry[name] = value;
      ordered_json members = ordered_json::array();
      for (const std::string& server : group.servers) members.push_back({{"server_id", server}});
      entry["server_list"] = std::move(members);
      list.push_back(std::move(entry));
    }
    if (!list.empty()) root[what + "_list"] = std::move(list);
  }

  ordered_json one_server(const Server& server) {
    ordered_json out = {{"server_id", server.id}};
    std::string host = server.host_ip;
    if (table_.version == Version::v2_0) {
      const auto first = rank_table::host_address({&server, &server.devices[0], 0});
      host = first ? first->host : "";
    }
    if (!host.empty()) out["host_ip"] = host;
    add(out, server.attributes);
    ordered_json devices = ordered_json::array();
    for (const Device& device : server.devices) devices.push_back(one_device(server, device, host));
    out["device"] = std::move(devices);
    return out;
  }

  ordered_json one_device(const Server& server, const Device& device, const std::string& host) {
    ordered_json out = {{"device_id", std::to_string(device.id)}};
    std::string ip = device.ip;
    if (!device.networks.empty()) ip = inner_address(server, device, host);
    if (!ip.empty()) out["device_ip"] = ip;
    out["rank_id"] = std::to_string(device.rank);
    if (device.host_port) out["host_port"] = std::to_string(*device.host_port);
    add(out, device.attributes);
    return out;
  }

  // Of a 2.0 rank: the one IP address besides that of its host, if there is one. The others are lost.
  std::string inner_address(const Server& server, const Device& device, const std::string& host) {
    const auto outer = rank_table::host_address({&server, &device, 0});
    if (outer && outer->host != host) lose("version 1.x has one host address per server", outer->host);
    std::string ip;
    for (const Network& network : device.networks) {
      for (const NetworkAddress& address : network.addresses) {
        if (!address.ports.empty()) lose("version 1.x has no ports of addresses", in_quotes(address.ports[0]));
        if (!address.plane.empty()) lose("version 1.x has no plane_id", in_quotes(address.plane));
        if (outer && address.address == outer->host) continue;
        if (address.type == "EID") {
          lose("version 1.x has no EID addresses", address.address);
        } else if (ip.empty()) {
          ip = address.address;
        } else {
          lose("version 1.x has one address per device", address.address);
        }
      }
      if (!network.attribute.empty()) lose("version 1.x has no net_attr", in_quotes(network.attribute));
      if (network.layer > 0 && network.type == "CLOS" && network.instance != kHosts && network.instance != kDevices) {
        lose("version 1.x has no networks", in_quotes(network.instance));
      }
    }
    return ip;
  }

  // 2.0

  void ranks(ordered_json& root) {
    root["rank_count"] = table_.size();
    std::vector<std::pair<const Server*, const Device*>> all;
    for (const Server& server : table_.servers) {
      if (table_.version != Version::v2_0) add_lost(server);
      for (const Device& device : server.devices) all.emplace_back(&server, &device);
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second->rank < b.second->rank; });
    ordered_json list = ordered_json::array();
    for (const auto& [server, device] : all) list.push_back(one_rank(*server, *device));
    root["rank_list"] = std::move(list);
    for (const Group& group : table_.clusters) lose("version 2.0 has no cluster_list", in_quotes(group.id));
  }

  void add_lost(const Server& server) {
    ordered_json nothing;
    add(nothing, server.attributes);
  }

  std::string super_pod_of(const Server& server) const {
    for (const Group& pod : table_.super_pods) {
      if (std::find(pod.servers.begin(), pod.servers.end(), server.id) != pod.servers.end()) return pod.id;
    }
    return "";
  }

  static NetworkAddress ip(const std::string& address) {
    return {address.find(':') != std::string::npos ? "IPV6" : "IPV4", address, {}, ""};
  }

  // What a 1.x table says of a device, as networks: its server, its super pod, the devices' own network, the hosts'.
  std::vector<Network> networks_of(const Server& server, const Device& device) const {
    std::vector<Network> out = {{0, server.id, "TOPO_FILE_DESC", "", {}}};
    if (const std::string pod = super_pod_of(server); !pod.empty()) out.push_back({1, pod, "CLOS", "", {}});
    if (!device.ip.empty()) out.push_back({2, kDevices, "CLOS", "", {ip(device.ip)}});
    if (const auto host = rank_table::host_address({&server, &device, 0})) {
      out.push_back({3, kHosts, "CLOS", "", {ip(host->host)}});
    }
    return out;
  }

  ordered_json one_rank(const Server& server, const Device& device) {
    ordered_json out = {{"rank_id", device.rank}, {"local_id", device.local}, {"device_id", device.id}};
    if (device.host_port) out["host_port"] = *device.host_port;
    add(out, device.attributes);
    ordered_json levels = ordered_json::array();
    for (const Network& network : device.networks.empty() ? networks_of(server, device) : device.networks) {
      ordered_json level = {{"net_layer", network.layer},
                            {"net_instance_id", network.instance},
                            {"net_type", network.type},
                            {"net_attr", network.attribute}};
      ordered_json addresses = ordered_json::array();
      for (const NetworkAddress& address : network.addresses) {
        ordered_json entry = {{"addr_type", address.type}, {"addr", address.address}, {"ports", address.ports}};
        if (!address.plane.empty()) entry["plane_id"] = address.plane;
        addresses.push_back(std::move(entry));
      }
      level["rank_addr_list"] = std::move(addresses);
      levels.push_back(std::move(level));
    }
    out["level_list"] = std::move(levels);
    return out;
  }

  static constexpr const char* kDevices = "devices";
  static constexpr const char* kHosts = "hosts";
  const RankTable& table_;
  const Version version_;
  std::map<std::string, Example> lost_;
};

}  // namespace

Result<Written> write_table(const RankTable& table, Version version) { return Writer(table, version).write(); }

}  // namespace hocket::tool
