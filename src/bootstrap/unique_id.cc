#include "bootstrap/unique_id.h"

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/network_env.h"
#include "base/random.h"
#include "bootstrap/interfaces.h"
#include "bootstrap/tcp_server.h"
#include "bootstrap/wire.h"

namespace hocket {
namespace {

constexpr std::string_view kMagic = "HKTU";
constexpr uint8_t kVersion = 1;
constexpr size_t kMaxAddresses = 8;

}  // namespace

Result<OpenedId> open_unique_id() {
  HKT_ASSIGN(const std::vector<Interface> interfaces, usable_interfaces());
  OpenedId out;
  HKT_ASSIGN(out.nonce, random_bits());
  std::string addresses;
  std::optional<Error> failure;
  const std::string head = wire::Writer().raw(kMagic).u8(kVersion).u8(0).u64(out.nonce).take();
  for (const Interface& interface : interfaces) {
    if (out.listeners.size() == kMaxAddresses) break;
    Result<Fd> listener = listen_in_range(interface.address);
    if (!listener) {
      failure = std::move(listener.error());
      continue;
    }
    HKT_ASSIGN(const Address bound, local_address(listener->get()));
    const std::string code = bound.encode();
    if (head.size() + addresses.size() + code.size() > sizeof out.id.internal) continue;
    addresses += code;
    out.listeners.push_back(std::move(*listener));
  }
  if (out.listeners.empty()) return failure ? *std::move(failure) : error(hktInternalError, "no address fits an id");
  const std::string bytes = head + addresses;
  std::memcpy(out.id.internal, bytes.data(), bytes.size());
  out.id.internal[kMagic.size() + 1] = static_cast<char>(out.listeners.size());
  return out;
}

Status make_unique_id(hktUniqueId* id) {
  HKT_ASSIGN(OpenedId opened, open_unique_id());
  TcpServer::Options options;
  options.nonce = opened.nonce;
  HKT_ASSIGN(options.secret, Secret::from_environment());
  HKT_TRY(TcpServer::start_detached(std::move(opened.listeners), options));
  *id = opened.id;
  return {};
}

Result<Contact> read_unique_id(const hktUniqueId& id) {
  const std::string_view bytes(id.internal, sizeof id.internal);
  wire::Reader in(bytes);
  Contact out;
  const bool magic = in.raw(kMagic.size()) == kMagic && in.u8() == kVersion;
  const size_t count = in.u8();
  out.nonce = in.u64();
  std::string_view rest = bytes.substr(bytes.size() - in.left());
  for (size_t i = 0; magic && i < count; ++i) {
    const std::optional<Address> address = Address::decode(rest);
    if (!address || address->port() == 0) break;
    out.addresses.push_back(*address);
  }
  if (!magic || count == 0 || out.addresses.size() != count || out.nonce == 0) {
    return error(hktInvalidArgument,
                 "the unique id is not valid: take it from hktGetUniqueId and hand on all of its %zu bytes unchanged",
                 bytes.size());
  }
  return out;
}

}  // namespace hocket
