// A rank table from a file or a text, with everything that is wrong with it. The file is hostile: see json.h.
#pragma once

#include <string>

#include "bootstrap/rank_table/problem.h"
#include "bootstrap/rank_table/rank_table.h"

namespace hocket::rank_table {

constexpr size_t kMaxRanksOfTable = size_t{1} << 16;

struct Reading {
  explicit Reading(const std::string& file) : problems(file) { table.file = file; }
  RankTable table;  // good if there are no errors and it is not initializing, else as much as could be read
  // Whoever fills the file has not finished: status is "initializing", and the rest was not looked at.
  bool initializing = false;
  Problems problems;  // in the order of the file
};

// Opens and reads once; never waits. A symbolic link is refused.
Reading read_file(const std::string& path);
// `file` is the name in messages.
Reading parse(std::string text, const std::string& file);

}  // namespace hocket::rank_table
