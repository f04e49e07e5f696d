// The readers of the formats, and the checks that they share. Called by parse() alone.
#pragma once

#include <vector>

#include "bootstrap/rank_table/fields.h"
#include "bootstrap/rank_table/problem.h"
#include "bootstrap/rank_table/rank_table.h"

namespace hocket::rank_table {

// A table under way, with the values that its parts were read from: what checks point at.
struct Draft {
  RankTable& table;
  Problems& problems;
  std::vector<json::Value> servers;               // as table.servers; of 2.0 and template 2 the first entry of each
  std::vector<std::vector<json::Value>> devices;  // as table.servers[i].devices
};

void read_servers(Fields& root, Draft& draft);  // 1.0, 1.2, cross-cluster
void read_ranks(Fields& root, Draft& draft);    // 2.0
void read_groups(Fields& root, Draft& draft);   // template 2

// What no entry shows alone: entries that occur twice, ranks that are missing, servers that interleave.
void check_table(const Draft& draft);
// The text of a number's field against how many entries there are.
void check_count(Fields& object, const char* name, size_t entries, Need need, Problems& problems);

}  // namespace hocket::rank_table
