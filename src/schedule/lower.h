// lower: chooses, for a plan, how each phase's links carry payload and how much a round moves. Protocols belong to
// links, never to planners; verify takes (plan, lowering) together.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"
#include "schedule/plan.h"
#include "schedule/shape.h"

namespace hocket {

struct Wiring;

enum class Protocol : uint8_t {
  slot,    // the payload travels in the link's slot
  mapped,  // push publishes where the payload lies in the producer's buffer, pop reads it there, the ack frees it
  direct   // push writes into the consumer's destination, after its entry grant
};
const char* protocol_name(Protocol protocol);  // "slot", "mapped", "direct"

inline constexpr uint32_t kMaxDepth = 1u << 16;

struct Lowering {
  std::array<Protocol, kMaxTags> protocol{};  // by tag
  uint32_t depth = 8;                         // slots per link
  uint32_t ack_batch = 4;                     // a consumer publishes its credit every so many pops
  bool drain = false;                         // producers of mapped links wait for all acks before they return
  bool identity_pre = false;  // only for calls whose pre changes nothing: a mapped source is read as it lies
  // What a producer may have in flight for sure.
  uint32_t effective_depth() const { return depth - ack_batch + 1; }
};

// How the links of a planner's plans go without copies where memory is registered, for any number of ranks: proven by
// the tests of the planners. A message that cannot go so goes in its slot; any mixture is as safe, for a slot is read
// when it is pushed and written to its destination when it is popped, and so touches both for a shorter time.
struct ZeroCopy {
  std::array<Protocol, kMaxTags> protocol{};  // by tag; direct: into the consumer's out
  bool drain = false;                         // producers wait for the acks of mapped messages before they return
  bool out_of_place_only = false;

  // The same where only some of the ways may be taken.
  ZeroCopy only(bool mapped, bool direct) const;
  bool copies_all() const;
};

struct LowerOptions {
  std::array<Protocol, kMaxTags> protocol{};  // wanted, by tag; of no consequence for tags that the plan does not use
  uint32_t depth = 8;
  uint32_t ack_batch = 4;
};

// Checks what a protocol needs of single steps:
//   mapped: a pushed value lies in memory, that is, the step stores it or just loads it (with pre: then `identity_pre`
//   gets set); direct: the popping step takes one message and stores it as it is, in the chunk of the same number that
//   the pushing step
//           names, and a link leads to one buffer only.
// Whether the buffers are then touched at the wrong moment depends on the placement and is for verify_races to prove. A
// plan with mapped links drains; where verify_races proves that it need not (mapped on the way to the sum, direct on
// the way back), the caller may clear `drain`. An error says which rank, step and tag makes the wanted protocol illegal
// and why.
Result<Lowering> lower(const Plan& plan, const LowerOptions& options);

// The same check of a given lowering; `wiring` is that of `plan`.
Status check_lowering(const Plan& plan, const Wiring& wiring, const Lowering& lowering);

// Elements per round, of the vector or (blocks) of each block, so that every message fits into `slot_bytes`: a multiple
// of a cache line of elements, >= 1 line per chunk. 0 if a slot is too small for one line of each of a message's
// blocks.
uint64_t round_elems(const PlanInfo& info, uint32_t elem_size, uint64_t slot_bytes);

}  // namespace hocket
