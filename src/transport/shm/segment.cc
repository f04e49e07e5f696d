#include "transport/shm/segment.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <new>

#include "transport/geometry.h"

namespace hocket::shm {
namespace {

constexpr uint64_t kPage = 4096;  // unit of layout; larger real pages only make reservations overlap

uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::vector<int> seats_of(const GroupConfig& config) {
  std::vector<int> seats;
  for (size_t i = 0; i < config.ranks.size(); ++i) seats.push_back(config.seat_of(static_cast<int>(i)));
  return seats;
}

}  // namespace

int GroupConfig::index_of(int rank) const {
  const auto it = std::lower_bound(ranks.begin(), ranks.end(), rank);
  return it != ranks.end() && *it == rank ? static_cast<int>(it - ranks.begin()) : -1;
}

Status check(const GroupConfig& c) {
  HKT_TRY(check_geometry(c.geometry));
  if (c.small_tags > c.tags)
    return error(hktInternalError, "shared memory: %d of %d tags have small rings", c.small_tags, c.tags);
  if (!c.seats.empty() && c.seats.size() != c.ranks.size())
    return error(hktInternalError, "shared memory: %zu seats for %zu ranks", c.seats.size(), c.ranks.size());
  if (!c.processes.empty() && c.processes.size() != c.ranks.size())
    return error(hktInternalError, "shared memory: %zu processes for %zu ranks", c.processes.size(), c.ranks.size());
  if (c.ranks.empty() || c.tags == 0 || c.process_token == 0)
    return error(hktInternalError, "shared memory: %zu ranks, %d tags, process token %s: none of them may be 0",
                 c.ranks.size(), c.tags, c.process_token == 0 ? "0" : "given");
  if (std::adjacent_find(c.ranks.begin(), c.ranks.end(), std::greater_equal<>()) != c.ranks.end())
    return error(hktInternalError,
                 "shared memory: the ranks of a group must be in ascending order, without repetition");
  if (c.tokens.size() != c.ranks.size())
    return error(hktInternalError, "shared memory: %zu process tokens for %zu ranks", c.tokens.size(), c.ranks.size());
  if (c.my_index() < 0) return error(hktInternalError, "shared memory: rank %d is not of this group", c.my_rank);
  if (c.tokens[static_cast<size_t>(c.my_index())] != c.process_token)
    return error(hktInternalError, "shared memory: the process token of rank %d differs from the one its peers have",
                 c.my_rank);
  // In floating point: the product may overflow. User space has 47 bits on common machines.
  const double n = static_cast<double>(c.ranks.size());
  if (n * n * c.tags * static_cast<double>(c.geometry.bytes()) > 0x1p46)
    return error(hktInvalidArgument,
                 "shared memory: %zu ranks with %d links per pair, %u slots of %u bytes each, need more than 64 TiB of "
                 "address space",
                 c.ranks.size(), c.tags, c.geometry.depth, c.geometry.slot_bytes);
  return {};
}

Layout::Layout(const GroupConfig& config)
    : ranks_(config.ranks.size()),
      large_(uint64_t{config.tags} - config.small_tags),
      blocks_(whole_pages(sizeof(Header))),
      rings_(whole_pages(blocks_ + ranks_ * sizeof(RankBlock))),
      pitch_(whole_pages(config.geometry.bytes())),
      small_pitch_(whole_pages(kSmallRing.bytes())),
      pair_(large_ * pitch_ + config.small_tags * small_pitch_),
      bytes_(rings_ + ranks_ * (ranks_ - 1) * pair_) {}

uint64_t Layout::ring(int from, int to, uint16_t tag) const {
  // A rank has no link to itself: its own place is left out.
  const uint64_t column = static_cast<uint64_t>(to < from ? to : to - 1);
  const uint64_t in_pair = tag < large_ ? tag * pitch_ : large_ * pitch_ + (tag - large_) * small_pitch_;
  return rings_ + (static_cast<uint64_t>(from) * (ranks_ - 1) + column) * pair_ + in_pair;
}

Segment::Segment(std::shared_ptr<File> file, uint64_t offset, const GroupConfig& config)
    : file_(std::move(file)),
      offset_(offset),
      layout_(config),
      ranks_(static_cast<int>(config.ranks.size())),
      seats_(seats_of(config)),
      reserved_(file_->backing() == Backing::devshm && offset == File::kFirst),
      creator_pid_(getpid()),
      own_(config.ranks.size()) {}

Status Segment::map_memory() {
  HKT_ASSIGN(base_, file_->map(offset_, layout_.bytes()));
  return {};
}

Result<std::shared_ptr<Segment>> Segment::create(const GroupConfig& config) {
  FileSpec spec;
  spec.backing = config.backing;
  spec.devshm_dir = config.devshm_dir;
  spec.nonce = config.nonce;
  spec.bytes = Layout(config).bytes();
  spec.ranks = config.ranks.size();
  HKT_ASSIGN(std::shared_ptr<File> file, File::create(spec));
  return fill(std::move(file), File::kFirst, config);
}

Result<std::shared_ptr<Segment>> Segment::create(std::shared_ptr<File> file, const GroupConfig& config) {
  const uint64_t offset = file->take(Layout(config).bytes());
  return fill(std::move(file), offset, config);
}

Result<std::shared_ptr<Segment>> Segment::fill(std::shared_ptr<File> file, uint64_t offset, const GroupConfig& config) {
  std::shared_ptr<Segment> segment(new Segment(std::move(file), offset, config));
  if (!segment->reserved_) HKT_TRY(segment->file_->reserve(offset, segment->layout_.control_bytes()));
  HKT_TRY(segment->map_memory());
  for (int i = 0; i < segment->ranks_; ++i) new (&segment->block(i)) RankBlock;
  auto* header = new (segment->base_) Header;
  header->nonce = config.nonce;
  header->bytes = segment->layout_.bytes();
  header->version = Header::kVersion;
  header->ranks = static_cast<uint32_t>(segment->ranks_);
  header->tags = config.tags;
  header->small_tags = config.small_tags;
  header->geometry = config.geometry;
  header->magic = Header::kMagic;
  return segment;
}

Result<std::shared_ptr<Segment>> Segment::map(Fd fd, const GroupConfig& config) {
  HKT_ASSIGN(std::shared_ptr<File> file, File::open(std::move(fd), config.backing, config.nonce));
  return map(std::move(file), File::kFirst, config);
}

Result<std::shared_ptr<Segment>> Segment::map(std::shared_ptr<File> file, uint64_t offset, const GroupConfig& config) {
  const uint64_t size = file->size();
  std::shared_ptr<Segment> segment(new Segment(std::move(file), offset, config));
  const Layout& layout = segment->layout_;
  // The header is safe to read if it lies in the file; it tells whether the rest is what is expected.
  if (size < offset + sizeof(Header))
    return error(hktRemoteError, "shared memory of rank %d ends before its header", config.ranks[0]);
  HKT_TRY(segment->map_memory());
  const Header& h = segment->header();
  const char* wrong = h.magic != Header::kMagic       ? "magic number"
                      : h.version != Header::kVersion ? "version"
                      : h.nonce != config.nonce       ? "job"
                                                      : nullptr;
  if (wrong != nullptr)
    return error(hktRemoteError,
                 "shared memory of rank %d has another %s: do all ranks run the same version of Hocket?",
                 config.ranks[0], wrong);
  wrong = h.ranks != config.ranks.size()                                        ? "number of ranks"
          : h.tags != config.tags || h.small_tags != config.small_tags          ? "number of links"
          : !(h.geometry == config.geometry)                                    ? "ring geometry"
          : h.bytes != layout.bytes() || size < offset + layout.control_bytes() ? "size"
                                                                                : nullptr;
  if (wrong != nullptr)
    return error(hktRemoteError,
                 "shared memory of rank %d has another %s than expected: do all ranks have the same HOCKET_* settings?",
                 config.ranks[0], wrong);
  return segment;
}

Segment::~Segment() {
  if (base_ == nullptr) return;
  for (int i = 0; i < ranks_; ++i) leave(i);
  munmap(base_, layout_.bytes());
}

Status Segment::join(int index) {
  const int seat = seats_[static_cast<size_t>(index)];
  if (own(index))
    return error(hktInternalError,
                 "shared memory: place %d of the group is taken already (two processes with one rank?)", index);
  HKT_TRY(file_->hold(seat));
  own_[static_cast<size_t>(index)].store(true, std::memory_order_release);
  block(index).pid.store(getpid(), std::memory_order_relaxed);
  // Release: whoever sees this rank present finds its lock (the kernel orders it) and its pid.
  block(index).state.store(RankBlock::kPresent, std::memory_order_release);
  return {};
}

void Segment::leave(int index) {
  if (getpid() != creator_pid_ || !own(index)) return;
  block(index).bell.disarm();
  // Before the lock goes: a peer that finds the lock free looks here once more. Before own_ is cleared: a rank of this
  // process would find no lock either.
  block(index).state.store(RankBlock::kLeft, std::memory_order_release);
  own_[static_cast<size_t>(index)].store(false, std::memory_order_release);
  // Acquire and release: whoever is last gives the memory back after all others are through with it.
  if (header().gone.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(ranks_))
    file_->give_back(offset_, layout_.bytes());
  file_->release(seats_[static_cast<size_t>(index)]);
}

Segment::Presence Segment::presence(int index) const {
  const std::atomic<uint32_t>& state = block(index).state;
  const uint32_t before = state.load(std::memory_order_acquire);
  if (before == RankBlock::kAbsent) return Presence::absent;
  if (before == RankBlock::kLeft) return Presence::left;
  if (own(index) || file_->held(seats_[static_cast<size_t>(index)])) return Presence::present;
  return state.load(std::memory_order_acquire) == RankBlock::kLeft ? Presence::left : Presence::dead;
}

Result<unsigned char*> Segment::ring(int from, int to, uint16_t tag) {
  const uint64_t offset = layout_.ring(from, to, tag);
  if (!reserved_) HKT_TRY(file_->reserve(offset_ + offset, layout_.ring_bytes(tag)));
  return base_ + offset;
}

void Segment::ring_all() {
  for (int i = 0; i < ranks_; ++i) block(i).bell.ring(Fence::full);
}

}  // namespace hocket::shm
