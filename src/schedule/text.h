// The text form of a plan, for people and for files: one line per step. docs/ir.md describes it. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "schedule/plan.h"

namespace hocket {

const char* collective_name(Collective collective);  // "all_reduce", "broadcast", ...

// Of a plan that passes validate: fields that a valid step leaves unused are not shown.
std::string to_text(const Plan& plan);
std::string to_text(const PlanInfo& info);
std::string to_text(const RankPlan& plan, uint32_t rank);
// "r2 l0 s3: v = pop 1.t0 + in[2]*pre; push 3.t0"
std::string step_text(const RankPlan& plan, uint32_t rank, uint32_t lane, uint32_t i);

// The plan that `text` describes; parse_plan(to_text(plan)) is `plan`. Checks the form only: call validate on what
// comes back. An error names line, column, what stands there and what is expected.
Result<Plan> parse_plan(std::string_view text);

}  // namespace hocket
