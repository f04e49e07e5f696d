/* Forks the ranks of a driver on this host, pins them and waits for them. Plain C (C11 and C++20), Linux. */
#ifndef HOCKET_BENCH_RANKS_H
#define HOCKET_BENCH_RANKS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RK_MAX = 64 };

/* Which CPU each rank is bound to: rank r on cpus[r % count]; count 0 leaves the ranks unbound. */
typedef struct {
  int cpus[RK_MAX];
  int count;
} rk_pins;

/* Parses "0,1,4"; an empty text means unbound. 0, or 1 and a line on stderr. */
static inline int rk_parse_pins(const char* text, rk_pins* pins) {
  pins->count = 0;
  const char* at = text;
  while (*at != '\0') {
    char* end = NULL;
    const long cpu = strtol(at, &end, 10);
    if (end == at || (*end != ',' && *end != '\0') || cpu < 0 || cpu >= CPU_SETSIZE || pins->count == RK_MAX) {
      fprintf(stderr, "bench: --pin %s: expected CPU numbers separated by commas, for example 0,1\n", text);
      return 1;
    }
    pins->cpus[pins->count++] = (int)cpu;
    at = *end == ',' ? end + 1 : end;
  }
  return 0;
}

/* The network namespaces that stand for hosts, as tests/tools/with-netns.sh makes them: rank r is on host r % count. */
typedef struct {
  char names[RK_MAX][16];
  struct in_addr addresses[RK_MAX];
  int count;
} rk_hosts;

/* From NETNS and NETNS_ADDRS, which that script sets. 0, or 1 and a line on stderr. */
static inline int rk_find_hosts(rk_hosts* hosts) {
  const char* names = getenv("NETNS");
  const char* addresses = getenv("NETNS_ADDRS");
  int used = 0, skipped = 0;
  char address[32];
  hosts->count = 0;
  while (names != NULL && addresses != NULL && hosts->count < RK_MAX &&
         sscanf(names, " %15s%n", hosts->names[hosts->count], &used) == 1 &&
         sscanf(addresses, " %31s%n", address, &skipped) == 1 &&
         inet_pton(AF_INET, address, &hosts->addresses[hosts->count]) == 1) {
    names += used;
    addresses += skipped;
    hosts->count++;
  }
  if (hosts->count != 0) return 0;
  fprintf(stderr, "bench: no hosts: start it within tests/tools/with-netns.sh, which sets NETNS and NETNS_ADDRS\n");
  return 1;
}

/* This thread's further sockets are those of the host of a rank; without hosts nothing changes. 0, or 1 and a line on
 * stderr. */
static inline int rk_enter_host(const rk_hosts* hosts, int rank) {
  if (hosts->count == 0) return 0;
  const char* name = hosts->names[rank % hosts->count];
  char path[64];
  snprintf(path, sizeof(path), "/run/netns/%s", name);
  const int ns = open(path, O_RDONLY | O_CLOEXEC);
  const int entered = ns < 0 ? -1 : setns(ns, CLONE_NEWNET);
  if (entered != 0) fprintf(stderr, "bench: cannot enter the network namespace %s: %s\n", path, strerror(errno));
  if (ns >= 0) close(ns);
  return entered != 0;
}

/* How many CPUs ranks placed like this can use together. */
static inline int rk_usable_cpus(const rk_pins* pins) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (pins->count == 0) return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  for (int i = 0; i < pins->count; i++) CPU_SET((size_t)pins->cpus[i], &set);
  return CPU_COUNT(&set);
}

static inline int rk_become_rank(int rank, pid_t parent, const rk_pins* pins) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return 1; /* the parent died before prctl */
  if (rank != 0) {
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0) return 1;
    close(null);
  }
  if (pins->count > 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)pins->cpus[rank % pins->count], &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
      fprintf(stderr, "bench: cannot bind rank %d to CPU %d: %s\n", rank, pins->cpus[rank % pins->count],
              strerror(errno));
      return 1;
    }
  }
  return 0;
}

/* Runs body(rank, context) in `n` forked processes; rank 0 keeps standard input. 0 when every body returned 0. As soon
 * as one fails or dies the others are killed; they die with this process too. */
static inline int rk_run(int n, const rk_pins* pins, int (*body)(int rank, void* context), void* context) {
  pid_t pids[RK_MAX];
  const pid_t parent = getpid();
  int started = 0, bad = 0, left = 0;
  fflush(NULL);
  for (; started < n && !bad; started++) {
    pids[started] = fork();
    if (pids[started] == 0) {
      int status = rk_become_rank(started, parent, pins);
      if (status == 0) status = body(started, context);
      fflush(NULL);
      _exit(status == 0 ? 0 : 1);
    }
    if (pids[started] < 0) {
      fprintf(stderr, "bench: fork: %s\n", strerror(errno));
      bad = 1;
      break;
    }
  }
  for (left = started; left > 0;) {
    int status = 0;
    if (bad) {
      for (int i = 0; i < started; i++) {
        if (pids[i] > 0) kill(pids[i], SIGKILL);
      }
    }
    const pid_t gone = waitpid(-1, &status, 0);
    if (gone < 0 && errno == EINTR) continue;
    if (gone < 0) return 1;
    for (int i = 0; i < started; i++) {
      if (pids[i] != gone) continue;
      pids[i] = 0;
      left--;
      if (!bad && WIFSIGNALED(status)) fprintf(stderr, "bench: rank %d died of signal %d\n", i, WTERMSIG(status));
      bad |= !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
  }
  return bad;
}

#endif
