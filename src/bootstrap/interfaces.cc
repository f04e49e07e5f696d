#include "bootstrap/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/env.h"
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
    if (address.valid()) out.push_back({i->ifa_name, address});
  }
  return out;
}

Result<std::vector<Interface>> usable_interfaces() {
  HKT_ASSIGN(const Family family, socket_family());
  HKT_ASSIGN(const std::vector<Interface> all, all_interfaces());
  const auto list = env::get("HOCKET_SOCKET_IFNAME");
  std::vector<Interface> out;
  std::vector<std::string> names;
  for (const Interface& interface : all) {
    if (std::find(names.begin(), names.end(), interface.name) == names.end()) names.push_back(interface.name);
    if (is_link_local(interface.address)) continue;
    if (family != Family::any && interface.address.family() != family) continue;
    if (list && !interface_matches(*list, interface.name)) continue;
    out.push_back(interface);
  }
  const auto remote = [](const Interface& i) { return !i.address.is_loopback(); };
  if (!list && std::any_of(out.begin(), out.end(), remote)) {
    out.erase(std::remove_if(out.begin(), out.end(), [&](const Interface& i) { return !remote(i); }), out.end());
    std::stable_partition(out.begin(), out.end(), [](const Interface& i) { return !is_bridge(i.name); });
  }
  if (out.empty()) {
    std::string seen;
    for (const std::string& name : names) seen += (seen.empty() ? "" : ", ") + name;
    return error(
        hktInvalidUsage,
        "no network interface is left by HOCKET_SOCKET_IFNAME=%s and HOCKET_SOCKET_FAMILY=%s: this host has %s",
        in_quotes(list.value_or("")).c_str(), env::get("HOCKET_SOCKET_FAMILY").value_or("auto").c_str(),
        seen.empty() ? "none that is up" : seen.c_str());
  }
  return out;
}

}  // namespace hocket
