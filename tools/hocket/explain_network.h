// `hocket explain network`: the addresses that this host is reached at, and which way to a peer wins.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace hocket::tool {

// Prints this host's addresses in the order in which ranks offer them, with what is left out and why; then tries all
// ways to each of `peers` (HOST:PORT) at once, as bring-up does, and prints what came of each. hktRemoteError, after
// all is printed, if a peer answers by no way.
Status explain_network(const std::vector<std::string>& peers, bool json);

}  // namespace hocket::tool
