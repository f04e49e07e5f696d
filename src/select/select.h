// Selection: which planner, with which stores, for a call of so many bytes. A table made once per
// communicator from facts that all ranks share, so that every rank chooses the same; looked up with one array read per
// call.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "algorithms/catalog.h"
#include "base/result.h"
#include "hocket/hocket.h"

namespace hocket::select {

struct Choice {
  const CatalogEntry* planner = nullptr;
  // The one for operations that are not commutative; null if HOCKET_ALGO asks for one that cannot serve them, or the
  // collective does not reduce.
  const CatalogEntry* in_rank_order = nullptr;
  bool stream_out = false;    // write the output past the caches
  bool learn_stores = false;  // find out whether messages are better written past the caches
};

// What the choice depends on; identical on all ranks by construction (agreed at bring-up).
struct Facts {
  uint32_t nranks = 1;
  uint32_t hosts = 1;           // groups of ranks that share memory
  bool oversubscribed = false;  // some host has more ranks than usable CPUs
  uint32_t slot_bytes = 0;      // payload capacity of every link
  bool registered = false;      // every rank's buffers are memory that all others can reach
  uint64_t cache_bytes = 0;     // smallest last-level cache among the hosts
};

// Buckets of sizes: 0 bytes; then (2^(k-1), 2^k] bytes for k = 0...63.
inline constexpr uint32_t kBuckets = 65;
inline constexpr uint32_t bucket(uint64_t bytes) {
  return bytes <= 1 ? static_cast<uint32_t>(bytes) : static_cast<uint32_t>(std::bit_width(bytes - 1)) + 1;
}
// The largest size of a bucket.
inline constexpr uint64_t bucket_bytes(uint32_t b) { return b == 0 ? 0 : b > 63 ? UINT64_MAX : uint64_t{1} << (b - 1); }

using hocket::kCollectives;
using Table = std::array<std::array<Choice, kBuckets>, kCollectives>;

// `algo` is HOCKET_ALGO: empty, or planner names separated by commas, each taking over the collectives that have one of
// this name ("ring" or "ring,chain"); an unknown name is an error that lists the known ones.
// With determinism R2 and R3 only planners that fold canonically reduce; one that `algo` names and does not is an
// error.
Result<Table> build(const Facts& facts, std::string_view algo, hktDeterminism_t determinism = HKT_DETERMINISM_R1);

inline const Choice& lookup(const Table& table, Collective collective, uint64_t bytes) {
  return table[static_cast<uint32_t>(collective)][bucket(bytes)];
}

}  // namespace hocket::select
