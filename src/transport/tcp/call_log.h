// CallLog: the last 64 calls of a rank, as its peers know them. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "transport/call_record.h"

namespace hocket::tcp {

class CallLog {
 public:
  static constexpr uint64_t kEntries = 64;

  uint64_t latest() const { return latest_; }  // sequence number, 0: none
  // `call.seq` is greater than all before.
  void write(const CallRecord& call) {
    entries_[call.seq % kEntries] = call;
    latest_ = call.seq;
  }
  // The call with number `seq`; null if it is unknown or overwritten.
  const CallRecord* find(uint64_t seq) const {
    const CallRecord& call = entries_[seq % kEntries];
    return seq != 0 && call.seq == seq ? &call : nullptr;
  }

 private:
  uint64_t latest_ = 0;
  std::array<CallRecord, kEntries> entries_{};
};

}  // namespace hocket::tcp
