// Format 2.0: a list of ranks, each with the networks it is in.
#include <map>

#include "base/text.h"
#include "bootstrap/rank_table/formats.h"
#include "bootstrap/rank_table/read.h"

namespace hocket::rank_table {
namespace {

constexpr int kMaxLocal = 64;
constexpr size_t kMaxNetworks = 8;
constexpr int kMaxLayer = 7;
constexpr size_t kMaxAddresses = 24;
constexpr size_t kMaxPorts = 16;

bool is_eid(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

NetworkAddress read_address(const json::Value& value, Problems& problems) {
  Fields fields(value, Numbers::plain, problems);
  NetworkAddress out;
  out.type = fields.text("addr_type", Need::required, 16);
  out.address = fields.text("addr", Need::required, 64);
  out.ports = fields.texts("ports", Need::optional, kMaxPorts);
  out.plane = fields.text("plane_id", Need::optional);
  const bool v4 = out.type == "IPV4";
  const bool v6 = out.type == "IPV6";
  if (!out.type.empty() && !v4 && !v6 && out.type != "EID") {
    problems.member(Kind::bad_value, value, "addr_type",
                    {in_quotes(out.type, 16), "\"EID\", \"IPV4\" or \"IPV6\"", "write one of these"});
  } else if (!out.type.empty() && !out.address.empty()) {
    const bool colon = out.address.find(':') != std::string::npos;
    const bool good = v4   ? is_address(out.address) && !colon
                      : v6 ? is_address(out.address) && colon
                           : is_eid(out.address);
    if (!good) {
      problems.member(Kind::bad_address, value, "addr",
                      {in_quotes(out.address, 64),
                       v4   ? "an IPv4 address"
                       : v6 ? "an IPv6 address"
                            : "an EID of 32 hexadecimal digits",
                       "write the whole address, or the right addr_type"});
    }
  }
  return out;
}

Network read_network(const json::Value& value, int least_layer, Problems& problems) {
  Fields fields(value, Numbers::plain, problems);
  Network out;
  out.layer = fields.number("net_layer", 0, kMaxLayer, Need::required).value_or(-1);
  out.instance = fields.text("net_instance_id", Need::required, 1024);
  out.type = fields.text("net_type", Need::required, 64);
  out.attribute = fields.text("net_attr", Need::optional);
  // Layers ascend, from 0.
  if (out.layer >= 0 && (out.layer < least_layer || (least_layer == 0 && out.layer != 0))) {
    problems.member(Kind::bad_value, value, "net_layer",
                    {std::to_string(out.layer),
                     least_layer == 0 ? "0 in the first entry" : format("%d or more: layers ascend", least_layer),
                     "put the layers in order"});
  }
  const bool described = out.type == "TOPO_FILE_DESC";
  if (!out.type.empty() && !described && (out.type != "CLOS" || out.layer == 0)) {
    problems.member(
        Kind::bad_value, value, "net_type",
        {in_quotes(out.type, 64), out.layer == 0 ? "\"TOPO_FILE_DESC\" in layer 0" : "\"TOPO_FILE_DESC\" or \"CLOS\"",
         "write the right one"});
  }
  for (const json::Value& address : fields.objects("rank_addr_list", Need::optional, kMaxAddresses)) {
    out.addresses.push_back(read_address(address, problems));
  }
  return out;
}

Device read_rank(const json::Value& value, Problems& problems) {
  Fields fields(value, Numbers::plain, problems);
  Device out;
  out.place = value.place();
  out.rank = fields.number("rank_id", 0, static_cast<int>(kMaxRanksOfTable) - 1, Need::required).value_or(-1);
  out.local = fields.number("local_id", 0, kMaxLocal, Need::required).value_or(-1);
  out.id = fields.number("device_id", 0, kMaxLocal, Need::required).value_or(-1);
  out.host_port = fields.number("host_port", 1, 65535, Need::optional);
  int least_layer = 0;
  for (const json::Value& network : fields.objects("level_list", Need::required, kMaxNetworks)) {
    out.networks.push_back(read_network(network, least_layer, problems));
    if (out.networks.back().layer >= 0) least_layer = out.networks.back().layer + 1;
  }
  out.attributes = fields.rest();
  (void)fields.number("device_port", 1, 65535, Need::optional);
  return out;
}

}  // namespace

void read_ranks(Fields& root, Draft& draft) {
  RankTable& table = draft.table;
  const std::vector<json::Value> ranks = root.objects("rank_list", Need::required, kMaxRanksOfTable);
  if (!ranks.empty()) check_count(root, "rank_count", ranks.size(), Need::required, draft.problems);
  // The ranks of one instance of the innermost network stand for a server.
  std::map<std::string, size_t> server_of;
  for (const json::Value& value : ranks) {
    Device device = read_rank(value, draft.problems);
    const std::string instance = device.networks.empty() ? "" : device.networks.front().instance;
    const auto [at, added] = server_of.emplace(instance, table.servers.size());
    if (added) {
      Server server;
      server.id = instance;
      server.place = value.place();
      table.servers.push_back(std::move(server));
      draft.servers.push_back(value);
      draft.devices.emplace_back();
    }
    table.servers[at->second].devices.push_back(std::move(device));
    draft.devices[at->second].push_back(value);
  }
}

}  // namespace hocket::rank_table
