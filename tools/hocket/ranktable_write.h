// Rank tables as text: of any format, from any format.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bootstrap/rank_table/rank_table.h"

namespace hocket::tool {

struct Written {
  std::string text;
  // What the format has no place for, a sentence each.
  std::vector<std::string> lost;
};

// Of a valid table. `version` is not template 2.
Result<Written> write_table(const rank_table::RankTable& table, rank_table::Version version);

}  // namespace hocket::tool
