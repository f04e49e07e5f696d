// One rank's part of a benchmark: runs every size, times it, checks the data, and reports on rank 0.
#pragma once

#include "hocket/hocket.h"
#include "perf_options.h"

namespace hocket::tool {

// Exit status: 0 good, 1 wrong data or a failed call.
int perf_rank(const PerfOptions& options);

}  // namespace hocket::tool
