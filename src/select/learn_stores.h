// Whether messages are better stored through or past the caches is a property of the pair of cores, and it changes when
// a virtual machine's CPUs are moved: 2 GB/s one way against 9 to 14 the other, either way round. So every rank keeps
// trying both, and takes what is faster now. The result of a call does not depend on it, so ranks need not agree; they
// explore in the same calls, because they count the same calls.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace hocket::select {

// For the calls of one collective and size bucket. One thread.
class StoreLearner {
 public:
  // Whether the call that comes now stores its messages past the caches. `prior` is what another size has found to be
  // better: it is believed until this size has tried both.
  bool next(std::optional<bool> prior) {
    ++calls_;
    if (!knows()) {
      if (!prior) return trying_ = calls_ % 2 == 0;
      return trying_ = calls_ > kBelieved ? !*prior : *prior;
    }
    const bool best = better();
    // Two tries in a row, as the first one after a change finds the slots in the wrong cache.
    return trying_ = calls_ % kExplore >= kExplore - 2 ? !best : best;
  }
  // How long it took on this rank. The least of the last few is kept in view: what disturbs a call only makes it
  // longer.
  void took(int64_t ns) {
    Tried& t = tried_[trying_ ? 1 : 0];
    t.ns[t.times++ % kKept] = ns;
  }
  // Both ways have been tried often enough.
  bool knows() const { return tried_[0].times >= kKept && tried_[1].times >= kKept; }
  // Past the caches is better; knows() is true.
  bool better() const { return tried_[1].least() < tried_[0].least(); }
  // What other sizes may believe: nothing unless one way is a quarter faster at least.
  std::optional<bool> clearly_better() const {
    if (!knows()) return std::nullopt;
    const int64_t through = tried_[0].least(), past = tried_[1].least();
    if (4 * std::min(through, past) > 3 * std::max(through, past)) return std::nullopt;
    return past < through;
  }

 private:
  static constexpr uint32_t kKept = 2, kExplore = 64, kBelieved = 6;
  struct Tried {
    std::array<int64_t, kKept> ns{};
    uint32_t times = 0;
    int64_t least() const { return *std::min_element(ns.begin(), ns.end()); }
  };
  std::array<Tried, 2> tried_{};
  uint32_t calls_ = 0;
  bool trying_ = false;
};

}  // namespace hocket::select
