// Whether other hosts answer at all.
#pragma once

#include <string>
#include <vector>

namespace hocket::tool {

// Connects to all addresses (no names) at the same time, for 3 s at most: "" for one that answers, be it by refusing,
// else why not.
std::vector<std::string> probe(const std::vector<std::string>& addresses);

}  // namespace hocket::tool
