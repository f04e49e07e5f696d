#include "transport/shm/shm_transport.h"

#include <algorithm>

#include "base/deadline.h"

namespace hocket::shm {
namespace {

constexpr int64_t kLookEveryNs = 20'000'000;
constexpr int kLooksAtOnce = 16;  // bounds the cost of a look; each rank starts elsewhere

}  // namespace

ShmTransport::ShmTransport(std::shared_ptr<Segment> segment, const GroupConfig& config)
    : segment_(std::move(segment)),
      config_(config),
      me_(config.my_index()),
      regions_(config.ranks.back() + 1),
      sends_(config.ranks.size() * config.tags),
      recvs_(config.ranks.size() * config.tags),
      cursor_(me_) {}

ShmTransport::~ShmTransport() { segment_->leave(me_); }

Result<int> ShmTransport::claim(int peer, uint16_t tag, std::vector<bool>& opened) {
  const int index = config_.index_of(peer);
  if (index < 0 || index == me_ || tag >= config_.tags)
    return error(hktInternalError,
                 "shared memory: rank %d has no link to rank %d with tag %d (%d tags, %zu ranks here)", config_.my_rank,
                 peer, tag, config_.tags, config_.ranks.size());
  const size_t place = static_cast<size_t>(index) * config_.tags + tag;
  if (opened[place])
    return error(hktInternalError, "shared memory: link of rank %d with rank %d, tag %d, is opened twice",
                 config_.my_rank, peer, tag);
  opened[place] = true;
  return index;
}

Result<Link> ShmTransport::open(int from, int to, uint16_t tag) {
  HKT_ASSIGN(unsigned char* ring, segment_->ring(from, to, tag));
  const int far = from == me_ ? to : from;
  Link::Setup setup;
  setup.ring = ring;
  setup.geometry = config_.geometry_of(tag);
  setup.far_bell = &segment_->block(far).bell;
  setup.fence = config_.fence;
  const int rank = config_.ranks[static_cast<size_t>(far)];
  setup.theirs = regions_.of(rank);
  setup.own = regions_.own();
  setup.far = static_cast<uint32_t>(rank);
  if (!config_.processes.empty()) setup.process = config_.processes[static_cast<size_t>(far)];
  return Link(setup);
}

Result<Link> ShmTransport::open_send(int peer, uint16_t tag) {
  HKT_ASSIGN(const int index, claim(peer, tag, sends_));
  return open(me_, index, tag);
}

Result<Link> ShmTransport::open_recv(int peer, uint16_t tag) {
  HKT_ASSIGN(const int index, claim(peer, tag, recvs_));
  return open(index, me_, tag);
}

std::optional<CallRecord> ShmTransport::announced(int peer, uint64_t seq) const {
  const int index = config_.index_of(peer);
  if (index < 0) return std::nullopt;
  return segment_->block(index).calls.read(seq);
}

std::optional<Fault> ShmTransport::fault() {
  if (found_) return found_;
  found_ = segment_->header().faults.read();
  if (found_) return found_;
  const int64_t now = now_ns();
  if (now < next_look_ns_) return std::nullopt;
  next_look_ns_ = now + kLookEveryNs;
  for (int looks = std::min(kLooksAtOnce, segment_->ranks()); looks > 0; --looks) {
    const int index = cursor_;
    cursor_ = (cursor_ + 1) % segment_->ranks();
    if (index == me_ || segment_->presence(index) != Segment::Presence::dead) continue;
    raise(ended(index));
    // Whoever raised first is believed, unless it has died in the middle of it.
    const std::optional<Fault> posted = segment_->header().faults.read();
    found_ = posted ? posted : ended(index);
    return found_;
  }
  return std::nullopt;
}

void ShmTransport::raise(const Fault& fault) {
  if (segment_->header().faults.post(fault)) segment_->ring_all();
}

bool ShmTransport::left(int peer) const {
  const int index = config_.index_of(peer);
  // Acquire: what it had stored into rings before it left can be seen.
  return index >= 0 && segment_->block(index).state.load(std::memory_order_acquire) == RankBlock::kLeft;
}

Fault ShmTransport::ended(int index) const {
  const int rank = config_.ranks[static_cast<size_t>(index)];
  const int pid = segment_->block(index).pid.load(std::memory_order_relaxed);
  return Fault{hktRemoteError, rank, 0, format("rank %d (pid %d) has ended", rank, pid)};
}

}  // namespace hocket::shm
