// Loopback: a transport between threads of one process, for tests. Two ways:
// - plain: both ends of a link see the same ring, as over shared memory;
// - with Faults: each link has two rings and a pump between them that can lose messages and hold them back, by a seeded
//   generator, so that messages of different links overtake one another (those of one link never do).
// In both ways a test can cut a link and let a rank die, as seen by its peers.
//
// Threads: each LoopbackTransport and its links belong to one thread, as with any transport; the commands of
// LoopbackFabric are for any thread. A pump works on the threads of both ends, under the link's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "transport/call_table.h"
#include "transport/fault_board.h"
#include "transport/transport.h"

namespace hocket::loopback {

// What happens to messages on their way. The same seed gives the same losses and delays of each link's n-th message.
struct Faults {
  uint64_t seed = 1;
  uint32_t drop_per_million = 0;
  int64_t max_delay_ns = 0;  // uniform in [0, max]; progress() of either end delivers what is due
};

class Channel;

class LoopbackFabric : public std::enable_shared_from_this<LoopbackFabric> {
 public:
  static Result<std::shared_ptr<LoopbackFabric>> create(int nranks, const RingGeometry& geometry,
                                                        std::optional<Faults> faults = std::nullopt);
  ~LoopbackFabric();

  // The transport of one rank; it keeps the fabric alive. Once per rank.
  std::unique_ptr<Transport> transport(int rank);
  Doorbell& bell(int rank) { return rank_of(rank).bell; }

  // The peers of `rank` see it as ended; with Faults, nothing passes to or from it any more.
  void kill(int rank);
  // Both ends of all links from -> to see a fault that names the other end; with Faults, nothing passes on them any
  // more.
  void break_link(int from, int to);
  // The next message pushed on link (from -> to, tag) is lost. Needs Faults.
  Status drop_next(int from, int to, uint16_t tag);

 private:
  friend class LoopbackTransport;
  struct RankState {
    Doorbell bell;
    CallTable calls;
    std::atomic<bool> dead{false};  // killed
    std::atomic<bool> left{false};  // its transport is destroyed
  };

  LoopbackFabric(int nranks, const RingGeometry& geometry, std::optional<Faults> faults);
  RankState& rank_of(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  std::atomic<bool>& broken(int from, int to) {
    return broken_[static_cast<size_t>(from) * ranks_.size() + static_cast<size_t>(to)];
  }
  Result<std::shared_ptr<Channel>> channel(int from, int to, uint16_t tag) HKT_EXCLUDES(mutex_);
  void post(const Fault& fault);
  void ring_all();

  const RingGeometry geometry_;
  const std::optional<Faults> faults_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::vector<std::atomic<bool>> broken_;  // by from * nranks + to
  FaultBoard board_;
  Mutex mutex_;
  std::map<std::tuple<int, int, uint16_t>, std::shared_ptr<Channel>> channels_ HKT_GUARDED_BY(mutex_);
};

}  // namespace hocket::loopback
