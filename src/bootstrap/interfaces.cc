#include "bootstrap/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string_view>

#include "base/network_env.h"
#include "base/text.h"

namespace hocket {
namespace {

bool begins(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

bool is_link_local(const Address& address) {
  return address.family() == Family::v6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr);
}

bool is_bridge(const std::string& name) {
  return begins(name, "docker") || begins(name, "br-") || begins(name, "virbr") || begins(name, "veth");
}

// The number of ones in a netmask.
int prefix_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const bool v6 = mask->sa_family == AF_INET6;
  const auto* bytes =
      v6 ? reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr)
         : reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr);
  int ones = 0;
  for (int i = 0; i < (v6 ? 16 : 4); ++i) ones += std::popcount(bytes[i]);
  return ones;
}

Error none_left(const char* rule, const std::vector<Interface>& all) {
  std::string seen;
  std::vector<std::string> names;
  for (const Interface& i : all) {
    if (std::find(names.begin(), names.end(), i.name) != names.end()) continue;
    names.push_back(i.name);
    seen += (seen.empty() ? "" : ", ") + i.name + " (" + i.address.host() + ")";
  }
  return error(hktInvalidUsage, "no network interface is left by %s: this host has %s", rule,
               seen.empty() ? "none that is up" : seen.c_str());
}

}  // namespace

bool interface_matches(const std::string& list, const std::string& name) {
  std::string_view rest = list;
  const bool invert = begins(rest, "^");
  if (invert) rest.remove_prefix(1);
  // One '=' in front makes the whole list exact; each name may also have its own.
  const bool all_exact = begins(rest, "=");
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    const bool exact = all_exact || begins(word, "=");
    if (begins(word, "=")) word.remove_prefix(1);
    if (!word.empty() && (exact ? name == word : begins(name, word))) return !invert;
  }
  return invert;
}

Result<std::vector<Interface>> all_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return descriptor_error("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<Interface> out;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const bool v6 = i->ifa_addr->sa_family == AF_INET6;
    const Address address(i->ifa_addr, v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    if (!address.valid()) continue;
    out.push_back({i->ifa_name, address, prefix_of(i->ifa_netmask), (i->ifa_flags & IFF_RUNNING) != 0});
  }
  return out;
}

Result<std::vector<Interface>> usable_interfaces() {
  HKT_ASSIGN(const Family family, socket_family());
  HKT_ASSIGN(const std::vector<Interface> all, all_interfaces());
  HKT_ASSIGN(const std::optional<Sourced> only, host_address());
  std::optional<Sourced> list;
  if (!only) {
    HKT_ASSIGN(list, interface_list());
  }
  std::vector<Interface> out;
  for (const Interface& interface : all) {
    if (is_link_local(interface.address)) continue;
    if (family != Family::any && interface.address.family() != family) continue;
    if (only && interface.address.host() != only->value) continue;
    if (list && !interface_matches(list->value, interface.name)) continue;
    out.push_back(interface);
  }
  const auto remote = [](const Interface& i) { return !i.address.is_loopback(); };
  if (!only && !list && std::any_of(out.begin(), out.end(), remote)) {
    out.erase(std::remove_if(out.begin(), out.end(), [&](const Interface& i) { return !remote(i); }), out.end());
    std::stable_partition(out.begin(), out.end(), [](const Interface& i) { return i.carrier && !is_bridge(i.name); });
  }
  if (!out.empty()) return out;
  const char* const names = family == Family::any ? "" : family == Family::v4 ? " and IPv4 only" : " and IPv6 only";
  const std::string rule = only   ? only->name + "=" + in_quotes(only->value) + names
                           : list ? list->name + "=" + in_quotes(list->value) + names
                                  : std::string("HOCKET_SOCKET_FAMILY") + names;
  return none_left(rule.c_str(), all);
}

std::string remark(const Interface& interface) {
  if (interface.address.is_loopback()) return "loopback";
  if (is_link_local(interface.address)) return "link-local";
  if (!interface.carrier) return "no carrier";
  return is_bridge(interface.name) ? "a bridge of containers or virtual machines" : "";
}

std::vector<Net> networks(const std::vector<Interface>& interfaces) {
  std::vector<Net> out;
  for (const Interface& i : interfaces) out.push_back({i.address, i.prefix});
  return out;
}

Result<Bound> source_rule() {
  HKT_ASSIGN(const std::optional<Sourced> only, host_address());
  HKT_ASSIGN(const std::optional<Sourced> list, interface_list());
  return only || list ? Bound::always : Bound::where_it_helps;
}

}  // namespace hocket
