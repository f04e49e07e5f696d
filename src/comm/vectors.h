// Collectives whose blocks only their two ranks know: made of transfers, one for each pair, empty ones too, so that
// every pair finds out whether it agrees. If not, all ranks fail with an error that names both.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace hocket {

// The blocks of one side, by rank: counts and places in elements. displs null: packed.
struct BlockTable {
  const uint64_t* counts = nullptr;
  const uint64_t* displs = nullptr;
};
// The elements between a table's first and its last one, with what lies between; 0 and 0 if there are none.
struct Extent {
  uint64_t first = 0, end = 0;
};
Extent extent(const BlockTable& table, int ranks);

struct VectorSend {
  const void* buf = nullptr;
  BlockTable blocks;
};
struct VectorReceive {
  void* buf = nullptr;
  BlockTable blocks;
};

// Arguments have been checked. Tables are copied.
Status all_to_all_v(Communicator& comm, const VectorSend& send, const VectorReceive& receive, hktDataType_t type,
                    const CallOptions& options);
struct Block {
  const void* send = nullptr;
  void* receive = nullptr;
  uint64_t count = 0;
};
// Every rank's block (`mine.send`) comes to the root, which has the table; and the reverse (`mine.receive`).
struct Rooted {
  int root = 0;
  hktDataType_t type = hktInt8;
};
Status gather_v(Communicator& comm, const Block& mine, const VectorReceive& all, const Rooted& how,
                const CallOptions& options);
Status scatter_v(Communicator& comm, const VectorSend& all, const Block& mine, const Rooted& how,
                 const CallOptions& options);

}  // namespace hocket
