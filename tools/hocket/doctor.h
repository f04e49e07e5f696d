// What `hocket doctor` looks at. Each check is a line: what was looked at, whether it is good, what was found, and the
// fix.
#pragma once

#include <string>
#include <vector>

namespace hocket::tool {

enum class Verdict : uint8_t { ok, warn, fail };

struct Finding {
  std::string check;  // "interfaces"
  Verdict verdict = Verdict::ok;
  std::string found;
  std::string fix;  // "" if good
};

// Everything about this machine that needs no other: interfaces, MTU, the host's own name, limits of descriptors and
// locked memory, ports, /dev/shm, reading another process's memory, CPU quota, huge pages, what former jobs have left.
std::vector<Finding> look_at_this_machine();

}  // namespace hocket::tool
