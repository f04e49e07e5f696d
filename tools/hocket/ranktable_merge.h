// Several rank tables as one.
#pragma once

#include <vector>

#include "base/result.h"
#include "bootstrap/rank_table/rank_table.h"

namespace hocket::tool {

// In the order given, with ranks numbered anew: those of a server follow one another, in the order they had; servers of
// one table are in the order of their lowest ranks. All tables have one version. Numbers of ranks in them need not be
// right; what else is wrong stays wrong.
Result<rank_table::RankTable> merge(std::vector<rank_table::RankTable> tables);

}  // namespace hocket::tool
