// Reading another process's memory (process_vm_readv, "cross memory attach").
#pragma once

#include <sys/types.h>

#include "team.h"

namespace floors {

// False and a line on stderr when it fails.
bool cma_read(pid_t pid, float* to, const float* from, size_t count);

// Collective. Whether every rank may read every other's memory; tries it.
bool cma_works(Team& team);

}  // namespace floors
