// Store: the write-once key-value store through which the ranks of a job find each other. Everything of bring-up is
// built on these four operations, whatever carries them: a TCP server at rank 0, a shared file, callbacks of the user.
//
// One thread per object; every rank has its own. An error that one rank publishes by fail() is what every other rank
// gets from its pending or next operation: so nobody waits for a job that cannot come up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"

namespace hocket {

class Store {
 public:
  static constexpr size_t kMaxKey = 256;
  static constexpr size_t kMaxValue = size_t{1} << 20;

  // Either all values, in the order of the keys, or, when the deadline passed first, the indices of the absent keys.
  struct Found {
    std::vector<std::string> values;
    std::vector<int> missing;
  };

  virtual ~Store() = default;

  // Stores a value of at most kMaxValue bytes. A key that exists is hktInvalidUsage.
  virtual Status put(std::string_view key, std::string_view value) = 0;
  // Waits until all keys exist or the deadline has passed.
  virtual Result<Found> get(const std::vector<std::string>& keys, Deadline deadline) = 0;
  // Publishes an error; the first one of a job stays. Best effort: it is called when things go wrong already.
  virtual void fail(const Error& error) = 0;
  // Last operation of this rank: it has what it wanted, or has failed. Returns when no other rank needs this process
  // for its own last operations, or the deadline has passed.
  virtual Status leave(Deadline deadline) = 0;
};

// After an error the first ranks stay this long, so that those that come a little later hear of it, too.
constexpr int kLingerMs = 1000;

}  // namespace hocket
