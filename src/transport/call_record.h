// CallRecord: what a collective call is, for comparing between ranks and for messages to people. 40 bytes, same layout
// in shared memory and on the wire (native little-endian; the hello refuses others).
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace hocket {

struct CallRecord {
  uint64_t seq = 0;         // number of the call on its communicator, from 1
  uint64_t count = 0;       // elements, as the caller counts them; with a table: of all blocks or buffers
  uint32_t collective = 0;  // Collective
  uint32_t type = 0;        // hktDataType_t
  uint32_t op = 0;          // hktRedOp_t; 0 when there is none
  uint32_t root = 0;        // 0 when there is none; of a list: how many buffers
  uint32_t signature = 0;   // hash of all else here and the communicator's epoch; never 0
  uint32_t table = 0;       // hash of a table of blocks or buffers of different sizes; 0 when there is none
};
static_assert(sizeof(CallRecord) == 40 && std::is_trivially_copyable_v<CallRecord>);

inline bool same_call(const CallRecord& a, const CallRecord& b) {
  return a.seq == b.seq && a.count == b.count && a.collective == b.collective && a.type == b.type && a.op == b.op &&
         a.root == b.root && a.table == b.table;
}

}  // namespace hocket
