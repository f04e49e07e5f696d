// The servers of a rank table as hosts that something can be run on.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bootstrap/rank_table/rank_table.h"

namespace hocket::tool {

struct TableHost {
  std::string name;     // for ssh: the server's address, else its id if that can be a name; "" if neither
  std::string address;  // "" if the table has none
  size_t server = 0;    // its place in the table
  std::vector<int> ranks;
  bool here = false;  // it is this machine
};

// The servers that have ranks below `nranks`, in the order of the table. A server without an address is this machine if
// it is the only one, or bears its name.
Result<std::vector<TableHost>> hosts_of(const rank_table::RankTable& table, int nranks);

// "10.0.0.1, fd00::1": what this machine has besides loopback.
Result<std::string> own_addresses();

}  // namespace hocket::tool
