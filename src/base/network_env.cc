#include "base/network_env.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/env.h"
#include "base/log.h"
#include "base/text.h"

namespace hocket {
namespace {

using Found = Result<std::optional<Sourced>>;

std::optional<std::string> of_this_process(const char* name) {
  if (std::string_view(name).substr(0, 7) == "HOCKET_") return env::get(name);
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

// The own variable, else the one of the others that is set.
Found first_of(const Lookup& lookup, const char* own, std::initializer_list<const char*> others) {
  if (own != nullptr) {
    if (auto value = lookup(own)) return std::optional<Sourced>({*std::move(value), own});
  }
  std::optional<Sourced> out;
  for (const char* name : others) {
    auto value = lookup(name);
    if (!value) continue;
    if (out && out->value != *value) {
      return error(hktInvalidUsage,
                   "environment variable %s is %s, but %s is %s, and both mean the same: set %s, or unset one of them",
                   out->name.c_str(), in_quotes(out->value).c_str(), name, in_quotes(*value).c_str(),
                   own == nullptr ? "one" : own);
    }
    if (!out) out = Sourced{*std::move(value), name};
  }
  if (out) HKT_INFO(env, LogId{}, "%s=%s is used", out->name.c_str(), in_quotes(out->value).c_str());
  return out;
}

std::string first_line(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

}  // namespace

Found interface_list() {
  return first_of(of_this_process, "HOCKET_SOCKET_IFNAME", {"HCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"});
}

Found host_address() {
  if (env::get("HOCKET_SOCKET_IFNAME")) return std::optional<Sourced>();
  return first_of(of_this_process, nullptr, {"HCCL_IF_IP"});
}

Result<Family> socket_family() {
  HKT_ASSIGN(const std::optional<Sourced> choice,
             first_of(of_this_process, "HOCKET_SOCKET_FAMILY", {"HCCL_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY"}));
  if (!choice) return Family::any;
  const bool own = choice->name == "HOCKET_SOCKET_FAMILY";
  if (choice->value == (own ? "ipv4" : "AF_INET")) return Family::v4;
  if (choice->value == (own ? "ipv6" : "AF_INET6")) return Family::v6;
  if (own && choice->value == "auto") return Family::any;
  return error(hktInvalidUsage, "environment variable %s is %s: set it to one of %s", choice->name.c_str(),
               in_quotes(choice->value).c_str(), own ? "auto, ipv4, ipv6" : "AF_INET, AF_INET6");
}

std::optional<std::vector<std::pair<uint16_t, uint16_t>>> parse_port_ranges(std::string_view text) {
  std::vector<std::pair<uint16_t, uint16_t>> out;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    const size_t dash = word.find('-');
    const auto first = parse_int(word.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(word.substr(dash + 1));
    if (!first || !last || *first < 1 || *last > 65535 || *last < *first) return std::nullopt;
    out.emplace_back(static_cast<uint16_t>(*first), static_cast<uint16_t>(*last));
  }
  return out;
}

size_t PortRanges::size() const {
  size_t out = 0;
  for (const auto& [first, last] : ranges) out += static_cast<size_t>(last - first) + 1;
  return out;
}

uint16_t PortRanges::port(size_t at) const {
  for (const auto& [first, last] : ranges) {
    const auto count = static_cast<size_t>(last - first) + 1;
    if (at < count) return static_cast<uint16_t>(first + at);
    at -= count;
  }
  return 0;
}

Result<PortRanges> port_ranges() { return port_ranges(of_this_process); }

Result<PortRanges> port_ranges(const Lookup& lookup) {
  HKT_ASSIGN(std::optional<Sourced> text, first_of(lookup, "HOCKET_PORT_RANGE", {"HCCL_HOST_SOCKET_PORT_RANGE"}));
  if (text && text->value == "auto") return PortRanges();
  if (text) {
    auto ranges = parse_port_ranges(text->value);
    if (!ranges) {
      return error(hktInvalidUsage, "environment variable %s is %s: set it to ports such as 60000-60050,60100, or auto",
                   text->name.c_str(), in_quotes(text->value).c_str());
    }
    return PortRanges{*std::move(ranges), text->name + "=" + text->value};
  }
  HKT_ASSIGN(const std::optional<Sourced> base, first_of(lookup, nullptr, {"HCCL_IF_BASE_PORT"}));
  if (!base) return PortRanges();
  constexpr int64_t kPorts = 32;
  const auto first = parse_int(base->value);
  if (!first || *first < 1024 || *first > 65520) {
    return error(hktInvalidUsage, "environment variable HCCL_IF_BASE_PORT is %s: set it to a port from 1024 to 65520",
                 in_quotes(base->value).c_str());
  }
  const int64_t last = std::min<int64_t>(*first + kPorts - 1, 65535);
  return PortRanges{{{static_cast<uint16_t>(*first), static_cast<uint16_t>(last)}}, base->name + "=" + base->value};
}

Status check_enough(const PortRanges& ports, size_t ranks) {
  if (ports.ranges.empty() || ports.size() > ranks) return {};
  return error(
      hktInvalidUsage,
      "%s has %zu ports, but a host with %zu ranks needs %zu: one for each, and one for the ranks to meet: give "
      "it more",
      ports.origin.c_str(), ports.size(), ranks, ranks + 1);
}

OutgoingPorts OutgoingPorts::read() {
  OutgoingPorts out;
  std::istringstream text(first_line("/proc/sys/net/ipv4/ip_local_port_range"));
  uint16_t first = 0, last = 0;
  if (text >> first >> last) {
    out.first_ = first;
    out.last_ = last;
  }
  if (auto reserved = parse_port_ranges(first_line("/proc/sys/net/ipv4/ip_local_reserved_ports")))
    out.reserved_ = *std::move(reserved);
  return out;
}

bool OutgoingPorts::has(uint16_t port) const {
  const auto holds = [&](const auto& range) { return port >= range.first && port <= range.second; };
  return port >= first_ && port <= last_ && std::none_of(reserved_.begin(), reserved_.end(), holds);
}

std::string OutgoingPorts::text() const { return std::to_string(first_) + "-" + std::to_string(last_); }

Result<Fd> listen_in_range(const Address& where) {
  HKT_ASSIGN(const PortRanges ports, port_ranges());
  Address at = where;
  if (ports.ranges.empty()) {
    at.set_port(0);
    return listen_on(at);
  }
  size_t tried = 0;
  for (const auto& range : ports.ranges) {
    for (uint32_t port = range.first; port <= range.second; ++port) {
      at.set_port(static_cast<uint16_t>(port));
      Result<Fd> fd = listen_on(at);
      if (fd || fd.error().code != hktInvalidUsage) return fd;
      ++tried;
    }
  }
  return error(
      hktInvalidUsage,
      "none of the %zu ports of %s is free on %s: another job uses them (`ss -ltnp` names it): end it, or give "
      "this job a range of its own",
      tried, ports.origin.c_str(), where.host().c_str());
}

}  // namespace hocket
