#include "transport/shm/regions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace hocket::shm {
namespace {

// What an entry says.
struct Spot {
  int32_t pid, file;
  uint64_t device, inode, offset, bytes, base;
};

// Nothing if the entry changes meanwhile: then there is another change to look at.
std::optional<Spot> read(const RegionTable::Entry& e, uint64_t generation) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const Spot spot{e.pid.load(relaxed),    e.file.load(relaxed),  e.device.load(relaxed), e.inode.load(relaxed),
                  e.offset.load(relaxed), e.bytes.load(relaxed), e.base.load(relaxed)};
  std::atomic_thread_fence(std::memory_order_acquire);  // the fields were read before the generation is read again
  if (e.generation.load(relaxed) != generation) return std::nullopt;
  return spot;
}

// Another process's descriptor, opened again. /proc needs the right to look into that process: the same user, and no
// other PID namespace.
Result<Fd> open_of(const Spot& e) {
  const std::string name = format("/proc/%d/fd/%d", e.pid, e.file);
  Fd fd(open(name.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return sys_error("cannot open %s", name.c_str());
  struct stat s {};
  if (fstat(fd.get(), &s) != 0) return sys_error("fstat");
  if (s.st_dev != e.device || s.st_ino != e.inode)
    return error(hktRemoteError, "%s is another file (another PID namespace?)", name.c_str());
  return fd;
}

}  // namespace

Regions::Regions(std::shared_ptr<Segment> segment, const GroupConfig& config)
    : segment_(std::move(segment)), config_(config), me_(config.my_index()), peers_(config.ranks.size()) {}

Regions::~Regions() {
  for (int i = 0; i < segment_->ranks(); ++i)
    for (uint32_t k = 0; peers_[static_cast<size_t>(i)] != nullptr && k < kRegions; ++k) forget(i, k);
  while (!own_.empty()) remove(own_.back()->region);
}

Regions::Peer& Regions::peer(int index) {
  std::unique_ptr<Peer>& p = peers_[static_cast<size_t>(index)];
  if (p == nullptr) p = std::make_unique<Peer>();
  return *p;
}

const RegionBases* Regions::of(int index) { return &peer(index).bases; }

Status Regions::reserve() {
  if (!reserved_) HKT_TRY(segment_->reserve_regions(me_));
  reserved_ = true;
  return {};
}

Result<const Region*> Regions::add(const SharedMemory& memory) {
  for (const auto& o : own_)
    if (memory.base < o->region.base + o->region.bytes && o->region.base < memory.base + memory.bytes)
      return error(hktInvalidUsage, "the memory at %p overlaps what is registered already, %llu bytes at %p",
                   static_cast<void*>(memory.base), static_cast<unsigned long long>(o->region.bytes),
                   static_cast<void*>(o->region.base));
  if (own_.size() == kRegions)
    return error(
        hktInvalidUsage,
        "rank %d has %u regions registered with this communicator, the most that are possible; register larger "
        "ones",
        config_.my_rank, kRegions);
  HKT_TRY(reserve());
  RegionTable& table = segment_->regions(me_);
  uint32_t index = 0;
  while (table.entries[index].generation.load(std::memory_order_relaxed) != 0) ++index;
  auto own = std::make_unique<Own>();
  own->memory = memory;
  own->region.base = memory.base;
  own->region.bytes = memory.bytes;
  own->region.index = index;
  own->region.mapped.resize(config_.ranks.size());
  RegionTable::Entry& e = table.entries[index];
  // Release: whoever sees one of these has seen, or will see, that the entry was free before.
  constexpr auto release = std::memory_order_release;
  e.pid.store(getpid(), release);
  e.file.store(memory.file->get(), release);
  e.device.store(memory.device, release);
  e.inode.store(memory.inode, release);
  e.offset.store(memory.offset, release);
  e.bytes.store(memory.bytes, release);
  e.base.store(reinterpret_cast<uint64_t>(memory.base), release);
  own_bases_[index] = memory.base;
  own->generation = change();
  // Release: whoever sees the generation sees the entry. The count comes before it, so that a peer that has seen the
  // count but not yet the entry looks again.
  e.generation.store(own->generation, std::memory_order_release);
  change();
  own_.push_back(std::move(own));
  return &own_.back()->region;
}

void Regions::remove(const Region& region) {
  const uint32_t index = region.index;
  segment_->regions(me_).entries[index].generation.store(0, std::memory_order_release);
  change();
  own_bases_[index] = nullptr;
  own_.erase(std::find_if(own_.begin(), own_.end(), [&](const auto& o) { return &o->region == &region; }));
}

const Region* Regions::find(const void* p, uint64_t bytes) const {
  for (const auto& o : own_)
    if (o->region.holds(p, bytes)) return &o->region;
  return nullptr;
}

void Regions::refresh() {
  known_ = segment_->header().regions.load(std::memory_order_acquire);
  bool news = false;
  for (int i = 0; i < segment_->ranks(); ++i)
    // Acquire: the table is there.
    if (i != me_ && segment_->block(i).registers.load(std::memory_order_acquire) != 0) news = refresh_peer(i) || news;
  see_who_has_mapped();
  if (news) change();  // the owners want to know; this rank looks once more for nothing
}

// True if this rank has mapped something that it had not.
bool Regions::refresh_peer(int index) {
  bool news = false;
  Peer& p = peer(index);
  for (uint32_t k = 0; k < kRegions; ++k) {
    const RegionTable::Entry& e = segment_->regions(index).entries[k];
    const uint64_t generation = e.generation.load(std::memory_order_acquire);
    Peer::Mapped& m = p.mapped[k];
    if (m.generation == generation) continue;
    forget(index, k);
    m.generation = generation;  // tried once
    if (generation == 0) continue;
    Status mapped = reserve();
    if (mapped.ok()) mapped = map(index, k, generation, m);
    if (!mapped.ok()) {
      HKT_INFO(shm, config_.log,
               "memory that rank %d has registered cannot be mapped here, its messages are copied: %s",
               config_.ranks[static_cast<size_t>(index)], mapped.error().text.c_str());
      continue;
    }
    // Release: the owner may use it from now on.
    segment_->regions(me_).mapped()[static_cast<size_t>(index) * kRegions + k].store(generation,
                                                                                     std::memory_order_release);
    news = true;
  }
  return news;
}

Status Regions::map(int index, uint32_t region, uint64_t generation, Peer::Mapped& mapped) {
  unsigned char*& base = peers_[static_cast<size_t>(index)]->bases[region];
  const std::optional<Spot> spot = read(segment_->regions(index).entries[region], generation);
  if (!spot) return error(hktRemoteError, "it has been given up already");
  if (config_.tokens[static_cast<size_t>(index)] == config_.process_token) {
    base = reinterpret_cast<unsigned char*>(spot->base);
    mapped.pages = pages_at(base);
    return {};
  }
  HKT_ASSIGN(const Fd fd, open_of(*spot));
  const uint64_t lead = spot->offset % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  void* const p = mmap(nullptr, lead + spot->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(),
                       static_cast<off_t>(spot->offset - lead));
  if (p == MAP_FAILED) return sys_error("mmap of %llu bytes", static_cast<unsigned long long>(spot->bytes));
  mapped.begin = p;
  mapped.bytes = lead + spot->bytes;
  base = static_cast<unsigned char*>(p) + lead;
  return {};
}

void Regions::forget(int index, uint32_t region) {
  Peer& p = *peers_[static_cast<size_t>(index)];
  Peer::Mapped& m = p.mapped[region];
  if (m.begin != nullptr) munmap(m.begin, m.bytes);
  m = {};
  p.bases[region] = nullptr;
}

void Regions::see_who_has_mapped() {
  for (const auto& o : own_) {
    for (int i = 0; i < segment_->ranks(); ++i) {
      const bool looks = i != me_ && segment_->block(i).registers.load(std::memory_order_acquire) != 0;
      // Acquire: its mapping is there.
      o->region.mapped[static_cast<size_t>(i)] =
          looks && segment_->regions(i).mapped()[static_cast<size_t>(me_) * kRegions + o->region.index].load(
                       std::memory_order_acquire) == o->generation;
    }
  }
}

}  // namespace hocket::shm
