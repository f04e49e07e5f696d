#include "algorithms/catalog.h"

#include <array>

#include "algorithms/binomial.h"
#include "algorithms/chain.h"
#include "algorithms/dissemination.h"
#include "algorithms/double_tree.h"
#include "algorithms/one_shot.h"
#include "algorithms/recursive_doubling.h"
#include "algorithms/ring.h"
#include "algorithms/two_shot.h"

namespace hocket {
namespace {

template <class Planner>
constexpr bool kRooted = requires(Planner p) { p.root; };

template <class Planner>
Planner make(uint32_t n, uint32_t root) {
  if constexpr (kRooted<Planner>) {
    return Planner{n, root};
  } else {
    return Planner{n};
  }
}

template <class Planner>
constexpr CatalogEntry entry() {
  return {Planner::name,
          Planner::collective,
          kRooted<Planner>,
          Planner::summary,
          [](uint32_t n, uint32_t root) { return plan_info(make<Planner>(n, root)); },
          [](uint32_t n, uint32_t root, uint32_t rank) { return rank_plan(make<Planner>(n, root), rank); },
          [](uint32_t n, uint32_t root) { return full_plan(make<Planner>(n, root)); },
          Planner::max_ranks,
          [](uint32_t n, uint32_t root) -> std::unique_ptr<StepSource> {
            return std::make_unique<PlannerSource<Planner>>(make<Planner>(n, root));
          }};
}

constexpr std::array<CatalogEntry, 8> kCatalog = {
    entry<Ring>(),       entry<RecursiveDoubling>(), entry<OneShot>(), entry<TwoShot>(),
    entry<DoubleTree>(), entry<Binomial>(),          entry<Chain>(),   entry<Dissemination>(),
};

}  // namespace

std::span<const CatalogEntry> catalog() { return kCatalog; }

const CatalogEntry* find_planner(Collective collective, std::string_view name) {
  for (const CatalogEntry& e : kCatalog)
    if (e.collective == collective && name == e.name) return &e;
  return nullptr;
}

}  // namespace hocket
