#include <cstdlib>
#include <memory>
#include <string_view>

#include "commands.h"
#include "launch.h"
#include "perf_options.h"
#include "perf_run.h"

namespace hocket::tool {
namespace {

int run_perf(const PerfFlags& flags) {
  auto options = perf_options(flags);
  if (!options.ok()) return complain(2, options.error().text);
  if (!options->transport.empty()) setenv("HOCKET_TRANSPORT", options->transport.c_str(), 1);
  if (options->timeout_s != 0) setenv("HOCKET_TIMEOUT", std::to_string(options->timeout_s).c_str(), 1);
  if (options->np == 0) return perf_rank(*options);
  auto launched = launch_local(options->np, options->bind, [&](int) { return perf_rank(*options); });
  return launched.ok() ? *launched : complain(1, launched.error().text);
}

}  // namespace

void add_perf(CLI::App& app, int& status) {
  CLI::App* perf = app.add_subcommand("perf", "measure a collective; the flags and the table are those of nccl-tests");
  const auto flags = std::make_shared<PerfFlags>();
  add_perf_flags(*perf, *flags);
  perf->callback([flags, &status] { status = run_perf(*flags); });
}

void add_perf_program(CLI::App& app, const std::string& collective, int& status) {
  const auto flags = std::make_shared<PerfFlags>();
  flags->form = PerfForm::program;
  flags->collective = collective;
  add_perf_flags(app, *flags);
  app.callback([flags, &status] { status = run_perf(*flags); });
}

std::string perf_program(const std::string& path) {
  constexpr std::string_view kEnd = "_perf";
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name.size() <= kEnd.size() || name.compare(name.size() - kEnd.size(), kEnd.size(), kEnd) != 0) return "";
  const std::string collective = name.substr(0, name.size() - kEnd.size());
  return find_perf_collective(collective) != nullptr ? collective : "";
}

}  // namespace hocket::tool
