// What `hocket doctor` makes of a rank table.
#pragma once

#include <string>
#include <vector>

#include "doctor.h"
#include "table_hosts.h"

namespace hocket::tool {

struct TableView {
  std::vector<TableHost> hosts;  // none if the table has errors
  std::string digest;            // of what it means: "" the same
};

// The table itself, this host's place in it, and the port where its ranks meet.
TableView look_at_table(const std::string& path, std::vector<Finding>& out);

}  // namespace hocket::tool
