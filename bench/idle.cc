// hocket-idle: what ranks cost that wait for a late one, in percent of a CPU. Every way of waiting over every
// transport, all at the same time, because none of them should take any.
//   hocket-idle [--seconds N] [--json FILE]     status 1: one takes more than 0.1 %
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "hocket/hocket.h"

namespace {

constexpr int kRanks = 3;
constexpr double kMost = 0.1;  // percent

struct Place {
  const char* name;
  const char* transport;
  int apart;  // ranks from this one on are on another host
};
constexpr Place kPlaces[] = {{"shm", "shm", kRanks}, {"tcp", "tcp", kRanks}, {"shm and tcp", "auto", 2}};

// What a rank does until the late one has come; false: a call has failed. `twin` is a second communicator.
struct Form {
  const char* name;
  bool thread;  // HOCKET_PROGRESS=thread
  bool (*wait)(hktComm_t comm, hktComm_t twin, double seconds);
};

hktResult_t start(hktComm_t comm, float* x, hktRequest_t* request) {
  hktCallOptions_t options = HKT_CALL_OPTIONS_INITIALIZER;
  options.request = request;
  return hktAllReduce(x, x, 1, hktFloat32, hktSum, comm, &options);
}

void nap(double seconds) {
  const timespec t{static_cast<time_t>(seconds),
                   static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  nanosleep(&t, nullptr);
}

bool blocking(hktComm_t comm, hktComm_t, double) { return hktBarrier(comm, nullptr) == hktSuccess; }

// Waits for one of two that are outstanding on two communicators.
bool requests(hktComm_t comm, hktComm_t twin, double) {
  std::array<hktRequest_t, 2> r{};
  std::array<float, 2> x{};
  bool good = start(comm, &x[0], &r[0]) == hktSuccess && start(twin, &x[1], &r[1]) == hktSuccess;
  good = good && hktRequestWait(&r[0]) == hktSuccess;
  return good && hktRequestWait(&r[1]) == hktSuccess;
}

// Computes, as it were, while the progress thread waits.
bool outstanding(hktComm_t comm, hktComm_t, double seconds) {
  hktRequest_t r = nullptr;
  float x = 1;
  if (start(comm, &x, &r) != hktSuccess) return false;
  nap(seconds);
  return hktRequestWait(&r) == hktSuccess;
}

bool nothing(hktComm_t comm, hktComm_t, double seconds) {
  nap(seconds);
  return hktBarrier(comm, nullptr) == hktSuccess;
}

constexpr Form kForms[] = {{"a call", false, blocking},
                           {"requests of two communicators", false, requests},
                           {"a request, by the progress thread", true, outstanding},
                           {"nothing, beside the progress thread", true, nothing}};

double cpu_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

// The percentage, to `out`; the late rank's is -1.
int run_rank(const Place& place, const Form& form, const std::string& url, int rank, double seconds, int out) {
  setenv("HOCKET_PROGRESS", form.thread ? "thread" : "caller", 1);
  setenv("HOCKET_HOST_ID", rank < place.apart ? "here" : "there", 1);
  hktConfig_t config = HKT_CONFIG_INITIALIZER;
  config.transport = place.transport;
  hktComm_t comm = nullptr, twin = nullptr;
  bool good =
      hktCommInitUrl(&comm, (url + "?rank=" + std::to_string(rank) + "&world_size=" + std::to_string(kRanks)).c_str(),
                     &config) == hktSuccess &&
      hktCommDup(comm, &twin, nullptr) == hktSuccess && hktBarrier(comm, nullptr) == hktSuccess &&
      hktBarrier(twin, nullptr) == hktSuccess;
  const double before = cpu_seconds();
  if (good && rank == 0) nap(seconds);
  // A thread that the late rank finds asleep shall not be measured while it runs for it.
  good = good && form.wait(comm, twin, rank == 0 ? 0 : seconds * 0.9);
  const double percent = rank == 0 ? -1 : (cpu_seconds() - before) / seconds * 100;
  if (!good) std::fprintf(stderr, "hocket-idle: rank %d: %s\n", rank, hktGetLastError());
  good = write(out, &percent, sizeof percent) == sizeof percent && good;
  (void)hktCommDestroy(twin);
  (void)hktCommDestroy(comm);
  return good ? 0 : 1;
}

struct Case {
  const Place* place;
  const Form* form;
  std::array<int, kRanks> pipes;
  double percent = 0;  // the most of any rank
};

}  // namespace

int main(int argc, char** argv) {
  double seconds = 10;
  const char* json = nullptr;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && std::strcmp(argv[i], "--seconds") == 0 && std::atof(argv[i + 1]) > 0) {
      seconds = std::atof(argv[i + 1]);
    } else if (i + 1 < argc && std::strcmp(argv[i], "--json") == 0) {
      json = argv[i + 1];
    } else {
      std::fprintf(stderr, "usage: hocket-idle [--seconds N] [--json FILE]\n");
      return 2;
    }
  }
  char folder[] = "/tmp/hocket-idle.XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    std::perror("hocket-idle: mkdtemp");
    return 1;
  }
  std::vector<Case> cases;
  std::vector<pid_t> pids;
  bool good = true;
  for (const Place& place : kPlaces) {
    for (const Form& form : kForms) {
      Case& c = cases.emplace_back(Case{&place, &form, {}, 0});
      const std::string url = "file://" + std::string(folder) + "/" + std::to_string(cases.size());
      for (int rank = 0; rank < kRanks; ++rank) {
        std::array<int, 2> ends{};
        if (pipe(ends.data()) != 0) {
          std::perror("hocket-idle: pipe");
          return 1;
        }
        const pid_t pid = fork();
        if (pid == 0) _exit(run_rank(place, form, url, rank, seconds, ends[1]));
        pids.push_back(pid);
        close(ends[1]);
        c.pipes[static_cast<size_t>(rank)] = ends[0];
      }
    }
  }
  for (Case& c : cases) {
    for (const int pipe : c.pipes) {
      double percent = 0;
      good = read(pipe, &percent, sizeof percent) == sizeof percent && good;
      c.percent = std::max(c.percent, percent);
    }
    std::printf("%-12s %-36s %7.4f %% of a CPU\n", c.place->name, c.form->name, c.percent);
    good = good && c.percent <= kMost;
  }
  for (const pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    good = good && status == 0;
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (json == nullptr) return good ? 0 : 1;
  std::FILE* const file = std::fopen(json, "w");
  if (file == nullptr) {
    std::fprintf(stderr, "hocket-idle: --json %s: %s\n", json, std::strerror(errno));
    return 1;
  }
  const char* before = "[\n";
  for (const Case& c : cases) {
    std::fprintf(file,
                 "%s  {\"transport\": \"%s\", \"waits for\": \"%s\", \"seconds\": %g, \"percent_of_a_cpu\": %.4f}",
                 before, c.place->name, c.form->name, seconds, c.percent);
    before = ",\n";
  }
  std::fprintf(file, "\n]\n");
  return std::fclose(file) == 0 && good ? 0 : 1;
}
