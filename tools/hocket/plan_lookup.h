// Which plan a subcommand is about.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "algorithms/catalog.h"
#include "base/result.h"

namespace hocket::tool {

struct PlanChoice {
  std::string name;
  std::string collective;  // empty: the first of the catalogue that has a planner of this name
  uint32_t np = 4;
  uint32_t root = 0;
};

void add_plan_choice(CLI::App& app, PlanChoice& choice);
// hktInvalidArgument: there is no such planner (the text lists them), or the root is out of range.
Result<const CatalogEntry*> find_choice(const PlanChoice& choice);
Result<Plan> make_plan(const PlanChoice& choice);

}  // namespace hocket::tool
