#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "bootstrap/rank_table/formats.h"

namespace hocket::rank_table {
namespace {

class Checks {
 public:
  explicit Checks(const Draft& draft) : draft_(draft), table_(draft.table), problems_(draft.problems) {}

  void run() {
    servers();
    devices();
    if (ranks()) interleaving();
  }

 private:
  bool has_servers() const { return table_.version == Version::v1_0 || table_.version == Version::v1_2; }

  static json::Place place(const json::Value& object, const char* name) {
    const std::optional<json::Value> member = object.find(name);
    return member ? member->place() : object.place();
  }

  // "line 12": where the entry that was there first stands.
  static std::string line(json::Place place) { return format("line %u", place.line); }

  void servers() {
    std::map<std::string, json::Place> seen;
    const bool many = table_.servers.size() > 1;
    for (size_t i = 0; i < table_.servers.size(); ++i) {
      const Server& server = table_.servers[i];
      const json::Value& value = draft_.servers[i];
      if (has_servers() && !server.id.empty()) {
        const auto [at, added] = seen.emplace(server.id, place(value, "server_id"));
        if (!added) {
          problems_.member(
              Kind::duplicate_server, value, "server_id",
              {in_quotes(server.id, 64) + " again", "an id of its own: it is that of the server in " + line(at->second),
               "put the devices of one server into one entry, or correct the id"});
        }
      }
      if (many && has_servers() && server.devices.size() != table_.servers[0].devices.size()) {
        problems_.member(Kind::unequal_servers, value, "device",
                         {format("%zu devices", server.devices.size()),
                          format("%zu, as the first server has", table_.servers[0].devices.size()),
                          "nothing for Hocket; other libraries want equal servers"});
      }
      if (!server.devices.empty()) address_of(server, value, many);
    }
  }

  void address_of(const Server& server, const json::Value& value, bool many) {
    const std::optional<HostAddress> address = host_address({&server, &server.devices[0], 0});
    const char* field = has_servers() && !server.host_ip.empty()             ? "host_ip"
                        : has_servers() || table_.version == Version::groups ? "server_id"
                                                                             : "level_list";
    if (!address) {
      // A broken one was reported already.
      if (problems_.errors() == 0) {
        problems_.member(
            Kind::no_host_address, value, field,
            {"no address of the host", has_servers() ? "host_ip, or an address as server_id" : "an address of the host",
             "add it: rank 0's is where the ranks meet"});
      }
    } else if (many && is_loopback(address->host)) {
      problems_.member(Kind::loopback_address, value, field,
                       {address->host, "an address that other servers can reach",
                        "write the server's address in their network (`ip addr` shows it)"});
    }
  }

  void devices() {
    std::map<std::string, json::Place> ips;
    for (size_t i = 0; i < table_.servers.size(); ++i) {
      const Server& server = table_.servers[i];
      std::map<int, json::Place> ids;
      for (size_t j = 0; j < server.devices.size(); ++j) {
        const Device& device = server.devices[j];
        const json::Value& value = draft_.devices[i][j];
        if (device.id >= 0) {
          const auto [at, added] = ids.emplace(device.id, place(value, "device_id"));
          if (!added) {
            problems_.member(
                Kind::duplicate_device, value, "device_id",
                {format("device %d of server %s again", device.id, in_quotes(server.id, 64).c_str()),
                 "each device once: it is in " + line(at->second) + " as well", "give each rank its own device"});
          }
        }
        if (!device.ip.empty()) {
          const auto [at, added] = ips.emplace(device.ip, place(value, "device_ip"));
          if (!added) {
            problems_.member(
                Kind::duplicate_device_ip, value, "device_ip",
                {device.ip + " again", "an address of its own: it is that of the device in " + line(at->second),
                 "write the device's own address"});
          }
        } else if (table_.servers.size() > 1 && table_.version != Version::v2_0 && !value.find("device_ip")) {
          problems_.member(Kind::missing_device_ip, value, "device_ip",
                           {"nothing", "the address of the device's network port, as there are several servers",
                            "nothing for ranks on CPUs; add it for devices"});
        }
      }
    }
  }

  // True if the ranks are 0 to N-1.
  bool ranks() {
    const auto n = static_cast<size_t>(table_.size());
    std::vector<bool> present(n);
    std::map<int, json::Place> seen;
    for (const Server& server : table_.servers) {
      for (const Device& device : server.devices) {
        if (device.rank < 0) return false;  // reported
        if (static_cast<size_t>(device.rank) < n) present[static_cast<size_t>(device.rank)] = true;
      }
    }
    std::vector<int> absent;
    for (size_t r = 0; r < n && absent.size() < 10; ++r) {
      if (!present[r]) absent.push_back(static_cast<int>(r));
    }
    for (size_t i = 0; i < table_.servers.size(); ++i) {
      for (size_t j = 0; j < table_.servers[i].devices.size(); ++j) {
        const Device& device = table_.servers[i].devices[j];
        const auto [at, added] = seen.emplace(device.rank, place(draft_.devices[i][j], "rank_id"));
        if (!added) {
          problems_.member(Kind::duplicate_rank, draft_.devices[i][j], "rank_id",
                           {format("rank %d again", device.rank),
                            "each rank once: it is in " + line(at->second) + " as well" +
                                (absent.empty() ? "" : ", and there is no rank " + number_list(absent)),
                            "number the ranks anew (`hocket ranktable merge` does)"});
        } else if (static_cast<size_t>(device.rank) >= n) {
          problems_.member(Kind::rank_gap, draft_.devices[i][j], "rank_id",
                           {format("rank %d of %zu", device.rank, n),
                            format("0 to %zu, without gaps: there is no rank ", n - 1) + number_list(absent),
                            "number the ranks anew (`hocket ranktable merge` does)"});
        }
      }
    }
    return absent.empty();
  }

  void interleaving() {
    if (!has_servers()) return;
    for (size_t i = 0; i < table_.servers.size(); ++i) {
      const std::vector<Device>& devices = table_.servers[i].devices;
      std::vector<int> ranks;
      for (const Device& device : devices) ranks.push_back(device.rank);
      std::sort(ranks.begin(), ranks.end());
      // The first that does not follow the one before.
      const auto gap = std::adjacent_find(ranks.begin(), ranks.end(), [](int a, int b) { return b != a + 1; });
      if (gap == ranks.end()) continue;
      const auto at = std::find_if(devices.begin(), devices.end(), [&](const Device& d) { return d.rank == gap[1]; });
      problems_.member(
          Kind::interleaved_ranks, draft_.devices[i][static_cast<size_t>(at - devices.begin())], "rank_id",
          {format("ranks %s on server %s", number_list(ranks).c_str(), in_quotes(table_.servers[i].id, 64).c_str()),
           "ranks of a server that follow one another", "number the ranks anew (`hocket ranktable merge` does)"});
    }
  }

  const Draft& draft_;
  const RankTable& table_;
  Problems& problems_;
};

}  // namespace

void check_table(const Draft& draft) { Checks(draft).run(); }

}  // namespace hocket::rank_table
