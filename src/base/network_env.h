// Settings of sockets from the environment: Hocket's own variables, else those that HCCL and NCCL have for the same.
// Own ones win; two foreign ones that differ are an error that shows both. A foreign one that is used is said at INFO.
// Read at each call, at bring-up only. Any thread, provided nobody calls setenv at the same time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
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
};
// HOCKET_PORT_RANGE or HCCL_HOST_SOCKET_PORT_RANGE ("60000-60050,60100", "auto"), else 32 ports from HCCL_IF_BASE_PORT.
Result<PortRanges> port_ranges();
// "60000-60050,60100"; nothing if it does not parse.
std::optional<std::vector<std::pair<uint16_t, uint16_t>>> parse_port_ranges(std::string_view text);

// A socket that listens at `where`, whose port is ignored, at the first free port of port_ranges(). hktInvalidUsage if
// all are taken: the text has the range and the fix.
Result<Fd> listen_in_range(const Address& where);

}  // namespace hocket
