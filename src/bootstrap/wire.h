// Bytes as they go between ranks of different machines: little-endian numbers, byte strings with a length in front.
// Reader takes hostile input: it never reads past the end and never allocates; after the first fault it yields zeros
// and empty strings, and ok() stays false.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/text.h"

namespace hocket::wire {

class Writer {
 public:
  Writer& u8(uint8_t v) { return number(v, 1); }
  Writer& u16(uint16_t v) { return number(v, 2); }
  Writer& u32(uint32_t v) { return number(v, 4); }
  Writer& u64(uint64_t v) { return number(v, 8); }
  Writer& raw(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }
  // At most 4 GiB - 1 bytes: callers bound what they send far below.
  Writer& bytes(std::string_view bytes) { return u32(static_cast<uint32_t>(bytes.size())).raw(bytes); }
  // In as few bytes as it needs, 7 bits a byte, the lowest first.
  Writer& compact(uint32_t v) {
    for (; v > 127; v >>= 7) u8(static_cast<uint8_t>(v | 128));
    return u8(static_cast<uint8_t>(v));
  }
  const std::string& view() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  Writer& number(uint64_t v, int size) {
    for (int i = 0; i < size; ++i) out_ += static_cast<char>(v >> (8 * i) & 255);
    return *this;
  }
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  uint32_t compact() {
    uint64_t v = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      const uint8_t part = u8();
      v |= static_cast<uint64_t>(part & 127) << shift;
      if (part < 128) {
        ok_ = ok_ && v <= UINT32_MAX;
        return ok_ ? static_cast<uint32_t>(v) : 0;
      }
    }
    ok_ = false;
    return 0;
  }
  // A view into the input.
  std::string_view raw(size_t size) {
    if (!ok_ || size > in_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view out = in_.substr(0, size);
    in_.remove_prefix(size);
    return out;
  }
  std::string_view bytes() { return raw(u32()); }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && in_.empty(); }  // all read, nothing left
  size_t left() const { return ok_ ? in_.size() : 0; }

 private:
  uint64_t number(size_t size) {
    const std::string_view b = raw(size);
    uint64_t v = 0;
    for (size_t i = b.size(); i-- > 0;) v = v << 8 | static_cast<unsigned char>(b[i]);
    return v;
  }
  std::string_view in_;
  bool ok_ = true;
};

// An error as bytes. What comes back is one line of text and a code that exists, whatever the bytes were.
inline std::string pack_error(const Error& error) {
  return Writer().u32(static_cast<uint32_t>(error.code)).bytes(error.text.substr(0, 4000)).take();
}
inline Error unpack_error(std::string_view bytes) {
  Reader in(bytes);
  const uint32_t code = in.u32();
  const std::string text = one_line(in.bytes());
  const bool known = code > hktSuccess && code <= hktAborted;
  return Error{known ? static_cast<Code>(code) : hktRemoteError,
               in.done() && !text.empty() ? text : "another rank failed during bring-up"};
}

}  // namespace hocket::wire
