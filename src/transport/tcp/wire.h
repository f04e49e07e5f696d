// Wire format, version 2: what two ranks say to each other on their TCP connections. Fixed sizes, little-endian.
//
// The rank that connects sends a Hello; the other answers with its own; the first then sends a `go` frame on the
// connection it takes (it may have tried several addresses). From there on both send frames: a Header and `length`
// bytes behind it. A pair that sends large messages may have further connections, made in the same way, which carry
// nothing but parts of them, and a goodbye. The plan makes every message of a link one step of one round, so (call,
// tag, sequence) names both on either end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "transport/call_record.h"
#include "transport/link.h"

namespace hocket::tcp {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian and nothing here swaps bytes");

constexpr uint64_t kMagic = 0x54454b434f485bf0;  // bytes f0 5b "HOCKET": no text protocol begins so
constexpr uint32_t kWireVersion = 2;             // 2: parts, and further connections that carry them

struct Hello {
  uint64_t magic = kMagic;
  uint32_t version = kWireVersion;  // these four fields stay where they are in every version
  uint32_t auth = 0;                // 0: the nonce is all the proof there is; no other value is defined
  uint64_t nonce = 0;               // of the job: whoever does not know it is a stray
  uint32_t rank = 0;                // of the sender
  uint32_t size = 0;                // number of ranks
  uint32_t epoch = 0;
  uint32_t depth = 0;  // ring geometry
  uint32_t slot_bytes = 0;
  uint32_t ack_batch = 0;
  uint32_t tags = 0;
  uint32_t purpose = 0;  // Purpose
};
static_assert(sizeof(Hello) == 56 && std::has_unique_object_representations_v<Hello>);
static_assert(offsetof(Hello, version) == 8 && offsetof(Hello, auth) == 12 && offsetof(Hello, nonce) == 16);

enum class Purpose : uint32_t {
  carry = 0,  // to carry frames
  watch = 1,  // only to see when the other process ends; never answered
  tell = 2,   // a fault frame follows, and nothing else; never answered
  share = 3,  // to carry parts of large messages, of a pair that is connected
};

enum class Kind : uint8_t {
  data = 1,      // a message of a link; payload: its bytes
  ack = 2,       // credit: `call` messages of the link (receiver of this frame -> its sender, tag) are done with
  announce = 3,  // payload: the CallRecord of the call that the sender has entered
  fault = 4,     // payload: FaultHead, then text
  go = 5,        // this is the connection to use
  goodbye = 6,   // nothing will follow: the sender leaves in good order
  part = 7,      // of a message of a link, payload: its bytes; see `call`. The first one comes as a message would
};

struct Header {
  uint64_t length = 0;     // bytes of payload behind this header
  uint64_t call = 0;       // number of the call that the sender is in; see Kind::ack. Part: Place of its payload
  uint32_t epoch = 0;      // of the communicator: late frames of another one are refused
  uint32_t signature = 0;  // data: of the call, as in the slot's tag
  uint32_t sequence = 0;   // data: number of the message on its link, from 1, modulo 2^32
  uint16_t tag = 0;        // data and ack: which link
  Kind kind = Kind::data;
  uint8_t zero = 0;
};
static_assert(sizeof(Header) == 32 && std::has_unique_object_representations_v<Header>);
static_assert(offsetof(Header, call) == 8 && offsetof(Header, epoch) == 16 && offsetof(Header, signature) == 20 &&
              offsetof(Header, sequence) == 24 && offsetof(Header, tag) == 28 && offsetof(Header, kind) == 30);

// Where the payload of a part belongs.
struct Place {
  uint32_t offset = 0;
  uint32_t total = 0;  // bytes of the message
};
static_assert(sizeof(Place) == sizeof(Header::call));

struct FaultHead {
  int32_t code = 0;
  int32_t rank = 0;
  uint64_t call = 0;
};
static_assert(sizeof(FaultHead) == 16);

constexpr size_t kFaultText = 200;                              // bytes of a fault's text that travel
constexpr size_t kMaxControl = sizeof(FaultHead) + kFaultText;  // longest payload of a frame that is not data
static_assert(kMaxControl >= sizeof(CallRecord));

constexpr uint16_t kMaxTags = 64;

// What both ends of every link of a communicator have in common.
struct Limits {
  RingGeometry geometry;
  uint16_t tags = 0;  // in [1, kMaxTags]
  uint32_t epoch = 0;
};

// How messages are shared out between the connections of a pair.
struct Striping {
  uint32_t sockets = 1;        // of a pair, as the higher rank wants it; at most kMaxSockets
  uint32_t from = 128 * 1024;  // bytes of a message that is
  uint32_t part = 64 * 1024;   // bytes that a connection takes at a time
};
constexpr uint32_t kMaxSockets = 16;

}  // namespace hocket::tcp
