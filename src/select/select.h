// Selection: which planner, with which stores, for a call of so many bytes. One array read per call, in a row that is
// made on the collective's first call from what all ranks know alike (Facts, Costs, HOCKET_ALGO, the determinism
// class), by whole numbers alone, so that every rank chooses the same without a word.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>

#include "algorithms/catalog.h"
#include "base/result.h"
#include "hocket/hocket.h"
#include "schedule/collective.h"
#include "select/facts.h"

namespace hocket::select {

struct Choice {
  const CatalogEntry* planner = nullptr;
  // The one for operations that are not commutative; null if HOCKET_ALGO asks for one that cannot serve them, or the
  // collective does not reduce.
  const CatalogEntry* in_rank_order = nullptr;
  bool stream_out = false;    // write the output past the caches
  bool read = false;          // peers fetch large messages from where they lie, if they can
  bool learn_stores = false;  // find out whether messages are better written past the caches
};

// Buckets of sizes: 0 bytes; then (2^(k-1), 2^k] bytes for k = 0...63.
inline constexpr uint32_t kBuckets = 65;
inline constexpr uint32_t bucket(uint64_t bytes) {
  return bytes <= 1 ? static_cast<uint32_t>(bytes) : static_cast<uint32_t>(std::bit_width(bytes - 1)) + 1;
}
// The largest size of a bucket.
inline constexpr uint64_t bucket_bytes(uint32_t b) { return b == 0 ? 0 : b > 63 ? UINT64_MAX : uint64_t{1} << (b - 1); }

using hocket::kCollectives;
using Row = std::array<Choice, kBuckets>;

// The choices of a communicator. A collective's are made when they are first asked for: predicting takes a moment. One
// thread at a time.
class Table {
 public:
  const Row& row(Collective collective) {
    const std::unique_ptr<const Row>& made = rows_[static_cast<uint32_t>(collective)];
    if (made == nullptr) [[unlikely]]
      make(collective);
    return *made;
  }

 private:
  friend Result<Table> build(const Facts& facts, const Costs& costs, std::string_view algo,
                             hktDeterminism_t determinism);
  Table() = default;
  void make(Collective collective);

  Facts facts_;
  Costs costs_;
  bool canonical_ = false;
  std::array<const CatalogEntry*, kCollectives> forced_{};
  std::array<std::unique_ptr<const Row>, kCollectives> rows_;
};

// `algo` is HOCKET_ALGO: empty, or planner names separated by commas, each taking over the collectives that have one of
// this name ("ring" or "ring,chain"); an unknown name is an error that lists the known ones.
// With determinism R2 and R3 only planners that fold canonically reduce; one that `algo` names and does not is an
// error.
Result<Table> build(const Facts& facts, const Costs& costs, std::string_view algo,
                    hktDeterminism_t determinism = HKT_DETERMINISM_R1);

// May a planner be chosen for calls of this class?
inline bool has_class(const CatalogEntry& e, bool canonical) {
  return !canonical || !reduces(e.collective) || e.folds_canonically;
}

inline const Choice& lookup(Table& table, Collective collective, uint64_t bytes) {
  return table.row(collective)[bucket(bytes)];
}

}  // namespace hocket::select
