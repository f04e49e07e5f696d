// Checks of the arguments of collectives. What a call does with its buffers follows from schedule/collective.h. Checks
// of equal blocks are split: what passes costs a few compares, what fails goes to a function that finds the words.
#pragma once

#include <cstdint>

#include "api/handle.h"
#include "base/types.h"
#include "comm/fused.h"
#include "schedule/collective.h"

namespace hocket {

// What a collective does with its two buffers on this rank, in blocks of the caller's count.
struct Uses {
  Collective collective;
  uint32_t blocks = 1;             // in the larger buffer of any rank
  uint32_t reads = 1, writes = 1;  // 0: the buffer is not this rank's to touch and may be anything
  int64_t in_place = 0;  // where sendbuf lies in recvbuf if the call is in place; negative: recvbuf in sendbuf
};

// The root is of no meaning for collectives without one.
constexpr Uses uses(Collective c, int nranks, int rank, int root) {
  Uses u{c};
  if (layout(c) == Layout::blocks) u.blocks = static_cast<uint32_t>(nranks);
  u.reads = in_is_at_root(c) && rank != root ? 0 : in_is_own_block(c) ? 1 : u.blocks;
  u.writes = out_is_at_root(c) && rank != root ? 0 : out_is_own_block(c) ? 1 : u.blocks;
  u.in_place = in_is_own_block(c) ? rank : out_is_own_block(c) ? -int64_t{rank} : 0;
  return u;
}

// Bytes of a type that is one, as has been checked.
inline size_t checked_size(hktDataType_t type) {
  const size_t size = type_size(type);
  if (size == 0) __builtin_unreachable();
  return size;
}

inline uint64_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

inline bool good_buffers(const Data& d, const Uses& u) {
  const size_t size = type_size(d.type);
  uint64_t all = 0;
  if (size == 0 || __builtin_mul_overflow(d.count, u.blocks * size, &all) || all > uint64_t{INT64_MAX}) return false;
  if (d.count == 0) return true;
  if ((u.reads != 0 && d.in == nullptr) || (u.writes != 0 && d.out == nullptr)) return false;
  if (u.reads == 0 || u.writes == 0) return true;
  const uint64_t s = address(d.in), r = address(d.out), block = d.count * size;
  return s - r == static_cast<uint64_t>(u.in_place) * block ||
         (s < r ? r - s >= u.reads * block : s - r >= u.writes * block);
}
// An error unless the buffers are good after all.
Status explain_buffers(const char* function, const Data& data, const Uses& uses);

inline Status check_buffers(const char* function, const Data& data, const Uses& uses) {
  if (good_buffers(data, uses)) [[likely]]
    return {};
  return explain_buffers(function, data, uses);
}

// Blocks by a table: one entry for each of `nranks` ranks.
Status check_blocks(const char* function, Collective collective, const BlockData& data, int nranks, int rank);

// Where the blocks of a table are in the buffer `name`. Every one lies in 63 bits of bytes.
struct BlockPlaces {
  const char* name;
  const size_t* counts;
  const size_t* displs;  // null: packed
  uint64_t nranks;
  hktDataType_t type;
};
// No two blocks share an element: a buffer that is written.
Status check_disjoint(const char* function, const BlockPlaces& blocks);

// Buffers by a list.
Status check_list(const char* function, const BufferList& list);

Status check_root(const char* function, int root, int nranks);
// An error unless the type takes the operation, or that is one which was made: the communicator knows those.
Status explain_op(const char* function, hktDataType_t type, hktRedOp_t op);

inline Status check_op(const char* function, const Communicator& comm, hktDataType_t type, hktRedOp_t op) {
  if (comm.folds(type, op)) [[likely]]
    return {};
  return explain_op(function, type, op);
}

}  // namespace hocket
