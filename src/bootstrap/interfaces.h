// The network addresses of this host.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/routes.h"
#include "base/socket.h"

namespace hocket {

struct Interface {
  std::string name;
  Address address;      // port 0
  int prefix = 0;       // length of its network's prefix in bits
  bool carrier = true;  // false: nothing is at the other end
};

// The addresses to be reached at, best first: those of interfaces that are up, as HOCKET_SOCKET_IFNAME (HCCL_IF_IP,
// ...: base/network_env.h) and HOCKET_SOCKET_FAMILY allow; without HOCKET_SOCKET_IFNAME interfaces without a carrier
// and bridges of containers and virtual machines (docker*, br-*, virbr*, veth*) come last, loopback only if there is
// nothing else. IPv6 link-local addresses are left out. Never empty: hktInvalidUsage if the variables leave nothing,
// with the interfaces there are.
Result<std::vector<Interface>> usable_interfaces();

// What is special about an address, for people: why it is left out or comes last. "" if nothing is.
std::string remark(const Interface& interface);

// The same as networks, for ways_to().
std::vector<Net> networks(const std::vector<Interface>& interfaces);
// Whether connections may come from addresses of usable_interfaces() alone, because somebody chose them.
Result<Bound> source_rule();

// Every address of this host, of any interface. For the question "is this one of mine?".
Result<std::vector<Interface>> all_interfaces();

// Does `name` match the list of HOCKET_SOCKET_IFNAME: "eth,ib" begins so; "=eth0" is exactly so; a leading ^ turns the
// whole list round, as in "^docker,lo" and "^=eth0".
bool interface_matches(const std::string& list, const std::string& name);

}  // namespace hocket
