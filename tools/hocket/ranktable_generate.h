// A rank table for hosts and their devices.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bootstrap/rank_table/rank_table.h"
#include "host_list.h"

namespace hocket::tool {

struct GenerateOptions {
  std::vector<HostSlots> hosts;   // empty: this machine
  std::string devices;            // "8", "0-7", "[0,8)", "0,2,5"; "": as many as a host has slots, or hccn has
  std::vector<std::string> hccn;  // "FILE", for several hosts "HOST=FILE"
  bool probe = true;              // refuse hosts that do not answer
};

// Ids in the order given.
Result<std::vector<int>> parse_devices(const std::string& text);
// The lines "address_N=IP" of an hccn.conf, as (N, IP).
Result<std::vector<std::pair<int, std::string>>> read_hccn(const std::string& path);

Result<rank_table::RankTable> generate(const GenerateOptions& options);

}  // namespace hocket::tool
