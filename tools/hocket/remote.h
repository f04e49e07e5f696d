// What subcommands that run something on other hosts share.
#pragma once

#include <string>
#include <vector>

namespace hocket::tool {

// The pieces between `by`, without empty ones.
std::vector<std::string> split(const std::string& text, char by);
// The path of this program: what is to be found on the other hosts, too.
std::string own_path();

}  // namespace hocket::tool
