// Stages: a collective that is several runs of plans, one after the other, with work of this rank before, between and
// after them. To peers it is one call: one number, one record, one deadline, and an error in any run ends all of it.
// Made by Communicator::staged(), moved along by Outstanding like every call that waits for its turn.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/operations.h"
#include "engine/run.h"
#include "transport/call_record.h"

namespace hocket {

// A call, or a run of one, as it is put to the engine: `record` says what it is, `call` where its data are.
struct Order {
  CallRecord record;
  Call call;
  std::shared_ptr<const Operation> op;  // the program's own, if it is one
  bool reproducible = false;            // runs as ReproducibleSums, not by itself
};

// Memory of a communicator for the stages of the call whose turn it is.
class Staging {
 public:
  // At least so many bytes, aligned to a cache line. They keep what they hold from one run of a call to the next,
  // unless more are asked for.
  unsigned char* take(uint64_t bytes) {
    const uint64_t lines = (bytes + sizeof(Line) - 1) / sizeof(Line);
    if (lines > lines_) {
      memory_ = std::make_unique_for_overwrite<Line[]>(lines);
      lines_ = lines;
    }
    return reinterpret_cast<unsigned char*>(memory_.get());  // all lines are one run of bytes
  }

 private:
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  std::unique_ptr<Line[]> memory_;
  uint64_t lines_ = 0;
};

// What a call has to do. Objects are kept by the communicator and used again, with the memory that they have.
class Stages {
 public:
  virtual ~Stages() = default;
  // Does this rank's work that comes before the next run, and says in `run` which one it is; false: there is none any
  // more, and the result is where it belongs. Called when everything before is done, first when the call's turn has
  // come, by whoever has the communicator's gate. Must not wait. Runs have to follow from what the peers compare, or
  // the ranks wait for one another.
  virtual bool next(Order& run, Staging& staging) = 0;

 protected:
  Stages() = default;
  Stages(const Stages&) = default;
  Stages& operator=(const Stages&) = default;
};

}  // namespace hocket
