// Requests: what a caller holds of operations that are not done yet.
//
// A handle is no pointer but a number: place in a table and how often the place has been used. So a handle that has
// been waited for, or never was one, is found out and never followed. Places are made in blocks and stay; requests of a
// communicator keep theirs among themselves, so the table is locked once in a while only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "comm/busy.h"

namespace hocket {

// Operations that are waited for together. expect() before any of them can finish; the rest from any thread.
class Tally {
 public:
  void expect(uint32_t operations = 1) { pending_.fetch_add(operations, std::memory_order_relaxed); }
  void finish() { pending_.fetch_sub(1, std::memory_order_release); }  // release: what the operation wrote is seen
  // The first error stays.
  void finish(const Error& e) {
    if (!failing_.exchange(true, std::memory_order_relaxed)) error_ = e;
    finish();
  }
  bool done() const { return pending_.load(std::memory_order_acquire) == 0; }
  // --- once done
  Status result() const { return failing_.load(std::memory_order_relaxed) ? Status(error_) : Status(); }
  void reset() {
    failing_.store(false, std::memory_order_relaxed);
    error_ = Error{};
  }

 private:
  std::atomic<uint32_t> pending_{0};
  std::atomic<bool> failing_{false};
  Error error_{};
};

struct Request : Tally {
  uint32_t place = 0;
  uint64_t uses = 0;
  std::atomic<uint64_t> id{0};               // 0: not in a caller's hands
  std::vector<std::shared_ptr<Gate>> gates;  // of the communicators concerned, each once
};

class RequestTable {
 public:
  static RequestTable& get();

  // A request that nobody has, and its way back. Any thread.
  Result<Request*> lease() HKT_EXCLUDES(mutex_);
  void give_back(Request* request) HKT_EXCLUDES(mutex_);

  // The handle for a caller.
  static hktRequest_t publish(Request& request);
  // The request of a handle; null: it has been finished, or is none. Any thread.
  Request* find(hktRequest_t handle) const;

 private:
  static constexpr uint32_t kPlaceBits = 20, kBlock = 256;
  struct Block {
    std::array<Request, kBlock> requests;
  };

  Mutex mutex_;
  std::vector<Request*> free_ HKT_GUARDED_BY(mutex_);
  uint32_t made_ HKT_GUARDED_BY(mutex_) = 0;
  std::array<std::atomic<Block*>, (1u << kPlaceBits) / kBlock> blocks_{};
};

}  // namespace hocket
