// Whether processes of a test can read one another's memory, as ranks do (transport/cma.h).
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "transport/cma.h"

namespace hocket::test {

// Where Yama lets only ancestors read: this process, and those it forks, may be read by all of their user.
inline void let_all_read() { (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); }

// False where a seccomp filter, such as a container's, denies it. Calls let_all_read().
inline bool can_read_processes() {
  let_all_read();
  static constexpr uint64_t kNumber = 4711;
  const pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  const bool good = pid > 0 && try_reading({pid, reinterpret_cast<uint64_t>(&kNumber), kNumber}).ok();
  if (pid > 0) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  return good;
}

}  // namespace hocket::test
