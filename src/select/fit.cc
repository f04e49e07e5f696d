#include "select/fit.h"

#include <algorithm>
#include <cmath>

#include "select/predict.h"

namespace hocket::select {
namespace {

constexpr double kAbsolute = 0.15;  // how much the level of a row counts, beside the differences in it
constexpr double kPrior = 0.002;    // how much it counts that costs are other than at the start
constexpr double kRegret = 0.3;     // how much it counts what the choice that the costs lead to loses

// The generator splitmix64, by Steele, Lea and Flood: the same everywhere, which those of <random> are not.
class Dice {
 public:
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // About normal, of variance 1: the sum of twelve.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(next() >> 11) * 0x1p-53;
    return sum;
  }

 private:
  uint64_t state_ = 1;
};

bool same_row(const Timing& a, const Timing& b) {
  const Facts &f = a.facts, &g = b.facts;
  return a.planner->collective == b.planner->collective && a.bytes == b.bytes && f.nranks == g.nranks &&
         f.hosts == g.hosts && f.cpus == g.cpus && f.machines == g.machines;
}

// Of timings[first] to timings[end - 1], the planners for one call. Those far behind the best one count little: what
// makes them slow need not be understood.
double misfit_of_row(const std::vector<Timing>& timings, size_t first, size_t end, const Costs& costs) {
  double best = timings[first].us, soonest = HUGE_VAL, chosen = 0, weights = 0, mean = 0;
  for (size_t i = first; i < end; ++i) best = std::min(best, timings[i].us);
  std::vector<double> off(end - first), weight(end - first);
  for (size_t i = first; i < end; ++i) {
    const Timing& t = timings[i];
    const Result<Predictor> p = Predictor::make(*t.planner, t.facts, costs);
    const double us = p.ok() ? static_cast<double>(p.value().ps(t.bytes)) / 1e6 : HUGE_VAL;
    if (us < soonest) {
      soonest = us;
      chosen = t.us;
    }
    off[i - first] = std::log(std::max(us, 1e-6) / t.us);
    weight[i - first] = std::exp(-(t.us / best - 1) / 0.7);
    weights += weight[i - first];
    mean += weight[i - first] * off[i - first];
  }
  mean /= weights;
  double sum = kAbsolute * mean * mean;
  for (size_t i = 0; i < off.size(); ++i) sum += weight[i] / weights * (off[i] - mean) * (off[i] - mean);
  const double regret = std::log(chosen / best);
  return sum + kRegret * regret * regret;
}

}  // namespace

double misfit(const std::vector<Timing>& timings, const Costs& costs) {
  double sum = 0;
  uint32_t rows = 0;
  for (size_t first = 0, end = 0; first < timings.size(); first = end, ++rows) {
    while (end < timings.size() && same_row(timings[first], timings[end])) ++end;
    sum += misfit_of_row(timings, first, end, costs);
  }
  return rows == 0 ? 0 : std::sqrt(sum / rows);
}

Costs fit(const std::vector<Timing>& timings, const Costs& start, uint32_t tries,
          const std::function<void(uint32_t, double)>& progress) {
  // Costs hang together in ways that leave no valley to follow: random steps of some of them at once, smaller when they
  // lead nowhere.
  Dice dice;
  Costs best = start;
  // What the timings say little about stays near the start, but for what all costs have in common: another clock.
  const auto measure = [&](const Costs& costs) {
    double sum = 0, squares = 0;
    for (const CostField& f : kCostFields) {
      const double off = std::log(static_cast<double>(costs.*f.field) / static_cast<double>(start.*f.field));
      sum += off;
      squares += off * off;
    }
    const double m = misfit(timings, costs), n = kCostFields.size();
    return std::sqrt(m * m + kPrior * (squares - sum * sum / n) / n);
  };
  double least = measure(best), stride = 0.3;
  for (uint32_t tried = 0; tried < tries; ++tried) {
    Costs next = best;
    for (const CostField& f : kCostFields) {
      if (dice.next() % 3 != 0) continue;
      const double value = static_cast<double>(best.*f.field) * std::exp(stride * dice.normal());
      next.*f.field = static_cast<uint64_t>(std::clamp(value, 1.0, static_cast<double>(kMostCost)));
    }
    const double now = measure(next);
    stride = now < least ? std::min(0.6, stride * 1.3) : std::max(0.02, stride * 0.99);
    if (now < least) {
      least = now;
      best = next;
    }
    if (progress) progress(tried + 1, least);
  }
  return best;
}

}  // namespace hocket::select
