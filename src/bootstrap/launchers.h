// Which launcher started this process, and what it says: rank, size, place among the ranks of its host, and where its
// ranks can meet. From the environment alone: nothing is opened or connected. Any thread.
//
// Several launchers may have left their variables (mpirun inside a Slurm job inside a pod). The innermost counts:
// torchrun or RANK and WORLD_SIZE > Horovod > msrun > Open MPI, PMI > Slurm > Kubernetes. Two variables of one launcher
// that disagree are an error, which shows both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/socket.h"
#include "bootstrap/setting.h"

namespace hocket {

// Where the ranks of a job meet when it is no URL.
// A TCPStore that torchrun's agent serves. Keys survive a restart of the workers: `job` holds run id and restart count.
struct TorchPlace {
  HostPort store;
  std::string job;
};
// The process manager of MPICH, Intel MPI, or Slurm's of the same protocol, at a descriptor or a port.
struct PmiPlace {
  int fd = -1;
  HostPort server;  // if fd is -1
  int id = 0;       // of this process, for the server
};
struct PmixPlace {};
// Horovod's HTTP key-value server.
struct HorovodPlace {
  HostPort server;
};
// Nobody says where rank 0 is, but that it is on one of these hosts and listens on one of these ports.
struct SearchPlace {
  std::vector<std::string> hosts;  // the likeliest first
  std::vector<uint16_t> ports;
  uint64_t nonce = 0;  // tells jobs apart
  std::string job;     // for messages: "Slurm step 12.0"
};
using MeetingPlace =
    std::variant<std::monostate, std::string, TorchPlace, PmiPlace, PmixPlace, HorovodPlace, SearchPlace>;

// The "launcher" of who sets RANK and WORLD_SIZE itself.
constexpr const char* kPlainEnvironment = "RANK and WORLD_SIZE";

struct Claim {
  std::string launcher;      // "Slurm"
  Number rank;               // -1: only its server knows (PMI_PORT, PMIx)
  Number nranks;             // the same
  int local_rank = -1;       // -1: unknown
  bool counts_pods = false;  // rank and size are those of Kubernetes' pods
  MeetingPlace place;        // monostate: it offers none; a string is a URL
  std::string story;         // for the log: who was taken, and who was not
};

// The innermost launcher's claim, nothing if this process was started by none.
Result<std::optional<Claim>> find_launcher(const Environment& environment);

// "n1,gpu[01-03,7]" is n1, gpu01, gpu02, gpu03, gpu7: Slurm's form of lists of hosts. At most kMaxRanks names.
Result<std::vector<std::string>> expand_host_list(std::string_view list);
// "8(x2),4" is 8, 8, 4: Slurm's form of tasks per node.
Result<std::vector<int>> expand_task_counts(std::string_view list);

}  // namespace hocket
