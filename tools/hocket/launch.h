// Starts the ranks of a job on this machine as processes and sees to it that all of them end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace hocket::tool {

enum class Bind : uint8_t { none, core, turns };

// Forks `np` children (the caller has no thread yet), each with RANK, LOCAL_RANK, WORLD_SIZE and HOCKET_INIT set so
// that hktCommInitEnv finds the others, and calls body(rank) in each; its value is the child's exit status. When one
// fails the others have 2 s to say what they know, then they get SIGKILL; SIGINT and SIGTERM are passed on. Bind::core
// gives each a CPU of its own, if there are as many; Bind::turns gives rank r the CPU r mod their number. No child
// outlives the caller. Returns the exit status of the first that failed (128
// + signal if a signal ended it), 0 if none did.
Result<int> launch_local(int np, Bind bind, const std::function<int(int rank)>& body);

}  // namespace hocket::tool
