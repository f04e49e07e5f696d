// Environments of processes for tests.
#pragma once

#include <map>
#include <string>

#include "bootstrap/setting.h"

namespace hocket {

using Variables = std::map<std::string, std::string>;

inline Environment with(const Variables& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

}  // namespace hocket
