// What is inside an hktUniqueId: the addresses at which the process that made it runs a rendezvous server, and a nonce
// without which that server talks to nobody.
//
//   "HKTU" | u8 version | u8 number of addresses | u64 nonce | addresses (Address::encode) | zeros to 128 bytes
#pragma once

#include <cstdint>
#include <vector>

#include "base/socket.h"
#include "hocket/hocket.h"

namespace hocket {

struct UniqueIdContent {
  uint64_t nonce = 0;
  std::vector<Address> addresses;
};

// Starts a server in this process and describes it. The server ends with the one job that uses the id, or with the
// process; an id that nobody uses keeps a thread and its sockets.
Status make_unique_id(hktUniqueId* id);

// The id may come from anywhere: hktInvalidArgument if it is none.
Result<UniqueIdContent> read_unique_id(const hktUniqueId& id);

// 64 random bits from the system, never 0.
uint64_t random_nonce();

}  // namespace hocket
