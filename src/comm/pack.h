// Bytes of small records for the exchanges of bring-up. What is read is hostile: every read checks what is left.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace hocket {

class Packer {
 public:
  template <class T>
  Packer& put(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Packer& text(std::string_view s) {
    put(static_cast<uint32_t>(s.size()));
    bytes_.append(s);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Each reader returns false when the bytes are short or out of range; the target is then unspecified.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  bool get(T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return true;
  }
  bool text(std::string& s, size_t most) {
    uint32_t size = 0;
    if (!get(size) || size > most || size > rest_.size()) return false;
    s.assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return true;
  }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace hocket
