#include <cstdio>

#include "commands.h"
#include "perf_options.h"
#include "plan_lookup.h"
#include "schedule/collective.h"
#include "schedule/simulate.h"

namespace hocket::tool {
namespace {

struct SimFlags {
  PlanChoice plan;
  std::string bytes = "1M", slot = "128K";
  uint32_t group = 0;
  double alpha = 1, bandwidth = 10, inter_alpha = 10, inter_bandwidth = 3, reduce = 10;
};

Status simulate_plan(const SimFlags& f) {
  HKT_ASSIGN(const Plan plan, make_plan(f.plan));
  SimCall call;
  HKT_ASSIGN(call.bytes, parse_size(f.bytes, "--bytes"));
  HKT_ASSIGN(call.slot_bytes, parse_size(f.slot, "--slot"));
  // Whole elements; and where the buffer is one of blocks, as large ones as fit.
  const uint64_t unit =
      uint64_t{call.elem_size} * (layout(plan.info.collective) == Layout::blocks ? plan.info.nranks : 1);
  call.bytes = call.bytes / unit * unit;
  NetworkModel net;
  net.group = f.group;
  net.alpha_us = {f.alpha, f.inter_alpha};
  net.beta_us_per_byte = {1e-3 / f.bandwidth, 1e-3 / f.inter_bandwidth};  // 1 GB/s = 1000 bytes per us
  net.gamma_us_per_byte = 1e-3 / f.reduce;
  HKT_ASSIGN(const SimReport r, simulate(plan, net, call));
  std::printf("%s %s, %u ranks, %llu bytes: %.3f us, %u rounds\n", collective_name(plan.info.collective),
              plan.info.name.c_str(), plan.info.nranks, static_cast<unsigned long long>(call.bytes), r.time_us,
              r.rounds);
  std::printf("  within hosts  %12llu messages %16llu bytes\n", static_cast<unsigned long long>(r.messages[0]),
              static_cast<unsigned long long>(r.bytes[0]));
  std::printf("  between hosts %12llu messages %16llu bytes\n", static_cast<unsigned long long>(r.messages[1]),
              static_cast<unsigned long long>(r.bytes[1]));
  return {};
}

}  // namespace

void add_sim(CLI::App& app, int& status) {
  CLI::App* sim = app.add_subcommand("sim", "time a plan on a model of a network");
  const auto f = std::make_shared<SimFlags>();
  add_plan_choice(*sim, f->plan);
  sim->add_option("--bytes", f->bytes, "size of the (larger) buffer")->capture_default_str();
  sim->add_option("--slot", f->slot, "most bytes in a message; 0: everything in one round")->capture_default_str();
  sim->add_option("--group", f->group, "ranks per host; 0: all on one")->capture_default_str();
  sim->add_option("--alpha", f->alpha, "latency of a message, us")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sim->add_option("--bandwidth", f->bandwidth, "of a link, GB/s")->check(CLI::PositiveNumber)->capture_default_str();
  sim->add_option("--inter-alpha", f->inter_alpha, "latency between hosts, us")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sim->add_option("--inter-bandwidth", f->inter_bandwidth, "between hosts, GB/s")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sim->add_option("--reduce", f->reduce, "of the reduction, GB/s")->check(CLI::PositiveNumber)->capture_default_str();
  sim->callback([f, &status] {
    const Status s = simulate_plan(*f);
    status = s.ok() ? 0 : complain(2, s.error().text);
  });
}

}  // namespace hocket::tool
