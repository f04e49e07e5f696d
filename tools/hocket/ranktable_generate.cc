#include "ranktable_generate.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>

#include "base/socket.h"
#include "base/text.h"
#include "bootstrap/interfaces.h"
#include "bootstrap/rank_table/read.h"
#include "probe.h"

namespace hocket::tool {
namespace {

using rank_table::Device;
using rank_table::RankTable;
using rank_table::Server;

constexpr int kMaxDevice = 65535;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool is_link_local(const Address& address) {
  return address.host().find('%') != std::string::npos || address.host().rfind("fe80:", 0) == 0;
}

// The address of a host that the others reach it at.
Result<std::string> address_of(const std::string& host, bool alone) {
  HKT_ASSIGN(const std::vector<Address> all, resolve({host, 1}, Family::any));
  std::string loopback;
  for (const Address& address : all) {
    if (is_link_local(address) || address.is_wildcard()) continue;
    if (!address.is_loopback()) return address.host();
    loopback = address.host();
  }
  if (loopback.empty())
    return error(hktInvalidUsage, "host %s has no address that others can connect to", in_quotes(host).c_str());
  // Many an /etc/hosts gives a host's own name this address.
  const bool meant = host == loopback || host == "localhost";
  if (alone && meant && loopback != "127.0.1.1") return loopback;
  return error(hktInvalidUsage,
               "host %s has only the address %s, which nobody else can reach: give its address in the network instead "
               "of its name (`ip addr` shows it), or correct /etc/hosts [loopback-address]",
               in_quotes(host).c_str(), loopback.c_str());
}

// Whether all answer, be it by refusing.
Status check_reachable(const RankTable& table) {
  HKT_ASSIGN(const std::vector<Interface> mine, all_interfaces());
  std::vector<const Server*> asked;
  std::vector<std::string> addresses;
  for (const Server& server : table.servers) {
    const auto same = [&](const Interface& i) { return i.address.host() == server.host_ip; };
    if (rank_table::is_loopback(server.host_ip) || std::any_of(mine.begin(), mine.end(), same)) continue;
    asked.push_back(&server);
    addresses.push_back(server.host_ip);
  }
  const std::vector<std::string> failures = probe(addresses);
  std::string silent;
  for (size_t i = 0; i < failures.size(); ++i) {
    if (failures[i].empty()) continue;
    silent += (silent.empty() ? "" : "; ") + asked[i]->id + " at " + addresses[i] + ": " + failures[i];
  }
  if (silent.empty()) return {};
  return error(hktRemoteError,
               "cannot reach %s: correct the addresses, or pass --no-probe if only this machine cannot reach them "
               "[no-connection]",
               silent.c_str());
}

// This machine, when no host is given.
Result<Server> this_machine() {
  HKT_ASSIGN(const std::vector<Interface> interfaces, usable_interfaces());
  Server out;
  out.host_ip = interfaces.front().address.host();
  out.id = out.host_ip;
  return out;
}

using DeviceIps = std::vector<std::pair<int, std::string>>;

// The file for a host, "" if none is given.
Result<std::string> hccn_of(const GenerateOptions& options, const std::string& host) {
  for (const std::string& entry : options.hccn) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos && options.hosts.size() > 1) {
      return error(hktInvalidArgument, "--hccn %s is for one host: with several write --hccn HOST=FILE for each",
                   in_quotes(entry).c_str());
    }
    if (equals == std::string::npos) return entry;
    if (entry.substr(0, equals) == host) return entry.substr(equals + 1);
  }
  return std::string();
}

Result<std::vector<int>> ids_of(const GenerateOptions& options, const HostSlots& host, const DeviceIps& ips) {
  std::vector<int> out;
  if (!options.devices.empty()) {
    HKT_ASSIGN(out, parse_devices(options.devices));
  } else if (!ips.empty()) {
    for (const auto& entry : ips) out.push_back(entry.first);
  } else {
    for (int i = 0; i < host.slots; ++i) out.push_back(i);
  }
  if (out.empty())
    return error(hktInvalidArgument, "host %s: how many devices? Write --devices N, or --hosts %s:N",
                 in_quotes(host.host).c_str(), host.host.c_str());
  if (host.slots > 0 && out.size() != static_cast<size_t>(host.slots)) {
    return error(hktInvalidArgument, "host %s has %d ranks and %zu devices: give as many of both",
                 in_quotes(host.host).c_str(), host.slots, out.size());
  }
  return out;
}

}  // namespace

Result<std::vector<int>> parse_devices(const std::string& text) {
  std::vector<int> out;
  const auto add = [&](std::optional<int64_t> first, std::optional<int64_t> last) {
    if (!first || !last || *first < 0 || *last > kMaxDevice) return false;
    for (int64_t i = *first; i <= *last; ++i) out.push_back(static_cast<int>(i));
    return *first <= *last;
  };
  bool good = false;
  const std::string_view whole = text;
  const size_t comma = whole.find(',');
  if (whole.size() > 2 && whole.front() == '[' && whole.back() == ')' && comma != std::string_view::npos) {
    // Half-open, as hccl_tools.py takes it.
    const auto end = parse_int(trimmed(whole.substr(comma + 1, whole.size() - comma - 2)));
    good = add(parse_int(trimmed(whole.substr(1, comma - 1))), end ? std::optional<int64_t>(*end - 1) : end);
  } else if (const auto count = parse_int(whole); count && *count >= 1) {
    good = add(0, *count - 1);
  } else {
    std::string_view rest = whole;
    good = !rest.empty();
    while (good && !rest.empty()) {
      const std::string_view word = trimmed(rest.substr(0, rest.find(',')));
      rest.remove_prefix(
          std::min(rest.size(), rest.find(',') == std::string_view::npos ? rest.size() : rest.find(',') + 1));
      const size_t dash = word.find('-');
      const auto first = parse_int(word.substr(0, dash));
      good = add(first, dash == std::string_view::npos ? first : parse_int(word.substr(dash + 1)));
    }
  }
  std::vector<int> sorted = out;
  std::sort(sorted.begin(), sorted.end());
  good = good && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  if (!good) {
    return error(hktInvalidArgument,
                 "--devices %s does not parse: write a number of devices (8), a range (0-7 or [0,8)) or a list "
                 "(0,2,5), each once",
                 in_quotes(text).c_str());
  }
  return out;
}

Result<DeviceIps> read_hccn(const std::string& path) {
  std::ifstream file(path);
  if (!file) return sys_error("cannot read %s", in_quotes(path).c_str());
  std::map<int, std::string> out;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (text.substr(0, 8) != "address_") continue;  // netmask_, gateway_ and others
    const size_t equals = text.find('=');
    const auto id = parse_int(trimmed(text.substr(8, equals == std::string_view::npos ? equals : equals - 8)));
    const std::string address(equals == std::string_view::npos ? "" : trimmed(text.substr(equals + 1)));
    if (!id || *id < 0 || *id > kMaxDevice || !rank_table::is_address(address)) {
      return error(hktInvalidUsage, "%s:%zu: %s does not parse: a line is address_N=IP", path.c_str(), number,
                   in_quotes(line).c_str());
    }
    if (!out.emplace(static_cast<int>(*id), address).second) {
      return error(hktInvalidUsage, "%s:%zu: device %lld has a second address: take one of them out", path.c_str(),
                   number, static_cast<long long>(*id));
    }
  }
  if (out.empty()) return error(hktInvalidUsage, "%s has no line address_N=IP", in_quotes(path).c_str());
  return DeviceIps(out.begin(), out.end());
}

Result<RankTable> generate(const GenerateOptions& options) {
  RankTable out;
  const bool alone = options.hosts.size() <= 1;
  std::vector<HostSlots> hosts = options.hosts;
  if (hosts.empty()) hosts.emplace_back();
  int rank = 0;
  for (HostSlots& host : hosts) {
    Server server;
    if (host.host.empty()) {
      HKT_ASSIGN(server, this_machine());
      host.host = server.id;
    } else {
      server.id = host.host;
      HKT_ASSIGN(server.host_ip, address_of(host.host, alone));
    }
    if (server.id.size() > 64) server.id = server.host_ip;  // the longest that the format takes
    DeviceIps ips;
    HKT_ASSIGN(const std::string hccn, hccn_of(options, host.host));
    if (!hccn.empty()) {
      HKT_ASSIGN(ips, read_hccn(hccn));
    }
    HKT_ASSIGN(const std::vector<int> ids, ids_of(options, host, ips));
    for (const int id : ids) {
      Device device;
      device.id = id;
      device.local = static_cast<int>(server.devices.size());
      device.rank = rank++;
      const auto ip = std::find_if(ips.begin(), ips.end(), [&](const auto& entry) { return entry.first == id; });
      if (ip != ips.end()) device.ip = ip->second;
      if (!hccn.empty() && ip == ips.end()) {
        return error(
            hktInvalidUsage,
            "%s has no line address_%d=IP for device %d: give the device an address (`hccn_tool -i %d -ip -s ...`)",
            hccn.c_str(), id, id, id);
      }
      server.devices.push_back(std::move(device));
    }
    out.servers.push_back(std::move(server));
  }
  if (static_cast<size_t>(rank) > rank_table::kMaxRanksOfTable) {
    return error(hktInvalidArgument, "these are %d ranks: a table has at most %zu", rank, rank_table::kMaxRanksOfTable);
  }
  if (options.probe) HKT_TRY(check_reachable(out));
  return out;
}

}  // namespace hocket::tool
