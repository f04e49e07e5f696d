// Registering memory with a communicator: a call of all its ranks, so that all know from the same call on what is
// there.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "comm/communicator.h"
#include "transport/memory.h"  // allocate_shared, free_shared

namespace hocket {

// What register_memory() has made, on every rank the same. 0: none.
using Registration = uint64_t;

// Every rank gives `bytes` of its memory at `p`, or takes part with null and 0. An error of one rank is one of all, and
// nothing is registered. hktInvalidUsage: kRegions are registered already, or `p` overlaps with what is.
Result<Registration> register_memory(Communicator& comm, void* p, uint64_t bytes);
// By all ranks, after all collectives issued before; of a communicator that has failed, by each by itself.
Status deregister_memory(Communicator& comm, Registration registration);

}  // namespace hocket
