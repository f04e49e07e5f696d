#include "transport/loopback/loopback_transport.h"

#include "transport/geometry.h"
#include "transport/loopback/channel.h"

namespace hocket::loopback {

class LoopbackTransport final : public Transport, private Pump {
 public:
  LoopbackTransport(std::shared_ptr<LoopbackFabric> fabric, int rank) : fabric_(std::move(fabric)), rank_(rank) {}

  ~LoopbackTransport() override { fabric_->rank_of(rank_).left.store(true, std::memory_order_release); }

  const char* name() const override { return "loopback"; }
  RingGeometry geometry() const override { return fabric_->geometry_; }
  Result<Link> open_send(int peer, uint16_t tag) override { return open(rank_, peer, tag); }
  Result<Link> open_recv(int peer, uint16_t tag) override { return open(peer, rank_, tag); }

  bool pumped() const override { return fabric_->faults_.has_value(); }
  bool progress() override {
    bool moved = false;
    for (const End& end : ends_)
      if (end.channel->pumped()) moved |= end.channel->deliver();
    return moved;
  }
  bool flushed() const override {
    for (const End& end : ends_)
      if (end.sends && end.channel->pumped() && !end.channel->empty()) return false;
    return true;
  }

  void announce(const CallRecord& call) override { fabric_->rank_of(rank_).calls.write(call); }
  std::optional<CallRecord> announced(int peer, uint64_t seq) const override {
    if (peer < 0 || static_cast<size_t>(peer) >= fabric_->ranks_.size()) return std::nullopt;
    return fabric_->rank_of(peer).calls.read(seq);
  }

  std::optional<Fault> fault() override;
  bool left(int peer) const override;
  void raise(const Fault& fault) override { fabric_->post(fault); }

 private:
  struct End {
    std::shared_ptr<Channel> channel;
    bool sends;
    int peer;
    uint16_t tag;
  };

  Result<Link> open(int from, int to, uint16_t tag);
  void pushed(Link& link, uint32_t bytes, const void*) override {
    ends_[link.id()].channel->pushed(link.count() - 1, bytes);
  }
  void popped(Link& link) override { ends_[link.id()].channel->popped(link.count()); }

  const std::shared_ptr<LoopbackFabric> fabric_;
  const int rank_;
  std::vector<End> ends_;  // by Link::id
  std::optional<Fault> found_;
};

Result<Link> LoopbackTransport::open(int from, int to, uint16_t tag) {
  const bool sends = from == rank_;
  const int peer = sends ? to : from;
  if (peer < 0 || static_cast<size_t>(peer) >= fabric_->ranks_.size() || from == to)
    return error(hktInternalError, "loopback: rank %d has no link to rank %d", rank_, peer);
  for (const End& end : ends_)
    if (end.sends == sends && end.peer == peer && end.tag == tag)
      return error(hktInternalError, "loopback: link of rank %d with rank %d, tag %d, is opened twice", rank_, peer,
                   tag);
  HKT_ASSIGN(auto channel, fabric_->channel(from, to, tag));
  Link::Setup setup;
  setup.ring = sends ? channel->send_ring() : channel->recv_ring();
  setup.geometry = fabric_->geometry_;
  setup.id = static_cast<uint32_t>(ends_.size());
  if (channel->pumped())
    setup.pump = this;  // rings the far end when it delivers
  else
    setup.far_bell = sends ? channel->to_bell() : channel->from_bell();
  ends_.push_back({std::move(channel), sends, peer, tag});
  return Link(setup);
}

std::optional<Fault> LoopbackTransport::fault() {
  if (found_) return found_;
  found_ = fabric_->board_.read();
  const int n = static_cast<int>(fabric_->ranks_.size());
  for (int peer = 0; peer < n && !found_; ++peer) {
    if (peer == rank_) continue;
    if (fabric_->rank_of(peer).dead.load(std::memory_order_acquire)) {
      fabric_->post(Fault{hktRemoteError, peer, 0, format("rank %d has ended", peer)});
      found_ = fabric_->board_.read();  // whoever posted first is believed
      return found_;
    }
    for (const auto& [from, to] : {std::pair(rank_, peer), std::pair(peer, rank_)})
      if (fabric_->broken(from, to).load(std::memory_order_acquire))
        found_ = Fault{hktRemoteError, peer, 0, format("link %d -> %d is broken", from, to)};
  }
  return found_;
}

bool LoopbackTransport::left(int peer) const {
  if (peer < 0 || static_cast<size_t>(peer) >= fabric_->ranks_.size()) return false;
  if (!fabric_->rank_of(peer).left.load(std::memory_order_acquire)) return false;
  for (const End& end : ends_)
    if (!end.sends && end.peer == peer && end.channel->pumped() && !end.channel->empty())
      return false;  // still on its way
  return true;
}

LoopbackFabric::LoopbackFabric(int nranks, const RingGeometry& geometry, std::optional<Faults> faults)
    : geometry_(geometry), faults_(faults), broken_(static_cast<size_t>(nranks) * static_cast<size_t>(nranks)) {
  for (int r = 0; r < nranks; ++r) ranks_.push_back(std::make_unique<RankState>());
}

LoopbackFabric::~LoopbackFabric() = default;

Result<std::shared_ptr<LoopbackFabric>> LoopbackFabric::create(int nranks, const RingGeometry& geometry,
                                                               std::optional<Faults> faults) {
  HKT_TRY(check_geometry(geometry));
  if (nranks < 1 || nranks > 4096)
    return error(hktInvalidArgument, "loopback: %d ranks: 1 to 4096 are expected", nranks);
  if (faults && (faults->max_delay_ns < 0 || faults->drop_per_million > 1'000'000))
    return error(hktInvalidArgument, "loopback: a negative delay, or more than a million losses per million");
  return std::shared_ptr<LoopbackFabric>(new LoopbackFabric(nranks, geometry, faults));
}

std::unique_ptr<Transport> LoopbackFabric::transport(int rank) {
  return std::make_unique<LoopbackTransport>(shared_from_this(), rank);
}

Result<std::shared_ptr<Channel>> LoopbackFabric::channel(int from, int to, uint16_t tag) {
  MutexLock lock(mutex_);
  const auto it = channels_.find({from, to, tag});
  if (it != channels_.end()) return it->second;
  const uint64_t seed = (faults_ ? faults_->seed : 0) * 0x9e37'79b9'7f4a'7c15 +
                        (static_cast<uint64_t>(from) << 40 | static_cast<uint64_t>(to) << 16 | tag);
  HKT_ASSIGN(auto channel, Channel::make(geometry_, {&rank_of(from).bell, &rank_of(to).bell}, faults_, seed));
  if (broken(from, to) || rank_of(from).dead || rank_of(to).dead) channel->cut();
  channels_.emplace(std::tuple(from, to, tag), channel);
  return channel;
}

void LoopbackFabric::kill(int rank) {
  rank_of(rank).dead.store(true, std::memory_order_release);
  {
    MutexLock lock(mutex_);
    for (auto& [key, channel] : channels_)
      if (std::get<0>(key) == rank || std::get<1>(key) == rank) channel->cut();
  }
  ring_all();
}

void LoopbackFabric::break_link(int from, int to) {
  broken(from, to).store(true, std::memory_order_release);
  {
    MutexLock lock(mutex_);
    for (auto& [key, channel] : channels_)
      if (std::get<0>(key) == from && std::get<1>(key) == to) channel->cut();
  }
  ring_all();
}

Status LoopbackFabric::drop_next(int from, int to, uint16_t tag) {
  if (!faults_) return error(hktInvalidUsage, "loopback: only a fabric with Faults can lose messages");
  HKT_ASSIGN(auto link, channel(from, to, tag));
  link->drop_next();
  return {};
}

void LoopbackFabric::post(const Fault& fault) {
  if (board_.post(fault)) ring_all();
}

void LoopbackFabric::ring_all() {
  for (const auto& rank : ranks_) rank->bell.ring(Fence::full);
}

}  // namespace hocket::loopback
