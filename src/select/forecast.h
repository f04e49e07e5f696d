// Forecast: how long every planner of a collective would take, for every size: predict.h at a few sizes, straight lines
// between them; more bytes never take less. Immutable once made; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/catalog.h"
#include "select/facts.h"

namespace hocket::select {

// Whether the model is asked at all. It knows the CPUs of one machine, but no network between machines; and predicting
// takes as long as there are messages, which for many ranks is too long for a first call.
bool has_forecast(const Facts& facts);

struct Ranked {
  const CatalogEntry* planner = nullptr;
  uint64_t ps = 0;
  Way way = Way::copying;
};

class Forecast {
 public:
  // has_forecast(facts); planners that cannot serve the facts are not in it.
  Forecast(Collective collective, const Facts& facts, const Costs& costs);
  // The planners, each with the ways that its messages can go, and how long they take for so many bytes: the fastest
  // first, equal ones in the catalog's order.
  std::vector<Ranked> ranking(uint64_t bytes) const;

 private:
  struct Curve {
    const CatalogEntry* planner;
    Way way;
    std::vector<uint64_t> ps;  // by sample
  };
  std::vector<Curve> curves_;
};

}  // namespace hocket::select
