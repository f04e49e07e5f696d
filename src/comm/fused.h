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

// Bytes of a bucket, and from how many bytes on a buffer is not packed but reduced by itself.
//
// A bucket is packed, reduced and unpacked while it is in a second-level cache (512 KiB to 2 MiB on today's servers),
// together with what is copied and with the peers' slots; and it is so large that the next run's waits, a microsecond
// or two in shared memory and tens of them between hosts, are a small part of its time. A buffer is large when copying
// it there and back takes longer than those waits. Measured by lists of 1 KiB to 48 KiB on 2 CPUs: 128 KiB and 32 KiB
// were the best or within 5 % of it, buckets of 512 KiB cost 10 %, and packing what is larger than 32 KiB 20 %.
struct FusedSizes {
  uint64_t bucket, large;
};
// `hosts` as in select::Facts: all ranks know the same.
constexpr FusedSizes fused_sizes(uint32_t hosts) {
  constexpr uint64_t kKiB = 1024;
  return hosts == 1 ? FusedSizes{128 * kKiB, 32 * kKiB} : FusedSizes{512 * kKiB, 128 * kKiB};
}

// Arguments have been checked. The arrays are copied.
Status all_reduce_list(Communicator& comm, const BufferList& list, hktRedOp_t op, const CallOptions& options = {});

}  // namespace hocket
