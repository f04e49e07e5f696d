#include <unistd.h>

#include <cstdio>

#include "commands.h"
#include "select/tune_file.h"
#include "tune_run.h"

namespace hocket::tool {
namespace {

constexpr uint32_t kTries = 1200;

void say(const std::string& text) {
  std::fprintf(stderr, isatty(STDERR_FILENO) != 0 ? "\r\033[K%s" : "%s\n", text.c_str());
  std::fflush(stderr);
}

struct TuneFlags {
  bool dry_run = false, quick = false, machine = false;
};

Status run_tune(const TuneFlags& f) {
  const std::string path = select::tune_path();
  if (f.machine) {
    std::printf("%s\n%s\n", select::machine_key().c_str(), path.c_str());
    return {};
  }
  if (path.empty() && !f.dry_run)
    return error(hktInvalidUsage, "there is no folder for the result: set XDG_CACHE_HOME or HOME");
  std::vector<select::Timing> timings;
  for (const TuneGroup& group : tune_groups(f.quick)) {
    say(format("measuring %d ranks over %s", group.np, group.tcp ? "TCP" : "shared memory"));
    HKT_ASSIGN(const std::vector<select::Timing> more, time_group(group));
    timings.insert(timings.end(), more.begin(), more.end());
  }
  const double before = select::misfit(timings, {});
  const auto progress = [&](uint32_t tried, double misfit) {
    if (tried % 50 == 0) say(format("fitting: %u of %u, misfit %.4f", tried, kTries, misfit));
  };
  const select::Costs costs = select::fit(timings, {}, f.quick ? kTries / 8 : kTries, progress);
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
  if (!f.dry_run) HKT_TRY(select::write_tune(path, costs));
  std::printf("%s\n%zu plans timed; misfit %.3f, with the defaults %.3f\n", select::machine_key().c_str(),
              timings.size(), select::misfit(timings, costs), before);
  for (const select::CostField& c : select::kCostFields)
    std::printf("  %-12s %12llu  default %12llu\n", c.name, static_cast<unsigned long long>(costs.*c.field),
                static_cast<unsigned long long>(select::Costs{}.*c.field));
  std::printf("%s%s\n", f.dry_run ? "not written" : "written to ", f.dry_run ? "" : path.c_str());
  return {};
}

}  // namespace

void add_tune(CLI::App& app, int& status) {
  CLI::App* tune = app.add_subcommand(
      "tune",
      "measure what things cost on this machine, for the choice of plans; takes a minute, nothing else should run");
  const auto f = std::make_shared<TuneFlags>();
  tune->add_flag("--dry-run", f->dry_run, "print the costs, write nothing");
  tune->add_flag("--quick", f->quick, "fewer ranks, sizes and tries: seconds, and less to rely on");
  tune->add_flag("--machine", f->machine, "print what the costs hold for and their file, and measure nothing");
  tune->callback([f, &status] {
    const Status s = run_tune(*f);
    status = s.ok() ? 0 : complain(s.error().code == hktInvalidUsage ? 2 : 1, s.error().text);
  });
}

}  // namespace hocket::tool
