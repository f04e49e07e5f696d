// Formats 1.0 and 1.2: servers with devices, and lists of super pods or clusters over them.
#include <map>
#include <set>

#include "base/text.h"
#include "bootstrap/rank_table/formats.h"
#include "bootstrap/rank_table/read.h"

namespace hocket::rank_table {
namespace {

constexpr int kMaxDeviceId = 65535;
constexpr int kMaxPort = 65535;

// A server's id is an address or a name; what looks like an address has to be one.
void check_server_id(const json::Value& value, std::string_view id, Problems& problems) {
  const bool numeric =
      id.find_first_not_of("0123456789.") == std::string_view::npos && id.find('.') != std::string_view::npos;
  const bool masked = id.find('*') != std::string_view::npos;
  if (is_address(id) || (!numeric && !masked)) return;
  problems.at(Kind::bad_address, value,
              {value.shown(), "an IPv4 or IPv6 address, or a name",
               masked ? "write the address that stands behind the *" : "write the right address"});
}

void check_device_attributes(Fields& device, bool in_super_pod) {
  // Read for their checks; rest() of another object keeps their texts.
  (void)device.number("device_port", 1, kMaxPort, Need::optional);
  (void)device.address("backup_device_ip", Need::optional);
  (void)device.number("backup_device_port", 1, kMaxPort, Need::optional);
  (void)device.number("super_device_id", 0, INT32_MAX, in_super_pod ? Need::required : Need::optional);
}

Device read_device(const json::Value& value, bool in_super_pod, int position, Problems& problems) {
  Fields fields(value, Numbers::in_quotes, problems);
  Device out;
  out.place = value.place();
  out.local = position;
  out.rank = fields.number("rank_id", 0, static_cast<int>(kMaxRanksOfTable) - 1, Need::required).value_or(-1);
  out.id = fields.number("device_id", 0, kMaxDeviceId, Need::required).value_or(-1);
  out.ip = fields.address("device_ip", Need::optional);
  out.host_port = fields.number("host_port", 1, kMaxPort, Need::optional);
  out.attributes = fields.rest();
  check_device_attributes(fields, in_super_pod);
  return out;
}

// The servers of one super pod stand together.
void check_adjacent(const Draft& draft, const char* list,
                    const std::map<std::string, std::string, std::less<>>& group_of) {
  if (std::string_view(list) != "super_pod_list") return;
  std::set<std::string> left;  // super pods whose servers are over
  std::string current;
  for (size_t i = 0; i < draft.servers.size(); ++i) {
    const auto found = group_of.find(draft.table.servers[i].id);
    if (found == group_of.end() || found->second == current) continue;
    left.insert(current);
    current = found->second;
    if (left.count(current) == 0) continue;
    draft.problems.member(Kind::group_of_servers, draft.servers[i], "server_id",
                          {"a server of super pod " + in_quotes(current) + " behind those of others",
                           "the servers of a super pod next to one another", "move it to them"});
  }
}

// A list of super pods or clusters: each server of the table is in exactly one.
std::vector<Group> read_partition(Fields& root, const char* list, const char* id, const Draft& draft) {
  Problems& problems = draft.problems;
  std::vector<Group> out;
  if (!root.object().find(list)) return out;
  std::map<std::string, std::string, std::less<>> group_of;  // by server; "" until it is found
  for (const Server& server : draft.table.servers) group_of.emplace(server.id, "");
  std::set<std::string> names;
  for (const json::Value& value : root.objects(list, Need::required, kMaxRanksOfTable)) {
    Fields fields(value, Numbers::in_quotes, problems);
    Group group;
    group.id = fields.text(id, Need::required, 64);
    if (!group.id.empty() && !names.insert(group.id).second) {
      problems.member(Kind::group_of_servers, value, id,
                      {in_quotes(group.id) + " again", "a name of its own", "rename one of them"});
    }
    for (const json::Value& member : fields.objects("server_list", Need::required, kMaxRanksOfTable)) {
      Fields server(member, Numbers::in_quotes, problems);
      const std::string name = server.text("server_id", Need::required, 64);
      if (name.empty()) continue;
      const auto known = group_of.find(name);
      if (known == group_of.end()) {
        problems.member(
            Kind::group_of_servers, member, "server_id",
            {in_quotes(name), "a server of the table's server_list", "add the server, or take it out here"});
      } else if (!known->second.empty()) {
        problems.member(Kind::group_of_servers, member, "server_id",
                        {in_quotes(name) + " again", "each server in one: it is in " + in_quotes(known->second),
                         "take it out of one of them"});
      } else {
        known->second = group.id;
        group.servers.push_back(name);
      }
    }
    group.attributes = fields.rest();
    out.push_back(std::move(group));
  }
  for (size_t i = 0; i < draft.servers.size(); ++i) {
    const std::string& name = draft.table.servers[i].id;
    if (name.empty() || !group_of[name].empty()) continue;
    problems.member(Kind::group_of_servers, draft.servers[i], "server_id",
                    {in_quotes(name) + " in none", format("each server in one entry of %s", list), "add it there"});
    group_of[name] = "none";  // once
  }
  check_adjacent(draft, list, group_of);
  return out;
}

}  // namespace

void check_count(Fields& object, const char* name, size_t entries, Need need, Problems& problems) {
  const std::optional<int> count = object.number(name, 0, static_cast<int>(kMaxRanksOfTable), need);
  if (!count || static_cast<size_t>(*count) == entries) return;
  problems.member(Kind::wrong_count, object.object(), name,
                  {std::to_string(*count), format("%zu, as many as are listed", entries),
                   "write the number of entries, or complete the list"});
}

void read_servers(Fields& root, Draft& draft) {
  RankTable& table = draft.table;
  Problems& problems = draft.problems;
  const std::vector<json::Value> servers = root.objects("server_list", Need::required, kMaxRanksOfTable);
  if (!servers.empty()) {
    check_count(root, "server_count", servers.size(), table.version == Version::v1_0 ? Need::required : Need::optional,
                problems);
  }
  const bool super_pods = table.version == Version::v1_2 && root.object().find("super_pod_list").has_value();
  size_t total = 0;
  for (const json::Value& value : servers) {
    Fields fields(value, Numbers::in_quotes, problems);
    Server server;
    server.place = value.place();
    server.id = fields.text("server_id", Need::required, 64);
    if (const auto id = value.find("server_id"); id && !server.id.empty()) check_server_id(*id, server.id, problems);
    server.host_ip = fields.address("host_ip", Need::optional);
    const std::vector<json::Value> devices = fields.objects("device", Need::required, kMaxRanksOfTable);
    total += devices.size();
    if (total > kMaxRanksOfTable) {
      problems.at(Kind::too_large, value,
                  {format("%zu devices", total), format("at most %zu", kMaxRanksOfTable), "split the table"});
      return;
    }
    for (const json::Value& device : devices) {
      server.devices.push_back(read_device(device, super_pods, static_cast<int>(server.devices.size()), problems));
    }
    server.attributes = fields.rest();
    table.servers.push_back(std::move(server));
    draft.servers.push_back(value);
    draft.devices.push_back(devices);
  }
  if (super_pods) table.super_pods = read_partition(root, "super_pod_list", "super_pod_id", draft);
  table.clusters = read_partition(root, "cluster_list", "cluster_id", draft);
}

}  // namespace hocket::rank_table
