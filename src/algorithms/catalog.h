// The explicit list of planners. Immutable; any thread.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "schedule/plan.h"
#include "schedule/step_source.h"
#include "schedule/text.h"  // collective_name

namespace hocket {

struct CatalogEntry {
  const char* name;  // "ring"
  Collective collective;
  bool rooted;          // takes a root; others ignore it
  const char* summary;  // one line: steps, bytes on the wire, when it wins
  PlanInfo (*info)(uint32_t n, uint32_t root);
  RankPlan (*rank_plan)(uint32_t n, uint32_t root, uint32_t rank);
  Plan (*plan)(uint32_t n, uint32_t root);
  uint32_t max_ranks;  // the functions here take 1 <= n <= max_ranks, root < n, rank < n
  // Operands stand in the order of ranks, whatever n and the root: right for operations that are not commutative.
  // Planners say so, and the tests prove it.
  bool folds_in_rank_order;
  // Moreover every result is the canonical fold (verify.h): determinism R2 and R3 run on these alone. Said and proven
  // in the same way.
  bool folds_canonically;
  std::unique_ptr<StepSource> (*source)(uint32_t n, uint32_t root);  // steps on demand, for many ranks
};

std::span<const CatalogEntry> catalog();
// Null if there is no such planner.
const CatalogEntry* find_planner(Collective collective, std::string_view name);

}  // namespace hocket
