// What `hocket tune` measures: every planner of the collectives that matter most, at few sizes, with few and many ranks
// of this machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "select/fit.h"

namespace hocket::tool {

// What is measured with one number of ranks over one transport.
struct TuneGroup {
  int np;
  bool tcp;
  std::vector<uint64_t> sizes;
};
std::vector<TuneGroup> tune_groups(bool quick);

// Starts the ranks, CPU by CPU in turns, and times all plans of the group. The caller has no thread yet.
Result<std::vector<select::Timing>> time_group(const TuneGroup& group);

}  // namespace hocket::tool
