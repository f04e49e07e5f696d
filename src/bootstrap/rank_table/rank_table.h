// RankTable: servers x devices x ranks, whatever format the file has that says so. A value; any thread.
//
//   1.0      servers with devices, all values texts; a list of clusters over it is MindSpore's cross-cluster form
//   1.2      the same with super pods
//   2.0      a list of ranks with the networks each is in, numbers as numbers
//   groups   the older template 2, without a version: pods with devices, ranks in the order of the file
//
// The public field tables of these formats are the source; docs/ranktable.md has what Hocket takes from them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/rank_table/json.h"

namespace hocket::rank_table {

enum class Version : uint8_t { v1_0, v1_2, v2_0, groups };
const char* name_of(Version version);  // "1.0", "template 2"

// Fields that Hocket hands on and does not interpret, with the texts that they have in the file.
using Attributes = std::vector<std::pair<std::string, std::string>>;

// 2.0: an address of a rank in one of its networks.
struct NetworkAddress {
  std::string type;  // EID, IPV4, IPV6
  std::string address;
  std::vector<std::string> ports;
  std::string plane;
};

struct Network {
  int layer = 0;
  std::string instance;
  std::string type;  // TOPO_FILE_DESC, CLOS
  std::string attribute;
  std::vector<NetworkAddress> addresses;
};

struct Device {
  int rank = -1;
  int id = -1;     // as the host counts; a container may count its own
  int local = -1;  // 2.0's local_id, else the position on its server
  std::string ip;  // of its own network port; "" if the table has none
  std::optional<int> host_port;
  Attributes attributes;
  std::vector<Network> networks;
  json::Place place;
};

struct Server {
  std::string id;
  std::string host_ip;
  Attributes attributes;
  std::vector<Device> devices;
  json::Place place;
};

// Super pods of 1.2, clusters of the cross-cluster form.
struct Group {
  std::string id;
  Attributes attributes;
  std::vector<std::string> servers;
};

struct RankTable {
  std::string file;
  Version version = Version::v1_0;
  std::vector<Server> servers;
  std::vector<Group> super_pods;
  std::vector<Group> clusters;
  Attributes attributes;

  int size() const;  // ranks
  struct Member {
    const Server* server = nullptr;
    const Device* device = nullptr;
    int server_index = 0;
  };
  std::optional<Member> find(int rank) const;
};

// Where the process of a rank is to be reached, and which field says so.
struct HostAddress {
  std::string host;   // an IPv4 or IPv6 address
  std::string field;  // "host_ip of server 'node_0'"
  json::Place place;
};
std::optional<HostAddress> host_address(const RankTable::Member& member);

// "10.0.0.1", "fd00::1"; no name, no port.
bool is_address(std::string_view text);
bool is_loopback(std::string_view address);

}  // namespace hocket::rank_table
