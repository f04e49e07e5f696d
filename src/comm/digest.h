// Hashes of what the ranks of a call must agree on.
#pragma once

#include <bit>
#include <cstdint>

namespace hocket {

inline uint64_t mix(uint64_t hash, uint64_t value) { return (std::rotl(hash, 29) ^ value) * 0x9e3779b97f4a7c15u; }

// Never 0, which is what an unused slot holds, and a record without a table.
inline uint32_t digest(uint64_t hash) {
  const auto s = static_cast<uint32_t>(hash >> 32);
  return s != 0 ? s : 1;
}

}  // namespace hocket
