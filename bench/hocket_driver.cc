// Measures Hocket through its C ABI with the loop of peers/measure.h, exactly as peers/mpi_driver.c measures an MPI:
//   hocket_bench_driver --np N [--pin 0,1] [--transport auto|shm|tcp|netns] [--memory private|registered]
//                       [--algos auto,ring,...]
// starts N ranks that find each other through files in a fresh directory, then serves commands from standard input.
// With --algos it has a communicator for each of the values of HOCKET_ALGO ("auto": none): they are the variants of a
// command, and comparing them compares nothing else, for the processes are the same.
#include <hocket/hocket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "peers/measure.h"
#include "peers/ranks.h"

namespace {

struct Options {
  int ranks = 0;
  std::string transport = "auto";
  bool registered = false;
  std::string algos = "auto";
  rk_pins pins = {};
  rk_hosts hosts = {};  // with --transport netns: TCP between network namespaces
};

struct Job {
  Options options;
  hb_control* control;
  std::string directory;  // of the rendezvous file
};

bool succeeded(hktResult_t result, const char* what) {
  if (result == hktSuccess) return true;
  std::fprintf(stderr, "bench: %s: %s: %s\n", what, hktGetErrorString(result), hktGetLastError());
  return false;
}

// The communicators of a rank, the one whose turn it is, and the memory registered with it.
struct Served {
  struct Memory {
    void* at;
    hktRegistration_t registration;
  };
  std::vector<hktComm_t> variants;
  hktComm_t now = nullptr;
  std::vector<Memory> memory;
};
Served& served_by(void* context) { return *static_cast<Served*>(context); }
hktComm_t comm_of(void* context) { return served_by(context).now; }

void* allocate(void* context, size_t bytes) {
  Served& served = served_by(context);
  Served::Memory made = {};
  if (!succeeded(hktMemAlloc(&made.at, bytes), "hktMemAlloc")) return nullptr;
  if (!succeeded(hktCommRegister(served.now, made.at, bytes, &made.registration), "hktCommRegister")) return nullptr;
  served.memory.push_back(made);
  return made.at;
}

void release(void* context, void* memory) {
  Served& served = served_by(context);
  for (size_t i = 0; i < served.memory.size(); ++i) {
    if (served.memory[i].at != memory) continue;
    if (succeeded(hktCommDeregister(served.now, served.memory[i].registration), "hktCommDeregister"))
      succeeded(hktMemFree(memory), "hktMemFree");
    served.memory.erase(served.memory.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

int prepare(void* context, const hb_command* command) {
  Served& served = served_by(context);
  const auto variant = static_cast<size_t>(command->variant);
  if (variant >= served.variants.size()) {
    std::fprintf(stderr, "bench: there is no variant %zu: --algos has %zu\n", variant, served.variants.size());
    return 1;
  }
  served.now = served.variants[variant];
  return 0;
}

int all_reduce(void* context, const float* in, float* out, size_t count) {
  return succeeded(hktAllReduce(in, out, count, hktFloat32, hktSum, comm_of(context), nullptr), "hktAllReduce") ? 0 : 1;
}

int broadcast(void* context, float* data, size_t count) {
  return succeeded(hktBroadcast(data, data, count, hktFloat32, 0, comm_of(context), nullptr), "hktBroadcast") ? 0 : 1;
}

int blocks(void* context, hb_collective collective, const float* in, float* out, size_t count) {
  hktComm_t comm = comm_of(context);
  switch (collective) {
    case HB_ALL_GATHER:
      return succeeded(hktAllGather(in, out, count, hktFloat32, comm, nullptr), "hktAllGather") ? 0 : 1;
    case HB_REDUCE_SCATTER:
      return succeeded(hktReduceScatter(in, out, count, hktFloat32, hktSum, comm, nullptr), "hktReduceScatter") ? 0 : 1;
    default:
      return succeeded(hktAllToAll(in, out, count, hktFloat32, comm, nullptr), "hktAllToAll") ? 0 : 1;
  }
}

int barrier(void* context) { return succeeded(hktBarrier(comm_of(context), nullptr), "hktBarrier") ? 0 : 1; }

int run_rank(int rank, void* context) {
  const Job& job = *static_cast<Job*>(context);
  const int ranks = job.options.ranks;
  const rk_hosts& hosts = job.options.hosts;
  if (rk_enter_host(&hosts, rank) != 0) return 1;
  if (hosts.count != 0) setenv("HOCKET_HOST_ID", hosts.names[rank % hosts.count], 1);
  Served served = {};
  for (std::string_view rest = job.options.algos; !rest.empty();) {
    const std::string algo(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(algo.size() + 1, rest.size()));
    setenv("HOCKET_ALGO", algo == "auto" ? "" : algo.c_str(), 1);
    const std::string url = "file://" + job.directory + "/" + algo + "?rank=" + std::to_string(rank) +
                            "&world_size=" + std::to_string(ranks);
    hktConfig_t config = HKT_CONFIG_INITIALIZER;
    config.transport = job.options.transport.c_str();
    if (!succeeded(hktCommInitUrl(&served.now, url.c_str(), &config), "hktCommInitUrl")) return 1;
    served.variants.push_back(served.now);
  }

  hb_rank self = hb_attach(job.control, rank, ranks, rk_usable_cpus(&job.options.pins));
  hb_ops ops = {&served, all_reduce, broadcast, barrier, prepare, nullptr, blocks, nullptr, nullptr};
  if (job.options.registered) {
    ops.allocate = allocate;
    ops.release = release;
  }
  int version = 0;
  hktGetVersion(&version);
  const std::string library = "Hocket " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
                              "." + std::to_string(version % 100);
  const int status = hb_serve(&self, &ops, library.c_str());
  if (status != 0) return status;
  for (const hktComm_t comm : served.variants)
    if (!succeeded(hktCommDestroy(comm), "hktCommDestroy")) return 1;
  return 0;
}

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--np") {
      options->ranks = std::atoi(argv[i + 1]);
    } else if (flag == "--pin") {
      if (rk_parse_pins(argv[i + 1], &options->pins) != 0) return false;
    } else if (flag == "--transport") {
      options->transport = argv[i + 1];
      if (options->transport == "netns") {
        options->transport = "tcp";
        if (rk_find_hosts(&options->hosts) != 0) return false;
      }
    } else if (flag == "--memory") {
      const std::string_view memory = argv[i + 1];
      if (memory != "private" && memory != "registered") return false;
      options->registered = memory == "registered";
    } else if (flag == "--algos") {
      options->algos = argv[i + 1];
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && !options->algos.empty() && options->ranks >= 1 && options->ranks <= HB_MAX_RANKS;
}

}  // namespace

int main(int argc, char** argv) {
  Job job = {};
  if (!parse(argc, argv, &job.options)) {
    std::fprintf(
        stderr,
        "usage: %s --np 1..%d [--pin CPU,CPU...] [--transport auto|shm|tcp|netns] [--memory private|registered] "
        "[--algos LIST]\n",
        argv[0], HB_MAX_RANKS);
    return 2;
  }
  char directory[] = "/tmp/hocket-bench-XXXXXX";
  if (mkdtemp(directory) == nullptr) {
    std::perror("bench: mkdtemp /tmp/hocket-bench-XXXXXX");
    return 1;
  }
  job.directory = directory;
  void* shared = mmap(nullptr, sizeof(hb_control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("bench: mmap");
    return 1;
  }
  job.control = static_cast<hb_control*>(shared);
  const int status = rk_run(job.options.ranks, &job.options.pins, run_rank, &job);
  std::error_code ignored;  // the directory may be gone already; a leftover in /tmp harms nobody
  std::filesystem::remove_all(job.directory, ignored);
  return status;
}
