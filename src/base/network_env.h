// Settings of sockets from the environment: Hocket's own variables, else those that HCCL and NCCL have for the same.
// Own ones win; two foreign ones that differ are an error that shows both. A foreign one that is used is said at INFO.
// Read at each call, at bring-up only. Any thread, provided nobody calls setenv at the same time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/socket.h"

namespace hocket {

struct Sourced {
  std::string value;
  std::string name;  // of the variable
};

// HOCKET_SOCKET_IFNAME, HCCL_SOCKET_IFNAME, NCCL_SOCKET_IFNAME.
Result<std::optional<Sourced>> interface_list();
// HCCL_IF_IP, unless HOCKET_SOCKET_IFNAME is set: the one address to be reached at.
Result<std::optional<Sourced>> host_address();

struct PortRanges {
  std::vector<std::pair<uint16_t, uint16_t>> ranges;  // first to last; none: any free port
  std::string origin;                                 // "HOCKET_PORT_RANGE=60000-60050"

  size_t size() const;             // ports
  uint16_t port(size_t at) const;  // at < size()
};
// HOCKET_PORT_RANGE or HCCL_HOST_SOCKET_PORT_RANGE ("60000-60050,60100", "auto"), else 32 ports from HCCL_IF_BASE_PORT;
// of the variables that `lookup` knows: a value, nothing if unset or empty.
using Lookup = std::function<std::optional<std::string>(const char* name)>;
Result<PortRanges> port_ranges(const Lookup& lookup);
Result<PortRanges> port_ranges();  // of this process
// Each of `ranks` ranks of a host listens at a port of its own, and they meet at one more: hktInvalidUsage with both
// numbers if there are fewer ports.
Status check_enough(const PortRanges& ports, size_t ranks);
// "60000-60050,60100"; nothing if it does not parse.
std::optional<std::vector<std::pair<uint16_t, uint16_t>>> parse_port_ranges(std::string_view text);
// The ports that the system takes for outgoing connections (ip_local_port_range, without ip_local_reserved_ports): any
// connection may hold one of them when a job wants to listen there.
class OutgoingPorts {
 public:
  static OutgoingPorts read();
  bool has(uint16_t port) const;
  std::string text() const;  // "32768-60999"

 private:
  uint16_t first_ = 1, last_ = 0;
  std::vector<std::pair<uint16_t, uint16_t>> reserved_;
};

// A socket that listens at `where`, whose port is ignored, at the first free port of port_ranges(). hktInvalidUsage if
// all are taken: the text has the range and the fix.
Result<Fd> listen_in_range(const Address& where);

}  // namespace hocket
