// fit: the costs with which the model of predict.h explains best how long plans really took. Deterministic; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "algorithms/catalog.h"
#include "select/facts.h"

namespace hocket::select {

// A plan that was timed. Those of one collective, facts and size that follow one another are compared with one another.
struct Timing {
  const CatalogEntry* planner = nullptr;
  Facts facts;
  uint64_t bytes = 0;
  double us = 0;  // > 0
};

// How badly costs explain the timings: 0.1 is about 10 % for the planners that come into question, of which the
// differences between planners count most.
double misfit(const std::vector<Timing>& timings, const Costs& costs);

// Looks for better costs from `start` on, in so many tries. `progress` (may be empty) hears of every try.
Costs fit(const std::vector<Timing>& timings, const Costs& start, uint32_t tries,
          const std::function<void(uint32_t tried, double misfit)>& progress);

}  // namespace hocket::select
