// What the collectives have in common and where they differ, as far as it hangs on the collective alone. Constexpr,
// host and device.
//
// Round-major: the vector is free to be cut anyhow (schedule/shape.h cuts each round into chunks); in and out have the
// same chunks. Blocks: the user says where each rank's block lies, so a chunk is a block, and a buffer that only holds
// the block of its own rank has one chunk.
#pragma once

#include "schedule/step.h"

namespace hocket {

enum class Layout : uint8_t { round_major, blocks };

HKT_HD constexpr Layout layout(Collective c) {
  return c >= Collective::all_gather && c <= Collective::scatter ? Layout::blocks : Layout::round_major;
}
// Folds contributions with an operation (pre, post); the others only move data.
HKT_HD constexpr bool reduces(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce || c == Collective::reduce_scatter;
}
HKT_HD constexpr bool is_rooted(Collective c) {
  return c == Collective::broadcast || c == Collective::reduce || c == Collective::gather || c == Collective::scatter;
}
// Whether in (out) is one block, that of its rank.
HKT_HD constexpr bool in_is_own_block(Collective c) { return c == Collective::all_gather || c == Collective::gather; }
HKT_HD constexpr bool out_is_own_block(Collective c) {
  return c == Collective::reduce_scatter || c == Collective::scatter;
}
// Whether only the root has an in (out); the other ranks' argument is not theirs to touch.
HKT_HD constexpr bool in_is_at_root(Collective c) { return c == Collective::broadcast || c == Collective::scatter; }
HKT_HD constexpr bool out_is_at_root(Collective c) { return c == Collective::reduce || c == Collective::gather; }

}  // namespace hocket
