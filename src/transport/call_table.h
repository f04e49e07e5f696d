// CallTable: the last 64 calls of a rank, readable by its peers while it goes on. Lives in memory that writer and
// readers map. One writer (the rank's own thread); any number of readers in any process. All-zero memory is an empty
// table.
//
// Each entry is guarded by the call's sequence number in `check`: the writer clears it, writes, and sets it. Words are
// stored with release and loaded with acquire: a reader that sees one new word also sees the cleared check in its
// second look, so a torn record is never returned (and no stand-alone fence is needed, which thread sanitizers do not
// follow).
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

#include "transport/call_record.h"

namespace hocket {

class CallTable {
 public:
  static constexpr uint64_t kEntries = 64;

  // `call.seq` is at least 1 and grows from call to call.
  void write(const CallRecord& call) {
    const auto words = std::bit_cast<std::array<uint64_t, kWords>>(call);
    Entry& e = entries_[call.seq % kEntries];
    e.check.store(0, std::memory_order_relaxed);
    for (size_t i = 0; i < kWords; ++i) e.words[i].store(words[i], std::memory_order_release);
    e.check.store(call.seq, std::memory_order_release);
    latest_.store(call.seq, std::memory_order_release);
  }

  // The call with number `seq`, or the latest if 0; nothing if it was never written, is overwritten, or is being
  // written.
  std::optional<CallRecord> read(uint64_t seq) const {
    if (seq != 0) return try_read(seq);
    for (int attempt = 0; attempt < 16; ++attempt) {  // the writer may lap us; each attempt starts from a newer call
      const uint64_t latest = latest_.load(std::memory_order_acquire);
      if (latest == 0) return std::nullopt;
      if (auto call = try_read(latest)) return call;
    }
    return std::nullopt;
  }

 private:
  static constexpr size_t kWords = sizeof(CallRecord) / sizeof(uint64_t);
  struct alignas(64) Entry {
    std::atomic<uint64_t> check{0};  // sequence number of the record, 0 while it is being written
    std::array<std::atomic<uint64_t>, kWords> words{};
  };
  static_assert(sizeof(Entry) == 64 && sizeof(CallRecord) % sizeof(uint64_t) == 0);

  std::optional<CallRecord> try_read(uint64_t seq) const {
    const Entry& e = entries_[seq % kEntries];
    if (e.check.load(std::memory_order_acquire) != seq) return std::nullopt;
    std::array<uint64_t, kWords> words{};
    for (size_t i = 0; i < kWords; ++i) words[i] = e.words[i].load(std::memory_order_acquire);
    if (e.check.load(std::memory_order_relaxed) != seq) return std::nullopt;
    return std::bit_cast<CallRecord>(words);
  }

  std::atomic<uint64_t> latest_{0};
  std::array<Entry, kEntries> entries_{};
};

}  // namespace hocket
