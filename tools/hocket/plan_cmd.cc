#include <algorithm>
#include <cstdio>

#include "algorithms/catalog.h"
#include "commands.h"
#include "plan_lookup.h"
#include "schedule/lower.h"
#include "schedule/text.h"
#include "schedule/verify.h"

namespace hocket::tool {
namespace {

// Of a plan that reduces; the classes are those of docs/determinism.md.
const char* determinism(const DataReport& data) {
  if (data.canonical) return "R3: the canonical fold, whatever the size, the placement and the transport";
  if (data.chunk_identical) return "R1: the same bits on all ranks; one fold for all sizes, but not the canonical one";
  if (data.rank_identical) return "R1: the same bits on all ranks";
  return "none: results may differ in rounding from rank to rank";
}

Status verify_plan(const PlanChoice& choice) {
  HKT_ASSIGN(const Plan plan, make_plan(choice));
  HKT_TRY(validate(plan));
  HKT_ASSIGN(const DataReport data, verify_data(plan));
  HKT_ASSIGN(const Lowering lowering, lower(plan, {}));
  for (const Placement placement : {Placement::out_of_place, Placement::in_place})
    HKT_TRY(verify_races(plan, lowering, placement));
  uint64_t messages = 0, blocks = 0;
  for (const RankPlan& r : plan.ranks) {
    messages = std::max<uint64_t>(messages, r.cost.messages);
    blocks = std::max<uint64_t>(blocks, r.cost.blocks);
  }
  std::printf("%s %s, %u ranks: proven, in place and out of place\n", collective_name(plan.info.collective),
              plan.info.name.c_str(), plan.info.nranks);
  std::printf("  every result is made of just what it has to be made of, once; every message is received\n");
  if (reduces(plan.info.collective)) {
    std::printf("  determinism: %s\n", determinism(data));
    std::printf("  operands in the order of ranks: %s\n", data.order_is_rank ? "yes" : "no");
  }
  std::printf("  no race and no deadlock with %u slots per link, credit every %u\n", lowering.depth,
              lowering.ack_batch);
  std::printf("  steps per round, all ranks: %llu; a rank sends at most %llu messages, %llu blocks%s\n",
              static_cast<unsigned long long>(data.steps), static_cast<unsigned long long>(messages),
              static_cast<unsigned long long>(blocks),
              layout(plan.info.collective) == Layout::blocks ? "" : format(" of 1/%u", plan.info.chunks[1]).c_str());
  return {};
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  CLI::App* plan = app.add_subcommand("plan", "list, print or prove plans");
  plan->require_subcommand(1);
  plan->add_subcommand("list", "the planners")->callback([&status] {
    for (const CatalogEntry& e : catalog())
      std::printf("%-14s  %-18s  %s\n", collective_name(e.collective), e.name, e.summary);
    status = 0;
  });
  const auto choice = std::make_shared<PlanChoice>();
  CLI::App* show = plan->add_subcommand("show", "print every step");
  add_plan_choice(*show, *choice);
  show->callback([choice, &status] {
    const auto made = make_plan(*choice);
    if (!made.ok()) {
      status = complain(2, made.error().text);
      return;
    }
    std::fputs(to_text(made.value()).c_str(), stdout);
    status = 0;
  });
  CLI::App* verify = plan->add_subcommand("verify", "prove that it is right");
  add_plan_choice(*verify, *choice);
  verify->callback([choice, &status] {
    const Status s = verify_plan(*choice);
    status = s.ok() ? 0 : complain(s.error().code == hktInvalidArgument ? 2 : 1, s.error().text);
  });
}

void add_plan_choice(CLI::App& app, PlanChoice& choice) {
  app.add_option("name", choice.name, "the planner; `hocket plan list` shows all")->required();
  app.add_option("-c,--collective", choice.collective,
                 "whose planner, if several have one of this name; default: the first that `hocket plan list` shows");
  app.add_option("--np", choice.np, "number of ranks")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("-r,--root", choice.root, "root, for the collectives that have one")->capture_default_str();
}

Result<const CatalogEntry*> find_choice(const PlanChoice& choice) {
  std::vector<std::string> known;
  std::vector<std::string> collectives;
  for (uint32_t c = 0; c < kCollectives; ++c) collectives.emplace_back(collective_name(static_cast<Collective>(c)));
  if (!choice.collective.empty() && std::count(collectives.begin(), collectives.end(), choice.collective) == 0)
    return error(hktInvalidArgument, "--collective: unknown collective '%s'%s", choice.collective.c_str(),
                 did_you_mean(choice.collective, collectives).c_str());
  for (const CatalogEntry& e : catalog()) {
    if (!choice.collective.empty() && choice.collective != collective_name(e.collective)) continue;
    if (std::count(known.begin(), known.end(), e.name) == 0) known.emplace_back(e.name);
    if (choice.name != e.name) continue;
    if (choice.np > e.max_ranks)
      return error(hktInvalidArgument, "%s serves at most %u ranks; --np is %u", e.name, e.max_ranks, choice.np);
    if (choice.root >= choice.np)
      return error(hktInvalidArgument, "--root %u must be less than --np %u", choice.root, choice.np);
    return &e;
  }
  std::string all;
  for (const std::string& k : known) all += (all.empty() ? "" : ", ") + k;
  return error(hktInvalidArgument, "unknown planner '%s'%s; known: %s", choice.name.c_str(),
               did_you_mean(choice.name, known).c_str(), all.c_str());
}

Result<Plan> make_plan(const PlanChoice& choice) {
  HKT_ASSIGN(const CatalogEntry* entry, find_choice(choice));
  return entry->plan(choice.np, entry->rooted ? choice.root : 0);
}

}  // namespace hocket::tool
