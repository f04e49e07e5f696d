// Which pairs of addresses two hosts may reach each other by. Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "base/socket.h"

namespace hocket {

// An address of this host with the length of its network's prefix in bits.
struct Net {
  Address address;  // port 0
  int prefix = 0;   // 0: unknown
};
enum class Bound : uint8_t { where_it_helps, always };  // always: only the addresses of `own` may be used

// One way to a peer. With two interfaces in one network, or an interface that was chosen, the system's own choice of
// the source may be the wrong one.
struct Way {
  Address to;
  Address from = {};  // invalid: as the system routes
  std::string text() const;
};

bool same_network(const Net& own, const Address& peer);
// The ways to a peer with addresses `peers`, in their order: from each own address in the network of one; else, from
// wherever the system likes, or from each own address of the family if only those may be used.
std::vector<Way> ways_to(const std::vector<Address>& peers, const std::vector<Net>& own, Bound bound);

}  // namespace hocket
