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

// Where a rendezvous server is, and what it asks for.
struct Contact {
  uint64_t nonce = 0;
  std::vector<Address> addresses;
};

// A unique id and the sockets that listen at its addresses, with no server yet.
struct OpenedId {
  hktUniqueId id{};
  uint64_t nonce = 0;
  std::vector<Fd> listeners;
};
Result<OpenedId> open_unique_id();

// Starts a server in this process and describes it. The server ends with the one job that uses the id, or with the
// process; an id that nobody uses keeps a thread and its sockets.
Status make_unique_id(hktUniqueId* id);

// The id may come from anywhere: hktInvalidArgument if it is none.
Result<Contact> read_unique_id(const hktUniqueId& id);

}  // namespace hocket
