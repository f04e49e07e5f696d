// Checks a ring geometry that comes from a caller or from another process.
#pragma once

#include "base/result.h"
#include "transport/link.h"

namespace hocket {

inline Status check_geometry(const RingGeometry& g) {
  constexpr uint32_t kMaxDepth = 1 << 16;
  constexpr uint32_t kMaxSlot = 1 << 30;
  if (g.depth == 0 || g.depth > kMaxDepth || (g.depth & (g.depth - 1)) != 0)
    return error(hktInvalidArgument, "ring depth is %u: a power of two from 1 to %u is expected", g.depth, kMaxDepth);
  if (g.slot_bytes < 64 || g.slot_bytes > kMaxSlot || g.slot_bytes % 64 != 0)
    return error(hktInvalidArgument, "slot size is %u bytes: a multiple of 64 from 64 to %u is expected", g.slot_bytes,
                 kMaxSlot);
  if (g.ack_batch == 0 || g.ack_batch > g.depth)
    return error(hktInvalidArgument,
                 "credit is returned every %u messages: a number from 1 to the ring depth %u is expected", g.ack_batch,
                 g.depth);
  return {};
}

}  // namespace hocket
