// FaultBoard: the one fault of a group of ranks, in memory that all of them map. The first to post wins; everybody
// reads the same fault. Any thread, any process. All-zero memory is an empty board.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>

#include "base/deadline.h"
#include "transport/transport.h"

namespace hocket {

class alignas(64) FaultBoard {
 public:
  static constexpr size_t kText = 200;

  // False: another fault was first. Either way there is one to read when this returns, unless the process that was
  // first has died while it wrote: that is waited for no longer than kPatienceMs.
  bool post(const Fault& fault) {
    uint32_t empty = kEmpty;
    if (!state_.compare_exchange_strong(empty, kWriting, std::memory_order_relaxed)) {
      const Deadline deadline = Deadline::in_ms(kPatienceMs);
      while (state_.load(std::memory_order_acquire) == kWriting && !deadline.passed()) std::this_thread::yield();
      return false;
    }
    code_ = static_cast<int32_t>(fault.code);
    rank_ = fault.rank;
    call_ = fault.call;
    length_ = static_cast<uint32_t>(std::min(fault.text.size(), kText));
    std::memcpy(text_.data(), fault.text.data(), length_);
    state_.store(kPosted, std::memory_order_release);  // release: what was written above goes with it
    return true;
  }

  std::optional<Fault> read() const {
    if (state_.load(std::memory_order_acquire) != kPosted) return std::nullopt;
    // The length is bounded again: the memory belongs to other processes, too.
    return Fault{static_cast<Code>(code_), rank_, call_, std::string(text_.data(), std::min<size_t>(length_, kText))};
  }

 private:
  static constexpr int kPatienceMs = 100;
  static constexpr uint32_t kEmpty = 0, kWriting = 1, kPosted = 2;
  std::atomic<uint32_t> state_{kEmpty};
  int32_t code_ = 0;
  int32_t rank_ = -1;
  uint32_t length_ = 0;
  uint64_t call_ = 0;
  std::array<char, kText> text_{};
};

}  // namespace hocket
