#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "commands.h"
#include "launch.h"
#include "perf_options.h"
#include "perf_run.h"

namespace hocket::tool {

void add_perf(CLI::App& app, int& status) {
  CLI::App* perf = app.add_subcommand("perf", "measure a collective; the flags and the table are those of nccl-tests");
  const auto flags = std::make_shared<PerfFlags>();
  add_perf_flags(*perf, *flags);
  perf->callback([flags, perf, &status] {
    auto options = perf_options(*perf, *flags);
    if (!options.ok()) {
      status = complain(2, options.error().text);
      return;
    }
    if (!options->transport.empty()) setenv("HOCKET_TRANSPORT", options->transport.c_str(), 1);
    if (options->np == 0) {
      status = perf_rank(*options);
      return;
    }
    auto launched = launch_local(options->np, options->bind, [&](int) { return perf_rank(*options); });
    status = launched.ok() ? *launched : complain(1, launched.error().text);
  });
}

}  // namespace hocket::tool
