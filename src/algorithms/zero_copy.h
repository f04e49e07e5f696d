// Which planners' messages can do without a copy into a slot, and how. Immutable; any thread.
#pragma once

#include <span>
#include <string_view>

#include "schedule/lower.h"
#include "schedule/step.h"

namespace hocket {

struct ZeroCopyPlanner {
  Collective collective;
  std::string_view name;
  ZeroCopy way;
};

std::span<const ZeroCopyPlanner> zero_copy_planners();
// Null: all its messages travel in slots.
const ZeroCopy* zero_copy(Collective collective, std::string_view name);

// The same where ranks can read one another's private memory: mapped messages are fetched, there are no direct ones.
std::span<const ZeroCopyPlanner> reading_planners();
const ZeroCopy* reading(Collective collective, std::string_view name);

}  // namespace hocket
