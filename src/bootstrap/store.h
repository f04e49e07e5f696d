// Store: the write-once key-value store through which the ranks of a job find each other. Everything of bring-up is
// built on these few operations, whatever carries them: a TCP server at rank 0, a shared file, callbacks of the user.
//
// One thread per object; every rank has its own. An error that one rank publishes by fail() is what every other rank
// gets from its pending or next operation: so nobody waits for a job that cannot come up.
#pragma once

#include <cstdint>
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
    std::string note = {};  // with missing keys: who was refused, "" if nobody was
  };

  // The keys prefix/0 to prefix/(count - 1).
  struct Series {
    std::string prefix;
    int count = 1;
    std::string key(int index) const { return prefix + "/" + std::to_string(index); }
    std::vector<std::string> keys() const {
      std::vector<std::string> out;
      for (int i = 0; i < count; ++i) out.push_back(key(i));
      return out;
    }
  };
  // What this rank has asked of a server, and the bytes of that both ways; zeros where no server of Hocket is.
  struct Traffic {
    uint64_t requests = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
  };

  virtual ~Store() = default;

  // Stores a value of at most kMaxValue bytes. A key that exists is hktInvalidUsage.
  virtual Status put(std::string_view key, std::string_view value) = 0;
  // Waits until all keys exist or the deadline has passed.
  virtual Result<Found> get(const std::vector<std::string>& keys, Deadline deadline) = 0;
  // put(), then get() of a series: one request where the store can.
  virtual Result<Found> exchange(std::string_view key, std::string_view value, const Series& wanted,
                                 Deadline deadline) {
    HKT_TRY(put(key, value));
    return get(wanted.keys(), deadline);
  }
  virtual Traffic traffic() const { return {}; }
  // Publishes an error; the first one of a job stays. Best effort: it is called when things go wrong already.
  virtual void fail(const Error& error) = 0;
  // Last operation of this rank: it has what it wanted, or has failed. Returns when no other rank needs this process
  // for its own last operations, or the deadline has passed.
  virtual Status leave(Deadline deadline) = 0;
};

// After an error the first ranks stay this long, so that those that come a little later hear of it, too.
constexpr int kLingerMs = 1000;

}  // namespace hocket
