// The buffers of a plan's ranks: which exist, which of their chunks are equally large, where they lie in place, and
// what each chunk of out holds in the end. The one place that knows; all readers ask here.
#pragma once

#include "schedule/collective.h"
#include "schedule/plan.h"

namespace hocket {

enum class Placement : uint8_t { out_of_place, in_place };

inline bool has_buffer(const PlanInfo& info, uint32_t rank, Buf b) {
  if (b == Buf::in) return !in_is_at_root(info.collective) || rank == info.root;
  if (b == Buf::out) return !out_is_at_root(info.collective) || rank == info.root;
  return true;
}

// How many size classes there are. Chunk c has class c mod this, except where a buffer is the block of its own rank.
inline uint32_t size_classes(const PlanInfo& info) {
  if (layout(info.collective) == Layout::round_major) return info.chunks[static_cast<size_t>(Buf::out)];
  return info.collective == Collective::all_to_all ? 1 : info.nranks;
}
// Chunks of one class are equally large in every call, whatever its counts; nothing is known of those of two classes.
inline uint32_t size_class(const PlanInfo& info, uint32_t rank, Buf b, uint32_t chunk) {
  if (b == Buf::in && in_is_own_block(info.collective)) return rank;
  if (b == Buf::out && out_is_own_block(info.collective)) return rank;
  const uint32_t classes = size_classes(info);
  return chunk < classes ? chunk : chunk % classes;
}

// The memory of a chunk. In place a chunk of in may be one of out: all of them; or where one of the two buffers is a
// single block, that block of the other. Such a chunk is named by out.
struct Cell {
  Buf buf = Buf::in;
  uint32_t chunk = 0;
};
inline Cell cell(const PlanInfo& info, Placement placement, uint32_t rank, Cell c) {
  const Collective of = info.collective;
  if (placement == Placement::out_of_place || c.buf != Buf::in || !has_buffer(info, rank, Buf::out)) return c;
  if (in_is_own_block(of)) return {Buf::out, rank};
  if (out_is_own_block(of)) return c.chunk == rank && has_buffer(info, rank, Buf::in) ? Cell{Buf::out, 0} : c;
  return {Buf::out, c.chunk};
}

// What chunk c of out of a rank holds in the end: chunk `chunk` of in of rank `rank`, or the fold of that of all ranks.
struct Origin {
  uint32_t chunk = 0;
  uint32_t rank = 0;  // of no meaning if the collective reduces
};
inline Origin origin(const PlanInfo& info, uint32_t rank, uint32_t c) {
  switch (info.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::barrier:
      break;
    case Collective::broadcast:
      return {c, info.root};
    case Collective::all_gather:
    case Collective::gather:
      return {0, c};
    case Collective::reduce_scatter:
      break;
    case Collective::scatter:
      return {rank, info.root};
    case Collective::all_to_all:
      return {rank, c};
  }
  return {out_is_own_block(info.collective) ? rank : c, 0};
}

}  // namespace hocket
