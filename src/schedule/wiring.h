// The links of a validated plan joined up: which lane pushes and which lane pops each link, and how many messages it
// carries. Shared by the readers that look at all ranks at once (verify, lower). Numbers are global: lanes, steps,
// links and messages of all ranks are counted through, rank after rank. Immutable once made; any thread may read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/plan.h"

namespace hocket {

struct PlanLink {
  uint32_t source = 0, destination = 0;  // ranks
  uint32_t out = 0;                      // index in the source's out table
  uint32_t tag = 0;
  uint32_t producer = 0, consumer = 0;  // global lanes
  uint32_t messages = 0;                // per round
  uint32_t first = 0;                   // messages of all links before this one
};

struct Wiring {
  std::vector<uint32_t> first_lane, first_step, first_in, first_out;  // by rank, with the total as last entry
  std::vector<uint32_t> lane_rank;                                    // by global lane
  std::vector<PlanLink> links;  // by first_in[destination] + index in the destination's in table
  std::vector<uint32_t> out;    // by first_out[source] + index in the source's out table: the link
  uint32_t messages = 0;        // of all links, per round

  uint32_t lanes() const { return first_lane.back(); }
  uint32_t rank_of_step(uint32_t step) const;
};

// Everything validate(plan) checks, and the wiring that the check has worked out.
Result<Wiring> wire(const Plan& plan);

// By global message: the global step that pushes, or pops, it.
std::vector<uint32_t> pushing_steps(const Plan& plan, const Wiring& wiring);
std::vector<uint32_t> popping_steps(const Plan& plan, const Wiring& wiring);

// An error if verify cannot keep book of all chunks of `rounds` rounds.
Status check_places(const PlanInfo& info, uint32_t rounds);

// What run_lane takes its steps from.
struct RankSource {
  const RankPlan& plan;
  uint32_t steps(uint32_t lane) const { return plan.lanes[lane].count; }
  const Step& step(uint32_t lane, uint32_t i) const { return plan.steps[plan.lanes[lane].first + i]; }
  Dep dep(uint32_t lane, uint32_t i, uint32_t d) const {
    return plan.deps[plan.first_dep[plan.lanes[lane].first + i] + d];
  }
};

// Names for errors: "chunk 3 of out", "rank 2 lane 0 step 5 (chunk 3 of out)". A step's chunk is the one it stores,
// else the one it loads; more blocks show as "chunks 3, 5, ... (4) of out".
const char* buf_name(Buf b);
std::string chunk_name(Buf b, uint32_t chunk);
std::string step_name(const Plan& plan, uint32_t rank, uint32_t lane, uint32_t step);
std::string step_name(const RankPlan& plan, uint32_t rank, uint32_t lane, uint32_t step);
std::string step_name(const Plan& plan, const Wiring& wiring, uint32_t global_step);
// "first used by rank ...": the first step that pushes (pops) entry k of the out (in) table of a rank whose layout is
// sound.
enum class Table : uint8_t { in, out };
std::string link_user(const RankPlan& plan, uint32_t rank, Table table, uint32_t k);
std::string link_name(const PlanLink& link);  // "link 2 -> 3 tag 0"

// The buffer and first chunk that hold the value of a pushing step: what it stores, else what it loads. Only for a step
// that stores or loads.
inline Buf value_buf(const Step& s) { return s.has(kStore) ? s.dst_buf() : s.src_buf(); }
inline uint32_t value_chunk(const Step& s) { return s.has(kStore) ? s.dst : s.src; }

// Blocks of all local operands of a step, one range.
inline uint64_t loaded_blocks(const Step& s) { return uint64_t{s.nload} * s.count; }

// Block j of a range that starts at `first`; validate has made sure that nothing overflows.
inline uint32_t block(uint32_t first, uint32_t stride, uint32_t j, uint32_t chunks) {
  return j == 0 ? first : static_cast<uint32_t>((first + uint64_t{j} * stride) % chunks);
}

}  // namespace hocket
