// Environments of processes for tests.
#pragma once

#include <cstdlib>
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

// Variables of this process that are unset again at the end.
class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const Variables variables_;
};

}  // namespace hocket
