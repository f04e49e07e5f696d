// Many values in one reply, each as what is new in it: ranks say nearly the same of themselves, so that a series of n
// values is little longer than one of them and n times the bytes in which they differ.
//
// A series is a row of runs: u repeats (from 1 on) | u prefix | u suffix | u length | that many bytes, where "u" is
// Writer::compact. A run's value has its first `prefix` and last `suffix` bytes from the value before it (the first
// run from "") and the bytes between them from here.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/wire.h"

namespace hocket::wire {

inline std::string pack_series(const std::vector<std::string_view>& values) {
  Writer out;
  std::string_view last;
  for (size_t i = 0; i < values.size();) {
    const std::string_view value = values[i];
    size_t repeats = 1;
    while (i + repeats < values.size() && values[i + repeats] == value) ++repeats;
    const size_t most = std::min(value.size(), last.size());
    size_t prefix = 0, suffix = 0;
    while (prefix < most && value[prefix] == last[prefix]) ++prefix;
    while (suffix < most - prefix && value[value.size() - 1 - suffix] == last[last.size() - 1 - suffix]) ++suffix;
    const std::string_view middle = value.substr(prefix, value.size() - prefix - suffix);
    out.compact(static_cast<uint32_t>(repeats)).compact(static_cast<uint32_t>(prefix));
    out.compact(static_cast<uint32_t>(suffix)).compact(static_cast<uint32_t>(middle.size())).raw(middle);
    last = value;
    i += repeats;
  }
  return out.take();
}

// Nothing if the bytes are no series of exactly `count` values, or they would take more than `most` bytes.
inline std::optional<std::vector<std::string>> unpack_series(std::string_view bytes, size_t count, size_t most) {
  std::vector<std::string> out;
  std::string last;
  size_t total = 0;
  Reader in(bytes);
  while (in.ok() && in.left() > 0) {
    const size_t repeats = in.compact(), prefix = in.compact(), suffix = in.compact();
    const std::string_view middle = in.raw(in.compact());
    if (!in.ok() || repeats == 0 || repeats > count - out.size()) return std::nullopt;
    if (prefix > last.size() || suffix > last.size() - prefix) return std::nullopt;
    std::string value = last.substr(0, prefix);
    value += middle;
    value.append(last, last.size() - suffix, suffix);
    total += value.size() * repeats;
    if (total > most) return std::nullopt;
    out.insert(out.end(), repeats, value);
    last = std::move(value);
  }
  if (!in.done() || out.size() != count) return std::nullopt;
  return out;
}

}  // namespace hocket::wire
