// hocket-micro: what the parts of a call cost. Flags are Google Benchmark's.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>

#include "instructions.h"
#include "kernels/reduce_cpu.h"
#include "parts.h"

namespace bench = hocket::bench;

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  bench::add_calls();
  bench::add_links();
  bench::add_kernels();
  benchmark::AddCustomContext("kernels compiled for", hocket::kernels::simd_target());
  const bench::Instructions instructions;
  benchmark::AddCustomContext(
      "instructions", instructions.why_not() == 0
                          ? "counted"
                          : std::string("not counted: perf_event_open: ") + std::strerror(instructions.why_not()));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
