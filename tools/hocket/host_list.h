// The hosts of an allocation, as schedulers and MPI launchers write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bootstrap/identity.h"

namespace hocket::tool {

struct HostSlots {
  std::string host;
  int slots = 0;  // ranks; 0: not said
};

// Whether a text can be a host's name or address: nothing that a program could take for an option, or a shell for more.
bool is_host_name(std::string_view text);

// "a:4,b:2", "a,b", "[fd00::1]:4".
Result<std::vector<HostSlots>> parse_hosts(std::string_view text);
// A file with a host per line: "a", "a:4", "a slots=4"; a host that comes again has one slot more.
Result<std::vector<HostSlots>> read_hostfile(const std::string& path);

// Of the step or job this process is in.
Result<std::vector<HostSlots>> slurm_hosts(const Environment& environment);
// From the file of hosts that Hydra, Open MPI or PBS name.
Result<std::vector<HostSlots>> mpi_hosts(const Environment& environment);

}  // namespace hocket::tool
