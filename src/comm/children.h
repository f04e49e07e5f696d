// Communicators made from a communicator: no rendezvous, no listener, no socket of their own. The ranks agree over the
// parent's links; on a host the child's links lie in the file that the parent's lie in, and elsewhere its connections
// come to the parent's port, each on first use. A child holds on to what it shares, so parent and children may be
// destroyed in any order, and each has its own calls, faults and abort.
//
// Each is a call of the parent (exchange.h): ranks that do not agree or do not come are its failure. That a child
// cannot be made (no memory, no descriptor on some rank) is an error on every rank of the child, and the parent stays
// as it was. What the settings leave open is the parent's; the deadline is that of bring-up.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "comm/bringup.h"
#include "comm/communicator.h"

namespace hocket {

// All ranks of the parent call it. Those with one color >= 0 become the ranks of one child, ordered by key and then by
// their rank in the parent; color HKT_SPLIT_NOCOLOR takes part and gets null.
struct Place {
  int color = 0;
  int key = 0;
};
Result<std::unique_ptr<Communicator>> split(Communicator& parent, Place place, const CommSettings& settings);

// All ranks of the parent call it: the same ranks once more.
Result<std::unique_ptr<Communicator>> duplicate(Communicator& parent, const CommSettings& settings);

// Only the listed ranks of the parent call it, all with the same list and tag; rank i of the child is ranks[i].
// hktInvalidArgument for a list with a rank that does not exist or is there twice, or without the calling rank.
Result<std::unique_ptr<Communicator>> create_child(Communicator& parent, std::vector<int> ranks, int tag,
                                                   const CommSettings& settings);

// All ranks call it. When it returns, every rank has called it: what each had to do for the others is done and sent, so
// they may be destroyed in any order. An error of an earlier call that nobody had noticed shows here. The last call.
Status finalize(Communicator& comm);

}  // namespace hocket
