// predict: how long a plan takes on a machine whose costs are known, for the selection. It runs the plan's steps by the
// step driver (schedule/drive.h) on a model of CPUs: what it knows of an algorithm is the plan itself. Whole numbers
// only, so that every rank computes the same. Pure; any thread.
//
// The model, with the names of Costs
// - Rank r of a machine runs on CPU r mod `cpus`. A CPU does one thing at a time: a step takes `step`, `message` for
//   each message popped or pushed, and for every KiB of each operand and each target `near`, or `pull` and `push` where
//   the other end of the link is another CPU, which costs `cross` more for a message, and sees it `line` later.
// - What a rank waits for comes line by line: `first` more for each of the first 4 KiB of a message that was not there
//   yet when its rank came to it.
// - Strain: what the ranks of a CPU touch, buffers and all slots of their links, has a part beyond `cache_kib`, which
//   costs `mid` - `near` more for every KiB, and a part beyond `outer_kib`, which costs `far` - `mid` more.
// - Ranks that share a CPU take turns: one that waits gives way and the next begins `turn` later, whether there is
//   something to do for it or not.
// - Between ranks that share no memory a message costs each end `socket` and `socket_kib` for every KiB; it begins to
//   arrive `wire` after it was begun to be sent. An input is sent from where it is, without a copy. A rank that waits
//   for such messages makes its CPU's turns longer by `socket`, for it looks by system calls.
// - Where messages are read (Way::reading), one of kReadFrom bytes and more costs its producer `message` alone. The
//   consumer pays `fetch` for it, and for every KiB `fetch_kib` in place of `pull` and of the target; from the same CPU
//   twice `near`. What it folds it moreover loads (`near`). No slot is touched.
// - Calls of less than kSeries bytes come in series: what counts is what one more costs. Larger ones come alone.
#pragma once

#include <array>
#include <cstdint>

#include "algorithms/catalog.h"
#include "base/result.h"
#include "schedule/wiring.h"
#include "select/facts.h"

namespace hocket::select {

class Predictor {
 public:
  static constexpr uint64_t kSeries = 16 * 1024;

  // For root 0. `entry` serves so many ranks. An error: slots are too small for the plan's messages.
  static Result<Predictor> make(const CatalogEntry& entry, const Facts& facts, const Costs& costs,
                                Way way = Way::copying);
  // Picoseconds that a call of so many bytes takes (of the larger buffer, elements of 4 bytes). kNever: the plan comes
  // to a standstill.
  uint64_t ps(uint64_t bytes) const;
  static constexpr uint64_t kNever = UINT64_MAX;

 private:
  friend class Rehearsal;
  Predictor(const Facts& facts, const Costs& costs) : facts_(facts), costs_(costs) {}
  Facts facts_;
  Costs costs_;
  Plan plan_;
  Wiring wiring_;
  std::array<bool, kMaxTags> read_{};  // links of this tag are read
  uint64_t round_elems_ = 1;
};

}  // namespace hocket::select
