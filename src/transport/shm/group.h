// How the ranks of one host come to share a Segment. The leader (lowest rank of the group) creates it and hands its
// descriptor out over a Unix socket in the abstract namespace, which leaves no file behind and is private to a network
// namespace. Whether a rank can map the segment decides whether it is on this host at all: an error of attach() means
// "use another transport".
//
// Order: Leader::create must have returned before another rank calls attach (the communicator's bring-up sees to it),
// serve must follow, stop after all have attached.
#pragma once

#include <memory>
#include <thread>

#include "base/deadline.h"
#include "base/result.h"
#include "base/socket.h"
#include "transport/shm/segment.h"

namespace hocket::shm {

class Leader {
 public:
  // The segment, which the leading rank has joined, and the listening socket.
  static Result<std::unique_ptr<Leader>> create(const GroupConfig& config);
  ~Leader() { stop(); }
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  // Starts the thread that hands the descriptor out, until the deadline or stop(). Clients of other users, clients that
  // do not know the nonce and clients that say nothing disturb nobody.
  Status serve(Deadline deadline);
  void stop();
  std::shared_ptr<Segment> segment() const { return segment_; }

 private:
  Leader() = default;
  void run(Deadline deadline);  // the thread
  void hand_out(Deadline deadline);

  std::shared_ptr<Segment> segment_;
  uint64_t nonce_ = 0;
  LogId log_;
  Fd listener_;
  Fd wake_;  // eventfd: stop() ends the thread
  std::thread thread_;
  int creator_pid_ = 0;
};

// The segment of this group, which config.my_rank has joined. In the leader's process it is the leader's own mapping.
// hktRemoteError: nobody listens there (another network namespace, or the leader has failed); hktTimeout: no answer.
Result<std::shared_ptr<Segment>> attach(const GroupConfig& config, Deadline deadline);

// The same for a communicator made from another one, in that one's file: nothing is handed out. The leader makes the
// segment and tells the others its offset; they attach after that. Both join config.my_rank.
Result<std::shared_ptr<Segment>> create_in(const std::shared_ptr<File>& file, const GroupConfig& config);
Result<std::shared_ptr<Segment>> attach_in(const std::shared_ptr<File>& file, uint64_t offset,
                                           const GroupConfig& config);

}  // namespace hocket::shm
