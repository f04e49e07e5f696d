// All-reduce of a list of buffers in one call. Small ones are packed into buckets, large ones are reduced where they
// lie. Which is which, and where a bucket ends, follows from the counts alone, which the ranks compare.
#pragma once

#include <cstddef>

#include "comm/communicator.h"

namespace hocket {

// Buffer i has counts[i] elements. Each is in place (in[i] == out[i]) or apart from all others.
struct BufferList {
  const void* const* in;
  void* const* out;
  const size_t* counts;
  size_t buffers;  // at most UINT32_MAX
  hktDataType_t type;
};

// Arguments have been checked. The arrays are copied.
Status all_reduce_list(Communicator& comm, const BufferList& list, hktRedOp_t op, const CallOptions& options = {});

}  // namespace hocket
