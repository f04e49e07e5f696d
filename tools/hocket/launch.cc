#include "launch.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/deadline.h"
#include "commands.h"
#include "meeting_place.h"

namespace hocket::tool {
namespace {

constexpr int kGraceMs = 2000;  // between SIGTERM and SIGKILL

std::vector<int> own_cpus() {
  std::vector<int> list;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return list;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &set)) list.push_back(c);
  return list;
}

// Best effort: a rank that may not be bound runs anywhere.
void bind_to(const std::vector<int>& cpus, int rank) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[static_cast<size_t>(rank) % cpus.size()], &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}

std::string how_it_ended(int status) {
  return WIFSIGNALED(status) ? format("was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)))
                             : format("ended with status %d", WEXITSTATUS(status));
}

}  // namespace

Result<int> launch_local(int np, Bind bind, const std::function<int(int rank)>& body) {
  const std::vector<int> cpus = own_cpus();
  if (np > static_cast<int>(cpus.size()) && bind == Bind::core) bind = Bind::none;
  HKT_ASSIGN(const std::string directory, MeetingPlace::make());
  const MeetingPlace place(directory);

  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int s : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, s);
  sigprocmask(SIG_BLOCK, &signals, &before);
  const int events = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (events < 0) {
    Error e = sys_error("signalfd");
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return e;
  }

  std::vector<pid_t> pids(static_cast<size_t>(np), 0);
  const auto tell_all = [&](int signal) {
    for (const pid_t pid : pids)
      if (pid > 0) kill(pid, signal);
  };
  const pid_t parent = getpid();
  for (int rank = 0; rank < np; ++rank) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) {
      const Error e = sys_error("cannot start rank %d of %d", rank, np);
      tell_all(SIGKILL);
      for (const pid_t started : pids)
        if (started > 0) waitpid(started, nullptr, 0);
      close(events);
      sigprocmask(SIG_SETMASK, &before, nullptr);
      return e;
    }
    if (pid == 0) {
      // A child ends with its parent, even if that is killed by force.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      sigprocmask(SIG_SETMASK, &before, nullptr);
      if (bind != Bind::none && !cpus.empty()) bind_to(cpus, rank);
      setenv("RANK", std::to_string(rank).c_str(), 1);
      setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
      setenv("WORLD_SIZE", std::to_string(np).c_str(), 1);
      setenv("HOCKET_INIT", place.url().c_str(), 1);
      const int status = body(rank);
      std::fflush(nullptr);
      _exit(status);
    }
    pids[static_cast<size_t>(rank)] = pid;
  }

  int first_failure = 0, left = np;
  bool ending = false;
  Deadline kill_at = Deadline::never();
  const auto end_all = [&](int signal) {
    tell_all(signal);
    if (!ending) kill_at = Deadline::in_ms(kGraceMs);
    ending = true;
  };
  while (left > 0) {
    pollfd p{events, POLLIN, 0};
    poll(&p, 1, kill_at.left_ms(1000));
    signalfd_siginfo info;
    while (read(events, &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      if (first_failure == 0) first_failure = 128 + signal;
      end_all(signal);
    }
    int status = 0;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
      const auto at = std::find(pids.begin(), pids.end(), pid);
      if (at == pids.end()) continue;
      *at = 0;
      --left;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      if (first_failure == 0) {
        first_failure = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        (void)complain(
            1, format("rank %d %s; ending the job", static_cast<int>(at - pids.begin()), how_it_ended(status).c_str()));
      }
      // The others first get the chance to say what they know: they see the death themselves within a second.
      if (!ending) kill_at = Deadline::in_ms(kGraceMs);
      ending = true;
    }
    if (kill_at.passed()) {
      tell_all(SIGKILL);
      kill_at = Deadline::in_ms(1000);
    }
  }
  close(events);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return first_failure;
}

}  // namespace hocket::tool
