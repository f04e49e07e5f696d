// A point in time that a whole operation must end by. Steady clock, nanoseconds. Value type, any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace hocket {

inline int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

class Deadline {
 public:
  static Deadline never() { return Deadline(INT64_MAX, INT64_MAX); }
  static Deadline at(int64_t ns) { return Deadline(ns, ns - now_ns()); }
  // Negative means never; a span that would overflow means never, too.
  static Deadline in_ms(int64_t ms) {
    const int64_t now = now_ns();
    return ms < 0 || ms > (INT64_MAX - now) / 1'000'000 ? never() : Deadline(now + ms * 1'000'000, ms * 1'000'000);
  }
  int64_t ns() const { return ns_; }
  // How long it was when it was set: what a message about it says.
  int64_t span_ns() const { return span_ns_; }
  bool passed() const { return ns_ != INT64_MAX && now_ns() >= ns_; }
  // Time left in ms, rounded up, within [0, cap]: what poll() and friends take.
  int left_ms(int cap = 1'000'000'000) const {
    if (ns_ == INT64_MAX) return cap;
    const int64_t ms = (ns_ - now_ns() + 999'999) / 1'000'000;
    return static_cast<int>(std::clamp<int64_t>(ms, 0, cap));
  }

 private:
  Deadline(int64_t ns, int64_t span_ns) : ns_(ns), span_ns_(span_ns) {}
  int64_t ns_, span_ns_;
};

inline Deadline earlier(Deadline a, Deadline b) { return a.ns() <= b.ns() ? a : b; }

}  // namespace hocket
