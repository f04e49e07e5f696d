#include "base/routes.h"

namespace hocket {
namespace {

// The bytes of an address, most significant first.
std::string bytes_of(const Address& address) { return address.encode().substr(3); }

}  // namespace

std::string Way::text() const { return from.valid() ? to.text() + " from " + from.host() : to.text(); }

bool same_network(const Net& own, const Address& peer) {
  if (own.prefix <= 0 || own.address.family() != peer.family()) return false;
  const std::string a = bytes_of(own.address), b = bytes_of(peer);
  for (size_t i = 0; i < a.size(); ++i) {
    const int bits = own.prefix - static_cast<int>(8 * i);
    if (bits <= 0) break;
    const int mask = bits >= 8 ? 255 : 255 & ~(255 >> bits);
    if (((a[i] ^ b[i]) & mask) != 0) return false;
  }
  return true;
}

std::vector<Way> ways_to(const std::vector<Address>& peers, const std::vector<Net>& own, Bound bound) {
  std::vector<Way> out;
  for (const Address& peer : peers) {
    const size_t before = out.size();
    for (const Net& net : own) {
      if (same_network(net, peer)) out.push_back({peer, net.address});
    }
    if (out.size() > before) continue;
    if (bound == Bound::where_it_helps) {
      out.push_back({peer});
      continue;
    }
    for (const Net& net : own) {
      if (net.address.family() == peer.family()) out.push_back({peer, net.address});
    }
  }
  return out;
}

}  // namespace hocket
