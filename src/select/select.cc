#include "select/select.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/zero_copy.h"
#include "schedule/collective.h"
#include "schedule/shape.h"
#include "select/forecast.h"

namespace hocket::select {
namespace {

constexpr uint64_t KiB = 1024, MiB = 1024 * KiB;
constexpr uint64_t kTells = 33;           // the forecast tells times apart that differ by a 33rd, 3 %
constexpr uint64_t kReadGain = 2;         // reading has to take half the time: its costs are the least certain ones
constexpr uint64_t kLearnFrom = 1 * KiB;  // below, a message is a line or a few, which are better in the cache

// The rules for where there is no forecast, which also decide between planners that it takes for equal. Their reasons
// are in docs/tuning.md.
const char* all_reduce_planner(const Facts& f, uint64_t bytes) {
  if (f.nranks == 1) return "ring";
  if (f.hosts == 1) {
    // On shared memory every pair of ranks is one hop: flat plans have the fewest waits, and few waits are what counts
    // when ranks share CPUs. One-shot reads n inputs, two-shot twice one; two-shot waits twice. Many ranks that share
    // CPUs are better off with few links, whose slots stay in the cache from one rank's turn to the next.
    // Of registered memory it copies nothing, if messages are not too small for that.
    if (f.registered && f.nranks <= 16 && bytes >= (f.nranks == 2 ? 8 * KiB : 32 * KiB)) return "two_shot";
    const uint64_t one_shot = f.nranks == 2 ? 32 * KiB : 16 * KiB / f.nranks;
    if (bytes <= one_shot && f.nranks <= 16) return "one_shot";
    if (f.nranks == 4 && f.oversubscribed && bytes <= 8 * MiB) return "circulant";  // 4 messages per rank, not 6
    if (f.nranks > 4 && f.nranks <= 16 && f.oversubscribed && bytes > 128 * KiB)
      return bytes <= 8 * MiB ? "double_tree" : "ring";
    if (f.nranks <= 16) return "two_shot";
    if (bytes <= 32 * KiB) return "recursive_doubling";
    return bytes <= 2 * MiB ? "double_tree" : "ring";
  }
  // Two ranks send each other as much in one shot as in two, and an input is sent from where it is.
  if (f.nranks == 2) return "one_shot";
  if (bytes <= 32 * KiB) return "recursive_doubling";
  if (f.nranks <= 4) return "two_shot";
  return f.nranks >= 16 && bytes <= 4 * MiB ? "double_tree" : "ring";
}

const char* broadcast_planner(const Facts& f, uint64_t bytes) {
  // A chain moves every byte once per rank but needs enough rounds to fill it; a binomial tree's root sends log n
  // copies.
  if (f.oversubscribed && f.hosts == 1) return f.nranks > 4 && bytes >= 256 * KiB ? "chain" : "binomial";
  const uint64_t filled = uint64_t{f.slot_bytes} * f.nranks;
  return f.nranks > 2 && bytes >= filled ? "chain" : "binomial";
}

// Flat plans where all ranks share memory, few hops for small data, and what sends each byte once for large data.
const char* other_planner(const Facts& f, Collective collective, uint64_t bytes) {
  const bool small = bytes <= 64 * KiB, flat = f.hosts == 1 && f.nranks <= 16;
  // Ranks that take turns on a CPU are better off with one link each way, whose slots stay in the cache.
  const bool turns = f.oversubscribed && f.nranks > 2 && bytes >= 64 * KiB;
  switch (collective) {
    case Collective::reduce:
      return flat && small ? "flat" : small || f.nranks == 2 ? "binomial" : "chain";
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return flat && !turns ? "direct" : small && !flat ? "circulant" : "ring";
    case Collective::all_to_all:
      return flat ? "direct" : small ? "bruck" : "pairwise";
    case Collective::gather:
    case Collective::scatter:
      return flat || !small ? "flat" : "binomial";
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::barrier:
      break;
  }
  return "";
}

// Where the choice for operations in general is none for those that are not commutative, or for a determinism class.
// They fold canonically.
const char* in_rank_order_planner(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "two_shot";
    case Collective::reduce:
      return "flat";
    case Collective::reduce_scatter:
      return "direct";
    default:
      return "";
  }
}

// Whether slots have a line for each block of a planner's messages.
bool fits(const Facts& f, const CatalogEntry& planner) {
  return planner.info(f.nranks, 0).message_blocks <= f.slot_bytes / kChunkAlign;
}

// Where the choice does not fold canonically but has to. One hop fewer is worth larger messages if they are small; so
// are, over a network, log n messages in place of n - 1.
const CatalogEntry* canonical_planner(const Facts& f, Collective collective, uint64_t bytes) {
  if (collective != Collective::all_reduce || bytes > 4 * KiB)
    return find_planner(collective, in_rank_order_planner(collective));
  const CatalogEntry* const gather = find_planner(collective, "gather_reduce");
  return f.hosts > 1 && f.nranks >= 7 && fits(f, *gather) ? gather : find_planner(collective, "one_shot");
}

Choice choose(const Facts& f, Collective collective, uint64_t bytes, bool canonical) {
  Choice c;
  const char* name = "dissemination";
  switch (collective) {
    case Collective::all_reduce:
      name = all_reduce_planner(f, bytes);
      break;
    case Collective::broadcast:
      name = broadcast_planner(f, bytes);
      break;
    case Collective::barrier:
      break;
    default:
      name = other_planner(f, collective, bytes);
      break;
  }
  c.planner = find_planner(collective, name);
  // What gathers many blocks in a message to save hops needs slots with a line for each; else with as few as can be.
  if (c.planner != nullptr && !fits(f, *c.planner))
    c.planner = find_planner(collective, other_planner(f, collective, UINT64_MAX));
  if (canonical && reduces(collective) && c.planner != nullptr && !c.planner->folds_canonically)
    c.planner = canonical_planner(f, collective, bytes);
  c.learn_stores = f.hosts < f.nranks && bytes >= kLearnFrom;
  // An output that cannot stay in the cache need not go through it.
  c.stream_out = f.cache_bytes != 0 && bytes > f.cache_bytes / 2;
  return c;
}

// Where the rules, which were measured, are known to beat the forecast: the all-reduce of two ranks, whose one shot it
// takes for a fifth slower than it is from 8 to 32 KiB.
bool rules_are_better(const Facts& f, Collective collective) {
  return f.nranks == 2 && collective == Collective::all_reduce;
}

Error not_canonical(const CatalogEntry& forced, hktDeterminism_t determinism) {
  std::string others;
  for (const CatalogEntry& e : catalog())
    if (e.collective == forced.collective && e.folds_canonically)
      others += (others.empty() ? "" : ", ") + std::string(e.name);
  return error(hktInvalidUsage,
               "HOCKET_ALGO: the bits of %s by %s depend on size and placement, which determinism R%d does not allow; "
               "these have the class: %s",
               collective_name(forced.collective), forced.name, static_cast<int>(determinism), others.c_str());
}

// The fastest of the ranking that `may` be taken and copies; `usual`, if it is not slower than that by more than the
// forecast can tell, or nothing else may.
template <class May>
const CatalogEntry* pick(const std::vector<Ranked>& ranking, const CatalogEntry* usual, May&& may) {
  uint64_t least = 0;
  const CatalogEntry* best = nullptr;
  for (const Ranked& r : ranking) {
    if (r.way != Way::copying || !may(*r.planner)) continue;
    if (best == nullptr) {
      best = r.planner;
      least = r.ps;
    }
    if (r.planner == usual && r.ps - least <= least / kTells) return usual;
  }
  return best != nullptr ? best : usual;
}

// The fastest that `may` be taken and reads, if all that copy are slower by so much that it is worth it; else null.
template <class May>
const CatalogEntry* pick_reading(const std::vector<Ranked>& ranking, May&& may) {
  const Ranked* reads = nullptr;
  for (const Ranked& r : ranking) {
    if (!may(*r.planner)) continue;
    if (r.way == Way::reading) {
      if (reads == nullptr) reads = &r;
      continue;
    }
    // The fastest of those that copy.
    return reads != nullptr && r.ps >= kReadGain * reads->ps ? reads->planner : nullptr;
  }
  return nullptr;
}

// Planners of several collectives may share a name.
bool first_of_name(const CatalogEntry& entry) {
  const auto same = [&](const CatalogEntry& e) { return std::string_view(e.name) == entry.name; };
  return &*std::find_if(catalog().begin(), catalog().end(), same) == &entry;
}

}  // namespace

Result<Table> build(const Facts& facts, const Costs& costs, std::string_view algo, hktDeterminism_t determinism) {
  // R4 has no need of it: its sums are those of integers, and what else it allows is exact as well.
  const bool canonical = determinism == HKT_DETERMINISM_R2 || determinism == HKT_DETERMINISM_R3;
  std::array<const CatalogEntry*, kCollectives> forced{};
  for (std::string_view rest = algo; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view name = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    std::string known;
    bool found = false;
    for (const CatalogEntry& e : catalog()) {
      if (first_of_name(e)) known += (known.empty() ? "" : ", ") + std::string(e.name);
      if (name != e.name) continue;
      forced[static_cast<uint32_t>(e.collective)] = &e;
      found = true;
    }
    if (!found)
      return error(hktInvalidUsage, "HOCKET_ALGO: there is no planner '%.*s'; known: %s", static_cast<int>(name.size()),
                   name.data(), known.c_str());
  }
  for (const CatalogEntry* e : forced)
    if (canonical && e != nullptr && reduces(e->collective) && !e->folds_canonically)
      return not_canonical(*e, determinism);
  Table table;
  table.facts_ = facts;
  table.costs_ = costs;
  table.canonical_ = canonical;
  table.forced_ = forced;
  return table;
}

void Table::make(Collective collective) {
  const CatalogEntry* const forced = forced_[static_cast<uint32_t>(collective)];
  std::optional<Forecast> forecast;
  const bool either_way = facts_.readable && forced != nullptr && reading(collective, forced->name) != nullptr;
  if ((forced == nullptr || either_way) && has_forecast(facts_) && !rules_are_better(facts_, collective))
    forecast.emplace(collective, facts_, costs_);
  auto row = std::make_unique<Row>();
  for (uint32_t b = 0; b < kBuckets; ++b) {
    Choice& c = (*row)[b];
    c = choose(facts_, collective, bucket_bytes(b), canonical_);
    if (forced != nullptr) c.planner = forced;
    if (forecast) {
      const std::vector<Ranked> ranking = forecast->ranking(bucket_bytes(b));
      const auto may = [&](const CatalogEntry& e) {
        return forced != nullptr ? &e == forced : has_class(e, canonical_);
      };
      const CatalogEntry* const reads = pick_reading(ranking, may);
      c.planner = reads != nullptr ? reads : pick(ranking, c.planner, may);
      c.read = reads != nullptr;
    }
    if (c.planner->folds_in_rank_order)
      c.in_rank_order = c.planner;
    else if (forced == nullptr)
      c.in_rank_order = find_planner(collective, in_rank_order_planner(collective));
  }
  rows_[static_cast<uint32_t>(collective)] = std::move(row);
}

}  // namespace hocket::select
