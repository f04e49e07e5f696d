// verify: proves a plan together with its lowering, for one number of ranks. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "schedule/buffers.h"
#include "schedule/lower.h"
#include "schedule/plan.h"

namespace hocket {

// What a plan may hold at most.
inline constexpr uint32_t kMaxLinks = 1u << 16;  // entries of a link table: steps name them with 16 bits
inline constexpr uint32_t kMaxLanes = 1u << 16;  // of one rank: dependencies name them with 16 bits
inline constexpr uint32_t kMaxLag = 64;          // rounds that a dependency looks back
// Chunks of all ranks (and rounds) that a pass of verify keeps book of: some GB.
inline constexpr uint64_t kMaxPlaces = 1u << 26;

// One strict reading of a plan, shared by all readers. Of one rank: every field is in range and no unused field is set;
// links, blocks and dependencies exist; the operations of a step fit together; `in` is never stored to, and no buffer
// is touched that the rank does not have; the declared cost is that of the steps. Of all ranks also: their link tables
// agree, one lane pushes a link and one pops it, as often as it is pushed; the largest message is the declared one. An
// error names rank, lane, step and chunk where it has them.
Status validate(const Plan& plan);
Status validate(const PlanInfo& info, const RankPlan& plan, uint32_t rank);
Status validate(const PlanInfo& info);

// What a caller needs proven beyond that the result is right; false: the report tells whether it holds.
struct DataDemands {
  bool rank_identical = false;
  bool order_is_rank = false;
  bool canonical = false;
};

// The canonical fold: one rank folds the contributions of all ranks at once, that of rank 0 first, then rank 1 and so
// on, and rounds once. What is folded so is the same function of the n contributions whatever the plan, and so for
// every size, place, transport and placement.
struct DataReport {
  bool rank_identical = false;   // R1 proven: every chunk is the same fold on every rank that gets it: the same bits
  bool chunk_identical = false;  // moreover all chunks share that fold: with this plan bits do not hang on the place
  bool canonical = false;        // R2 and R3 proven: it is the canonical one; what only moves data is that, too
  bool order_is_rank =
      false;  // operands stand in the order of ranks (in whatever brackets): non-commutative operations are right
  // Equal for two plans for as many ranks: they compute the same expressions, so that their results agree bit by bit.
  // Of plans that are chunk_identical it is that of the one fold, however many chunks they have.
  uint64_t expression = 0;
  uint64_t steps = 0;  // executed, of all ranks
};
// Data pass: validates, then runs one round with fingerprints instead of data. Proves that each output chunk holds each
// contribution exactly once, with pre applied to each and post to the whole exactly once, or the one block that it is
// to hold (schedule/buffers.h: origin; barrier: every rank's end follows every rank's start), that no step reads a
// chunk never written or a message of other blocks than it expects, and that the plan ends with unbounded links. Rounds
// differ in names only: what flows inside a round is the same in all of them, and verify_races proves that nothing else
// gets in between. An error names rank, lane, step and chunk.
//
// What the report takes for granted of an executor: a fold of several operands runs left to right and rounds once, at
// its end, after post; pre rounds its operand, so that a rank folds the same bits that it sends.
Result<DataReport> verify_data(const Plan& plan, Placement placement, DataDemands demands = {});
// In both placements, as every plan should be: where in is out, a wrong buffer shows less. Proven is what holds in
// both.
Result<DataReport> verify_data(const Plan& plan, DataDemands demands = {});

struct RaceOptions {
  uint32_t rounds = 0;  // 0: as many as show every fault (max lag + 2)
};
// Race pass: validates, then runs the plan with vector clocks over the lanes of all ranks under `lowering`. Proves that
// any two accesses to a chunk, one of them a write, are ordered whatever the timing: lanes of a rank, peers that read a
// mapped source or write a direct destination, rounds that share scratch, and the owner, who may do anything with its
// buffers once it has returned. And that links with the lowering's effective depth never deadlock. An error names both
// accesses (rank, lane, step, chunk, round).
Status verify_races(const Plan& plan, const Lowering& lowering, Placement placement, RaceOptions options = {});

}  // namespace hocket
