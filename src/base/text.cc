#include "base/text.h"

#include <charconv>

#include "base/result.h"

namespace hocket {
namespace {

void append_escaped(std::string& out, unsigned char byte) {
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\x";
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

}  // namespace

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string in_quotes(std::string_view text, size_t most) {
  std::string out = "'";
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      append_escaped(out, byte);
    } else {
      out += c;
    }
  }
  out += text.size() > most ? "...'" : "'";
  return out;
}

std::string one_line(std::string_view text, size_t most) {
  std::string out;
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      append_escaped(out, byte);
    } else {
      out += c;
    }
  }
  if (text.size() > most) out += "...";
  return out;
}

std::string number_list(const std::vector<int>& numbers) {
  std::string out;
  for (size_t first = 0; first < numbers.size();) {
    size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!out.empty()) out += ", ";
    out += std::to_string(numbers[first]);
    // Two neighbours read better as "5, 6" than as a range.
    if (last == first + 1) out += ", " + std::to_string(numbers[last]);
    if (last > first + 1) out += "-" + std::to_string(numbers[last]);
    first = last + 1;
  }
  return out;
}

}  // namespace hocket
