// What the TCP store's client and server say to each other. All numbers little-endian.
//
// hello   (client, once)  "HKTB" | u16 wire version | u16 0 | u32 rank | u32 ranks | u64 nonce      24 bytes, fixed
// welcome (server, once)  "HKTB" | u16 wire version | u16 0                                          8 bytes, fixed
// then requests and replies in turn, never a reply without a request: u32 length of the rest | u8 op | body
//   put      bytes key, bytes value                      -> done | exists | failed
//   get      u32 timeout in ms, u32 count, bytes key...  -> values (bytes value...) | missing | failed
//   exchange bytes key, bytes value, u32 timeout in ms, bytes prefix, u32 count
//                                                       -> series (series.h) | missing | exists | failed
//            puts, then gets prefix/0 to prefix/(count - 1)
//   fail     u32 code, bytes text                        -> done
//   bye      nothing                                     -> no reply; the connection ends
//   failed   u32 code, bytes text
//   missing  bytes note, u32 index...   the keys that are not there; who was refused, if anybody was
// In a job with a secret both sides prove that they know it before the hello (base/proof.h).
// "bytes" is u32 length | that many bytes. The nonce in a hello is that of the unique id, 0 for a tcp:// URL. The first
// eight bytes of both greetings have the same meaning in every version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bootstrap/store.h"
#include "bootstrap/wire.h"

namespace hocket::tcp_protocol {

constexpr std::string_view kMagic = "HKTB";
constexpr uint16_t kWireVersion = 2;
constexpr size_t kHelloSize = 24;
constexpr size_t kWelcomeSize = 8;

enum class Op : uint8_t {
  put = 1,
  get = 2,
  fail = 3,
  bye = 4,
  exchange = 5,
  done = 16,
  exists = 17,
  values = 18,
  missing = 19,
  failed = 20,
  series = 21,
};

inline std::string frame(Op op, std::string_view body) {
  return wire::Writer().u32(static_cast<uint32_t>(body.size() + 1)).u8(static_cast<uint8_t>(op)).raw(body).take();
}

// The longest request of a job: a put of the longest value, or a get of one key of usual length per rank.
constexpr size_t max_request(uint32_t nranks) { return Store::kMaxValue + Store::kMaxKey + 64 + size_t{64} * nranks; }

}  // namespace hocket::tcp_protocol
