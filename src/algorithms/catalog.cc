#include "algorithms/catalog.h"

#include <array>

#include "algorithms/all_gather_direct.h"
#include "algorithms/all_gather_ring.h"
#include "algorithms/all_to_all_bruck.h"
#include "algorithms/all_to_all_direct.h"
#include "algorithms/all_to_all_pairwise.h"
#include "algorithms/binomial.h"
#include "algorithms/broadcast_circulant.h"
#include "algorithms/chain.h"
#include "algorithms/circulant.h"
#include "algorithms/dissemination.h"
#include "algorithms/double_tree.h"
#include "algorithms/gather_binomial.h"
#include "algorithms/gather_flat.h"
#include "algorithms/gather_reduce.h"
#include "algorithms/halving_doubling.h"
#include "algorithms/nhr.h"
#include "algorithms/one_shot.h"
#include "algorithms/recursive_doubling.h"
#include "algorithms/reduce_binomial.h"
#include "algorithms/reduce_chain.h"
#include "algorithms/reduce_flat.h"
#include "algorithms/reduce_scatter_direct.h"
#include "algorithms/reduce_scatter_ring.h"
#include "algorithms/ring.h"
#include "algorithms/scatter_all_gather.h"
#include "algorithms/scatter_binomial.h"
#include "algorithms/scatter_flat.h"
#include "algorithms/two_shot.h"

namespace hocket {
namespace {

template <class Planner>
constexpr bool kRooted = requires(Planner p) { p.root; };

template <class Planner>
constexpr bool kFoldsInRankOrder = requires { requires Planner::folds_in_rank_order; };

template <class Planner>
constexpr bool kFoldsCanonically = requires { requires Planner::folds_canonically; };

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
          kFoldsInRankOrder<Planner>,
          kFoldsCanonically<Planner>,
          [](uint32_t n, uint32_t root) -> std::unique_ptr<StepSource> {
            return std::make_unique<PlannerSource<Planner>>(make<Planner>(n, root));
          }};
}

// Where a planner is asked for by its name alone, the first one counts.
constexpr std::array kCatalog = {
    entry<Ring>(),
    entry<RecursiveDoubling>(),
    entry<OneShot>(),
    entry<GatherReduce>(),
    entry<TwoShot>(),
    entry<DoubleTree>(),
    entry<Circulant>(),
    entry<HalvingDoubling>(),
    entry<Swing>(),
    entry<Nhr>(),
    entry<BidirectionalRing>(),
    entry<Binomial>(),
    entry<Chain>(),
    entry<ScatterAllGather>(),
    entry<BroadcastCirculant>(),
    entry<Dissemination>(),
    entry<ReduceFlat>(),
    entry<ReduceBinomial>(),
    entry<ReduceChain>(),
    entry<AllGatherRing>(),
    entry<AllGatherDirect>(),
    entry<AllGatherCirculant>(),
    entry<AllGatherNhr>(),
    entry<AllGatherPat4>(),
    entry<AllGatherPat1>(),
    entry<ReduceScatterRing>(),
    entry<ReduceScatterDirect>(),
    entry<ReduceScatterCirculant>(),
    entry<ReduceScatterNhr>(),
    entry<ReduceScatterPat4>(),
    entry<ReduceScatterPat1>(),
    entry<AllToAllDirect>(),
    entry<AllToAllPairwise>(),
    entry<AllToAllBruck>(),
    entry<GatherFlat>(),
    entry<GatherBinomial>(),
    entry<ScatterFlat>(),
    entry<ScatterBinomial>(),
};

}  // namespace

std::span<const CatalogEntry> catalog() { return kCatalog; }

const CatalogEntry* find_planner(Collective collective, std::string_view name) {
  for (const CatalogEntry& e : kCatalog)
    if (e.collective == collective && name == e.name) return &e;
  return nullptr;
}

}  // namespace hocket
