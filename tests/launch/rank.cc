// One rank of a job, for tests of launchers: hktCommInitEnv and an all-reduce whose result it checks, as often as
// ROUNDS says. Prints "rank R of N: good", and what its environment says of the restart.
//
//   rank [--rounds N] [--crash-rank R --crash-file F] [--hold-file F]
//
// With --hold-file all go on until F is there on every rank; "rank R of N: holds" says that they have begun.
// With --crash-rank that rank ends itself by SIGKILL before the last round, once: F tells that it has.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "hocket/hocket.h"

namespace {

int complain(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, hktGetLastError());
  return 3;
}

// One write: lines of ranks do not mix.
bool say(const char* format, int rank, int nranks, const char* more) {
  char line[128];
  const int length = std::snprintf(line, sizeof line, format, rank, nranks, more);
  return write(STDOUT_FILENO, line, static_cast<size_t>(length)) == length;
}

int hold_until(const char* file, int rank, int nranks, hktComm_t comm) {
  if (!say("rank %d of %d: holds%s\n", rank, nranks, "")) return 5;
  for (int there = 0; there == 0;) {
    usleep(20'000);
    there = access(file, F_OK) == 0 ? 1 : 0;
    if (hktAllReduce(&there, &there, 1, hktInt32, hktMin, comm, nullptr) != hktSuccess) return complain("all-reduce");
  }
  return 0;
}

int run_round(bool crash, const std::string& hold_file) {
  hktComm_t comm = nullptr;
  if (hktCommInitEnv(&comm, nullptr) != hktSuccess) return complain("init");
  int rank = -1, nranks = 0;
  if (hktCommRank(comm, &rank) != hktSuccess || hktCommCount(comm, &nranks) != hktSuccess) return complain("rank");
  int values[1000];
  for (int& v : values) v = rank + 1;
  if (crash) std::raise(SIGKILL);
  if (hktAllReduce(values, values, 1000, hktInt32, hktSum, comm, nullptr) != hktSuccess) return complain("all-reduce");
  for (const int v : values) {
    if (v == nranks * (nranks + 1) / 2) continue;
    std::fprintf(stderr, "rank %d of %d: wrong sum %d\n", rank, nranks, v);
    return 4;
  }
  if (!hold_file.empty()) {
    if (const int status = hold_until(hold_file.c_str(), rank, nranks, comm); status != 0) return status;
  }
  const char* restart = std::getenv("TORCHELASTIC_RESTART_COUNT");
  if (restart == nullptr) restart = std::getenv("HOCKET_RESTART_COUNT");
  if (!say("rank %d of %d: good, restart %s\n", rank, nranks, restart == nullptr ? "none" : restart)) return 5;
  return hktCommDestroy(comm) == hktSuccess ? 0 : complain("destroy");
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 1;
  std::string crash_rank, crash_file, hold_file;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--crash-rank") == 0) crash_rank = argv[i + 1];
    if (std::strcmp(argv[i], "--crash-file") == 0) crash_file = argv[i + 1];
    if (std::strcmp(argv[i], "--hold-file") == 0) hold_file = argv[i + 1];
  }
  for (int i = 1; i <= rounds; ++i) {
    const char* rank = std::getenv("RANK");
    bool crash = i == rounds && !crash_rank.empty() && rank != nullptr && crash_rank == rank;
    if (crash && std::ifstream(crash_file)) crash = false;
    if (crash) std::ofstream(crash_file) << "crashed\n";
    if (const int status = run_round(crash, hold_file); status != 0) return status;
  }
  return 0;
}
