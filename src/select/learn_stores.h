// Whether messages are better stored through or past the caches is a property of the pair of cores, and it changes when
// a virtual machine's CPUs are moved: 2 GB/s one way against 9 to 14 the other, either way round. So every rank keeps
// trying both, and takes what is faster now. The result of a call does not depend on it, so ranks need not agree; they
// explore in the same calls, because they count the same calls.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace hocket::select {

// For the calls of one collective and size bucket. One thread.
class StoreLearner {
 public:
  // Whether the call that comes now stores its messages past the caches.
  bool next() {
    ++calls_;
    if (calls_ <= 2 * kKept) return trying_ = calls_ % 2 == 0;
    const bool best = *std::min_element(ns_[1].begin(), ns_[1].end()) < *std::min_element(ns_[0].begin(), ns_[0].end());
    // Two tries in a row, as the first one after a change finds the slots in the wrong cache.
    return trying_ = calls_ % kExplore < 2 ? !best : best;
  }
  // How long it took on this rank. The least of the last few is kept in view: what disturbs a call only makes it
  // longer.
  void took(int64_t ns) {
    auto& kept = ns_[trying_ ? 1 : 0];
    kept[at_[trying_ ? 1 : 0]++ % kKept] = ns;
  }

 private:
  static constexpr uint32_t kKept = 2, kExplore = 64;
  std::array<std::array<int64_t, kKept>, 2> ns_{};
  std::array<uint32_t, 2> at_{};
  uint32_t calls_ = 0;
  bool trying_ = false;
};

}  // namespace hocket::select
