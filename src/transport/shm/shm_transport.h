// Transport between the ranks of one host: both ends of a link see the same ring in shared memory, so there is no pump,
// nothing to progress and nothing to flush. Contract in transport/transport.h; life and death of ranks in segment.h.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace hocket::shm {

class ShmTransport final : public Transport {
 public:
  // `segment` is what Leader::segment() or attach() gave this rank; its place in the group is given up with the
  // transport.
  ShmTransport(std::shared_ptr<Segment> segment, const GroupConfig& config);
  ~ShmTransport() override;

  const char* name() const override { return "shm"; }
  RingGeometry geometry() const override { return config_.geometry; }
  Result<Link> open_send(int peer, uint16_t tag) override;
  Result<Link> open_recv(int peer, uint16_t tag) override;
  bool pumped() const override { return false; }
  Regions* regions() override { return &regions_; }
  void announce(const CallRecord& call) override { segment_->block(me_).calls.write(call); }
  std::optional<CallRecord> announced(int peer, uint64_t seq) const override;
  // Peers that have ended are looked for at most every 20 ms, some at a time (64 ranks: all within 80 ms); what is
  // found is raised to the group at once, so that every rank names the same one. A peer that has destroyed its
  // communicator is no fault by itself: see left().
  std::optional<Fault> fault() override;
  bool left(int peer) const override;
  void raise(const Fault& fault) override;

  // What this rank sleeps on; its peers ring it.
  Doorbell& bell() { return segment_->block(me_).bell; }

 private:
  // Index of a peer whose link with `tag` has not been opened in this direction; marks it as opened.
  Result<int> claim(int peer, uint16_t tag, std::vector<bool>& opened);
  Result<Link> open(int from, int to, uint16_t tag);
  Fault ended(int index) const;

  const std::shared_ptr<Segment> segment_;
  const GroupConfig config_;
  const int me_;  // my index in the group
  Regions regions_;
  std::vector<bool> sends_, recvs_;  // by peer index * tags + tag: opened
  std::optional<Fault> found_;       // the first fault seen, which stays
  int64_t next_look_ns_ = 0;         // not before: next look at who is alive
  int cursor_ = 0;                   // index of the peer to look at next
};

}  // namespace hocket::shm
