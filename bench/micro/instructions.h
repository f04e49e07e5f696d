// Counts instructions of the calling thread in user mode, where the system lets it (perf_event_open(2)).
#pragma once

#include <benchmark/benchmark.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace hocket::bench {

class Instructions {
 public:
  Instructions() {
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_HARDWARE;
    attr.config = PERF_COUNT_HW_INSTRUCTIONS;
    attr.disabled = 1;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    fd_ = static_cast<int>(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
    if (fd_ < 0) why_not_ = errno;
  }
  ~Instructions() {
    if (fd_ >= 0) close(fd_);
  }
  Instructions(const Instructions&) = delete;
  Instructions& operator=(const Instructions&) = delete;

  // 0: they are counted. Else the errno that says why not.
  int why_not() const { return why_not_; }
  // Around the loop of a benchmark; the counter "instructions" is per iteration.
  void start() const {
    if (fd_ >= 0) ioctl(fd_, PERF_EVENT_IOC_ENABLE, 0);
  }
  void stop(benchmark::State& state) const {
    if (fd_ < 0) return;
    ioctl(fd_, PERF_EVENT_IOC_DISABLE, 0);
    uint64_t count = 0;
    if (read(fd_, &count, sizeof count) == sizeof count)
      state.counters["instructions"] =
          benchmark::Counter(static_cast<double>(count), benchmark::Counter::kAvgIterations);
  }

 private:
  int fd_ = -1;
  int why_not_ = 0;
};

// Runs the loop of a benchmark: `body` once per iteration.
template <class Body>
void measure(benchmark::State& state, const Body& body) {
  const Instructions instructions;
  instructions.start();
  for (auto _ : state) body();
  instructions.stop(state);
}

}  // namespace hocket::bench
