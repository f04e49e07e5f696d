#include "fuzz/rank_table_target.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "bootstrap/rank_table/agree.h"
#include "bootstrap/rank_table/read.h"

namespace hocket::rank_table {
namespace {

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace

void try_text(const std::string& text) {
  const Reading reading = parse(text, "fuzzed.json");
  json::Place last;
  for (const Problem& problem : reading.problems.list()) {
    const std::string line = problem.text();
    require(line.find_first_of("\n\r") == std::string::npos, "a problem has more than one line");
    require(problem.place.line >= last.line, "problems are not in the order of the file");
    last = problem.place;
  }
  require(reading.problems.list().size() <= Problems::kMost, "too many problems were kept");
  if (reading.initializing || reading.problems.errors() > 0) return;
  const RankTable& table = reading.table;
  require(table.size() > 0, "a valid table without ranks");
  for (int rank = 0; rank < table.size() && rank < 100; ++rank) {  // find() looks at all
    const std::optional<RankTable::Member> member = table.find(rank);
    require(member.has_value(), "a valid table without one of its ranks");
    if (member) (void)host_address(*member);
  }
  require(share(table)->digest != 0, "a digest of 0");
}

}  // namespace hocket::rank_table
