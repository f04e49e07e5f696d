// Template 2, the older format without a version: one group of pods with devices; ranks in the order of the file.
#include <map>

#include "base/text.h"
#include "bootstrap/rank_table/formats.h"
#include "bootstrap/rank_table/read.h"

namespace hocket::rank_table {
namespace {

constexpr const char* kWorld = "hccl_world_group";

class Groups {
 public:
  explicit Groups(Draft& draft) : draft_(draft) {}

  void pod(const json::Value& value) {
    Problems& problems = draft_.problems;
    Fields fields(value, Numbers::in_quotes, problems);
    const std::string id = fields.text("server_id", Need::required, 64);
    // Several pods may share a server.
    const auto [at, added] = server_of_.emplace(id, draft_.table.servers.size());
    if (added) {
      Server server;
      server.id = id;
      server.place = value.place();
      draft_.table.servers.push_back(std::move(server));
      draft_.servers.push_back(value);
      draft_.devices.emplace_back();
    }
    Server& server = draft_.table.servers[at->second];
    for (const json::Value& entry : fields.objects("devices", Need::required, kMaxRanksOfTable)) {
      Fields device(entry, Numbers::in_quotes, problems);
      Device out;
      out.place = entry.place();
      out.rank = static_cast<int>(rank_++);
      out.local = static_cast<int>(server.devices.size());
      out.id = device.number("device_id", 0, 65535, Need::required).value_or(-1);
      out.ip = device.address("device_ip", Need::optional);
      out.attributes = device.rest();
      server.devices.push_back(std::move(out));
      draft_.devices[at->second].push_back(entry);
    }
    if (added) server.attributes = fields.rest();
  }

  size_t ranks() const { return rank_; }

 private:
  Draft& draft_;
  std::map<std::string, size_t> server_of_;
  size_t rank_ = 0;
};

}  // namespace

void read_groups(Fields& root, Draft& draft) {
  Problems& problems = draft.problems;
  const std::vector<json::Value> groups = root.objects("group_list", Need::required, kMaxRanksOfTable);
  if (groups.empty()) return;
  check_count(root, "group_count", groups.size(), Need::required, problems);
  if (groups.size() > 1) {
    problems.at(Kind::bad_value, groups[1],
                {format("%zu groups", groups.size()), "one, which has all ranks",
                 "make communicators of some ranks with hktCommSplit instead"});
  }
  Fields group(groups[0], Numbers::in_quotes, problems);
  const std::string name = group.text("group_name", Need::required, 128);
  if (!name.empty() && name != kWorld) {
    problems.member(Kind::bad_value, groups[0], "group_name",
                    {in_quotes(name), std::string("\"") + kWorld + "\"", "give the group of all ranks"});
  }
  const std::vector<json::Value> pods = group.objects("instance_list", Need::required, kMaxRanksOfTable);
  if (pods.empty()) return;
  check_count(group, "instance_count", pods.size(), Need::required, problems);
  Groups ranks(draft);
  for (const json::Value& pod : pods) ranks.pod(pod);
  check_count(group, "device_count", ranks.ranks(), Need::required, problems);
}

}  // namespace hocket::rank_table
