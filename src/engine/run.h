// Run: one run of a plan, which goes as far as it can and comes back. What it needs for a call is here, too: the plan
// tied to links, and the call's buffers.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/wait.h"
#include "kernels/reduce_cpu.h"
#include "schedule/drive.h"
#include "schedule/lower.h"
#include "schedule/plan.h"
#include "schedule/shape.h"
#include "transport/link.h"

namespace hocket {

class Engine;

// A rank's plan tied to this rank's links: ready to run with any buffers. Made once per (planner, root), then only
// read.
struct BoundPlan {
  RankPlan plan;
  PlanInfo info;
  std::vector<Link*> in, out;             // by the plan's link tables; owned by the communicator
  uint32_t operands = 1;                  // of its widest step
  std::optional<ZeroCopy> zero_copy;      // where memory is registered; none: every message travels in its slot
  std::optional<ZeroCopy> read;           // where peers read a rank's memory; none: the same
  std::array<uint64_t, 5> round_elems{};  // by log2 of the element's size, for the slots of these links

  uint64_t round_of(uint32_t elem_size) const { return round_elems[static_cast<size_t>(std::countr_zero(elem_size))]; }

  // Source of the step driver.
  const Step& step(uint32_t lane, uint32_t i) const { return plan.steps[plan.lanes[lane].first + i]; }
  uint32_t steps(uint32_t lane) const { return plan.lanes[lane].count; }
  Dep dep(uint32_t lane, uint32_t i, uint32_t d) const {
    return plan.deps[plan.first_dep[plan.lanes[lane].first + i] + d];
  }
};

// One call: buffers, sizes and arithmetic for a plan.
struct Call {
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t elems = 0;  // of the vector; where the layout is blocks: of the (largest) block
  // Blocks of different sizes, see BlockLayout; null where they are equal. Not owned: they outlive the run.
  const uint64_t* counts = nullptr;
  const uint64_t* displs = nullptr;
  uint32_t rank = 0;  // needed with counts
  uint32_t elem_size = 1;
  uint32_t signature = 0;                              // of this call, in every message's tag
  uint32_t divisor = 1;                                // post operation: the result is divided by it
  kernels::Kernel fold;                                // nulls for collectives that do not reduce, and with combine
  kernels::ScaleFn scale = nullptr;                    // pre operation: contributions are multiplied by scalar
  alignas(16) std::array<unsigned char, 16> scalar{};  // one element
  hktReduceFn combine = nullptr;                       // the user's operation, in place of fold
  void* context = nullptr;                             // passed to combine, and so is the type
  hktDataType_t type = hktInt8;
  // Messages of so many bytes may stay where they are, for peers to read. UINT64_MAX: none.
  uint64_t read_from = UINT64_MAX;
  bool registered = false;  // somebody of the communicator has registered memory, and the call is large enough
  const Region* in_region = nullptr;  // of this rank's registered memory: that holds all of `in`, `out`
  const Region* out_region = nullptr;
  kernels::Stores out_stores = kernels::Stores::temporal;   // for the last write of the output
  kernels::Stores slot_stores = kernels::Stores::temporal;  // for what a peer reads
};

// Where a step's value goes.
struct Target {
  unsigned char* to;
  kernels::Stores stores;
};

// How a message of a step goes: no place, in its slot; with `to`, it is to be written there; else it lies there
// already.
struct Placed {
  MessagePlace place;
  unsigned char* to = nullptr;
};

// The Machine of the step driver, and what the waiter polls. Uses the engine's cursors and scratch: one at a time.
class Run final : public Waiting {
 public:
  Run(Engine& engine, const BoundPlan& plan, const Call& call);
  const Shape& shape() const { return shape_; }
  // Before the first advance(): tells peers where they may write.
  void enter();

  // Advances all lanes as far as they go: true when all have finished.
  bool advance();

  // Waiting
  bool poll() override;
  Blocked blocked() const override;
  bool done() const { return done_; }
  // Has it read memory of other ranks? Then it is to be confirmed that they had not given up the call before.
  bool has_read() const { return has_read_; }

  // Machine
  bool dep_done(Dep d, uint32_t round) const;
  bool pop_ready(uint32_t link) const;
  bool push_ready(uint32_t link, const Step&) const;
  void execute(const Step& s, const Cursor& c);

 private:
  void run_step(const Step& s, const Cursor& c);
  // Where the value of a step with one block is and stays for the rest of the call, null if it has to be made or may
  // change: a link that lends need not copy it. Nothing writes to `in`, unless it is `out`; where one is a block of the
  // other, that block is written with what it holds, or is not pushed.
  const unsigned char* standing(const Step& s, Span src) const;
  bool lends(const Link& link) const { return lent_ != nullptr && link.lends(); }
  // Says of each message of a step of one block how it goes. False: all in slots.
  bool place(const Step& s, Span src, Span dst);
  // Every message of the step is written to where its receiver wants it.
  bool all_direct(const Step& s) const;
  // The step pushes a value that it changes on the way and keeps nowhere.
  bool changes(const Step& s) const {
    return (s.has(kPost) && call_.divisor > 1) || (s.has(kPre) && call_.scale != nullptr);
  }
  // Of a call whose lanes have ended: has all been read that lies in this rank's memory?
  bool drained() const;
  // Bytes of a step's message, and the span of its j-th block in a buffer.
  uint64_t message_bytes(const Step& s, uint32_t round) const;
  unsigned char* at(Buf b, uint64_t offset) const;
  // Block j of the step, `offset` bytes into its messages.
  void make(const Step& s, uint32_t j, uint64_t offset, Span src, Span dst);
  struct Part {
    uint32_t j;       // of a block
    uint64_t within;  // bytes into it
    uint64_t offset;  // bytes into the messages
  };
  // Gathers operands and targets.
  void make_part(const Step& s, Part part, Span src, Span dst);
  // Bytes of a step's block that are made at a time: less than `bytes` if messages have to be fetched for it.
  uint64_t part_bytes(const Step& s, uint64_t bytes);
  // The next message of the step's k-th link, for an operand. `direct`: memory that it may be fetched to, or null.
  const unsigned char* message(const Step& s, uint32_t k, Part part, uint64_t bytes, unsigned char* direct);
  // Adds the local operands of block j behind the first one, and returns how many operands there are then.
  uint32_t add_locals(const Step& s, Part part, uint32_t operands);
  void move(uint32_t operands, uint32_t targets, uint64_t bytes, uint32_t divisor);
  // The same with more than one target.
  void spread(uint32_t operands, uint32_t targets, uint64_t bytes, uint32_t divisor);
  // The same for operations that a program made: the operand at `scaled`, if there is one, is multiplied first.
  void compose(uint32_t operands, uint32_t targets, uint64_t bytes, uint32_t scaled);
  // The user's fold of `n` bytes of the operands into `to`, which is none of them.
  void combine(unsigned char* to, uint32_t operands, uint64_t n) const;

  Engine& engine_;
  const BoundPlan& plan_;
  const Call& call_;
  const Shape shape_;
  const uint32_t rounds_;
  uint64_t executed_ = 0;
  uint64_t bytes_ = 0;                   // of the step being executed
  uint32_t round_ = 0;                   // of it, too
  uint64_t part_ = 0;                    // most bytes of a part of it for which messages are fetched
  const unsigned char* lent_ = nullptr;  // its value, for links that lend
  const ZeroCopy* zero_ = nullptr;       // null: all messages travel in slots
  bool placed_ = false;                  // some of this step do not, see Engine::placed_
  bool drains_ = false;                  // some of this call must have been read before it ends
  bool done_ = false;
  bool has_read_ = false;
};

}  // namespace hocket
