#include "select/forecast.h"

#include <algorithm>

#include "algorithms/zero_copy.h"
#include "select/predict.h"

namespace hocket::select {
namespace {

constexpr uint32_t kMostRanks = 16;
// 16 bytes to 64 MiB, each four times the one before.
constexpr uint32_t kSamples = 12;
constexpr uint64_t sample_bytes(uint32_t i) { return uint64_t{16} << (2 * i); }

// On the straight line through two samples; beyond the last one it goes on.
uint64_t on_line(const std::vector<uint64_t>& ps, uint64_t bytes) {
  if (bytes <= sample_bytes(0)) return ps[0];
  uint32_t i = 0;
  while (i + 2 < kSamples && bytes > sample_bytes(i + 1)) ++i;
  const uint64_t low = sample_bytes(i), span = sample_bytes(i + 1) - low;
  const uint64_t rise = ps[i + 1] - ps[i];
  // Nothing here overflows: a rise is divided before it is multiplied, in units of the smallest span.
  const uint64_t unit = span / 16, whole = (bytes - low) / span, part = (bytes - low) % span / 16;
  if (rise != 0 && whole > (Predictor::kNever - ps[i]) / rise - 1) return Predictor::kNever;
  return ps[i] + whole * rise + rise / unit * part + rise % unit * part / unit;
}

}  // namespace

bool has_forecast(const Facts& facts) {
  return !facts.registered && facts.machines == 1 && facts.nranks > 1 && facts.nranks <= kMostRanks;
}

Forecast::Forecast(Collective collective, const Facts& facts, const Costs& costs) {
  for (const CatalogEntry& e : catalog()) {
    if (e.collective != collective || facts.nranks > e.max_ranks) continue;
    for (const Way way : {Way::copying, Way::reading}) {
      if (way == Way::reading && (!facts.readable || reading(collective, e.name) == nullptr)) continue;
      const Result<Predictor> predictor = Predictor::make(e, facts, costs, way);
      if (!predictor.ok()) continue;  // its messages do not fit into slots
      Curve curve{&e, way, {}};
      for (uint32_t i = 0; i < kSamples; ++i)
        curve.ps.push_back(std::max(i == 0 ? 0 : curve.ps.back(), predictor.value().ps(sample_bytes(i))));
      if (std::count(curve.ps.begin(), curve.ps.end(), Predictor::kNever) == 0) curves_.push_back(std::move(curve));
    }
  }
}

std::vector<Ranked> Forecast::ranking(uint64_t bytes) const {
  std::vector<Ranked> all;
  for (const Curve& c : curves_) all.push_back({c.planner, on_line(c.ps, bytes), c.way});
  std::stable_sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) { return a.ps < b.ps; });
  return all;
}

}  // namespace hocket::select
