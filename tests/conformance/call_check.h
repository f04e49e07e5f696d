// One call of a collective by all ranks, against a scalar reference of what the collective means.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "schedule/collective.h"

namespace hocket::test {

struct Trial {
  Collective collective = Collective::all_reduce;
  bool table = false;  // blocks of different sizes, by counts and displacements
  uint64_t count = 0;  // elements: of the vector or of a block; with a table blocks are about as large, some empty
  bool in_place = false;
  int root = 0;
  hktDataType_t type = hktFloat32;
  hktRedOp_t op = hktSum;  // as made by make_op() if `made` says so
  OpKind made = OpKind::built_in;
  uint32_t salt = 0;  // other data, another table
  // This rank's buffers are here instead of in memory of the trial's; null: not. Large enough, guards included.
  unsigned char* in_memory = nullptr;
  unsigned char* out_memory = nullptr;
  uint32_t guards = 1;  // elements around each buffer that must stay what they are
};
// The operations that a trial of this kind knows how to check. The user's read a counter as their context, which counts
// the calls. Scalars differ between the ranks.
Operation make_op(OpKind kind, hktDataType_t type, int rank, uint64_t* calls);
std::string to_string(const Trial& trial);
// Bytes of in_memory, and of out_memory, that are large enough on any rank.
uint64_t room(const Trial& trial, int nranks);

// The collectives that a communicator runs, but for barrier, with and without tables.
struct Kind {
  Collective collective;
  bool table;
};
std::vector<Kind> all_kinds();

// `each` for a trial of this kind for each of `counts`, in place and not, with roots and `salt` that move on, until an
// assertion fails that is fatal.
template <class Counts, class Each>
void each_trial(const Kind& kind, const Counts& counts, int nranks, uint32_t& salt, Each&& each) {
  for (const uint64_t count : counts) {
    for (const bool in_place : {false, true}) {
      Trial t;
      t.collective = kind.collective;
      t.table = kind.table;
      t.count = count;
      t.in_place = in_place;
      t.salt = ++salt;
      t.root = static_cast<int>(salt / 3) % nranks;
      each(t);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}
// An average instead of a sum now and then.
inline void average_at_times(Trial& t) {
  if (t.salt % 3 == 1 && reduces(t.collective)) t.op = hktAvg;
}

// A trial on its way, with its buffers.
class Attempt {
 public:
  Attempt(Communicator& comm, const Trial& trial);
  Attempt(Attempt&&) noexcept;
  Attempt& operator=(Attempt&&) noexcept;
  ~Attempt();
  // The table that the call gets is overwritten as soon as it has returned.
  Status issue(const CallOptions& options = {});
  // The buffers, for a call that is made in another way.
  const void* in() const;
  void* out() const;
  // When it is done. Failures are GoogleTest's.
  void judge() const;
  // Only of what it has written: the input may have been overwritten since.
  void judge_output() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// To be called by all ranks with the same trial. Every byte of every buffer is compared, also of those that the call
// has no business with. Failures are GoogleTest's.
void check_call(Communicator& comm, const Trial& trial);

}  // namespace hocket::test
