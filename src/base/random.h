// Random bits of the system, for what nobody may guess. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace hocket {

// `n` bytes, at most 256. Waits while the system's pool fills up at boot; an error if the system has none to give
// (ENOSYS, or EPERM of a filter for system calls).
Result<std::string> random_bytes(size_t n);
// 64 bits, not all of them 0.
Result<uint64_t> random_bits();

}  // namespace hocket
