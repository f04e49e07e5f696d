#include "select/explain.h"

#include <algorithm>

#include "select/select.h"

namespace hocket::select {
namespace {

constexpr size_t kRunnersUp = 3;

// Whole vectors (of the larger buffer) that all ranks together read and write at least, and that all together send.
struct Least {
  uint64_t touched, sent;  // in parts of 1/n
};
Least least(Collective collective, uint64_t n) {
  switch (collective) {
    case Collective::all_reduce:
      return {2 * n * n, 2 * (n - 1) * n};
    case Collective::broadcast:
    case Collective::reduce:
      return {n * (n + 1), (n - 1) * n};
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return {n * (n + 1), (n - 1) * n};
    case Collective::all_to_all:
      return {2 * n * n, (n - 1) * n};
    case Collective::gather:
    case Collective::scatter:
      return {2 * n, n - 1};
    case Collective::barrier:
      break;
  }
  return {0, 0};
}

std::string microseconds(uint64_t ps) { return format("%.4g us", static_cast<double>(ps) / 1e6); }

}  // namespace

std::string name_of(const Ranked& r) {
  return std::string(r.planner->name) + (r.way == Way::reading ? " reading" : "");
}

uint64_t Explanation::chosen_ps() const {
  for (const Ranked& r : ranking)
    if (is_chosen(r)) return r.ps;
  return 0;
}

uint64_t lower_bound(Collective collective, const Facts& facts, const Costs& costs, uint64_t bytes) {
  const uint64_t n = facts.nranks;
  if (n == 1) return 0;
  const Least l = least(collective, n);
  const uint64_t cpus = std::min<uint64_t>(n, uint64_t{facts.cpus} * facts.machines);
  const double part = static_cast<double>(bytes) / 1024 / static_cast<double>(n * cpus);
  const bool apart = facts.hosts == facts.nranks;  // no two ranks share memory
  // A message is pushed by one step and popped by another.
  const uint64_t message = 2 * (costs.step + (apart ? costs.socket : costs.message));
  // A socket sends an input from where it is.
  const uint64_t data = apart ? 2 * l.sent * costs.socket_kib : l.touched * costs.near;
  // Calls that do not wait for one another share the wait.
  const uint64_t wait = is_rooted(collective) ? 0 : apart ? costs.wire : facts.cpus > 1 ? costs.line : costs.turn;
  return std::max(message / cpus + wait, static_cast<uint64_t>(part * static_cast<double>(data)));
}

Result<Explanation> explain(const Grounds& g, Collective collective, uint64_t bytes) {
  HKT_ASSIGN(Table table, build(g.facts, g.costs, g.algo, g.determinism));
  Explanation e;
  const Choice& choice = lookup(table, collective, bytes);
  e.chosen = choice.planner;
  e.way = choice.read ? Way::reading : Way::copying;
  for (std::string_view rest = g.algo; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    e.forced = e.forced || find_planner(collective, name) != nullptr;
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
  }
  if (has_forecast(g.facts)) {
    const bool canonical = g.determinism == HKT_DETERMINISM_R2 || g.determinism == HKT_DETERMINISM_R3;
    for (const Ranked& r : Forecast(collective, g.facts, g.costs).ranking(bytes))
      if (has_class(*r.planner, canonical)) e.ranking.push_back(r);
  }
  e.bound_ps = lower_bound(collective, g.facts, g.costs, bytes);
  return e;
}

std::string sentence(const Explanation& e) {
  std::string text = name_of({e.chosen, 0, e.way});
  if (e.forced) text += " (HOCKET_ALGO)";
  if (e.ranking.empty()) return text + ", by rule: there is no forecast for so many ranks, one, or several machines";
  text += ", predicted " + microseconds(e.chosen_ps()) + " (lower bound " + microseconds(e.bound_ps) + ")";
  size_t shown = 0;
  for (const Ranked& r : e.ranking) {
    if (e.is_chosen(r) || shown == kRunnersUp) continue;
    text += (shown++ == 0 ? "; then " : ", ") + name_of(r) + " " + microseconds(r.ps);
  }
  return text;
}

}  // namespace hocket::select
