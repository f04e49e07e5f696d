#include "transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <new>

#include "transport/geometry.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace hocket::shm {
namespace {

constexpr uint64_t kPage = 4096;  // unit of layout; larger real pages only make reservations overlap
constexpr double kMiB = 1024.0 * 1024.0;

uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

Status reserve(int fd, uint64_t offset, uint64_t bytes) {
  // In pieces: a signal interrupts a reservation and undoes it, which a large one might never survive.
  constexpr uint64_t kPiece = 64 << 20;
  while (bytes > 0) {
    const uint64_t piece = std::min(bytes, kPiece);
    if (fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(piece)) != 0) {
      if (errno == EINTR) continue;
      return sys_error("shared memory: cannot reserve %.1f MiB", static_cast<double>(piece) / kMiB);
    }
    offset += piece;
    bytes -= piece;
  }
  return {};
}

Result<Fd> open_memfd(uint64_t bytes) {
  // NOEXEC_SEAL is demanded by hardened kernels and unknown to those before 6.3.
  Fd fd(memfd_create("hocket", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  if (!fd && errno == EINVAL) fd = Fd(memfd_create("hocket", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return descriptor_error("shared memory: memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return sys_error("shared memory: cannot make a memfd of %.1f MiB", static_cast<double>(bytes) / kMiB);
  // Nobody who gets the descriptor can cut the memory under the others (SIGBUS).
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return sys_error("shared memory: cannot seal the size of a memfd");
  return fd;
}

Result<Fd> open_devshm(const GroupConfig& config, uint64_t bytes) {
  const char* dir = config.devshm_dir;
  // O_TMPFILE: the file never has a name, O_EXCL: nor can it get one.
  Fd fd(open(dir, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600));
  if (!fd && (errno == EMFILE || errno == ENFILE)) return descriptor_error(format("shared memory: %s", dir));
  if (!fd)
    return sys_error("shared memory: cannot make a file in %s (use HOCKET_SHM=memfd or mount a writable tmpfs there)",
                     dir);
  struct statvfs space {};
  if (fstatvfs(fd.get(), &space) != 0) return sys_error("shared memory: statvfs of %s", dir);
  const auto free = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  const auto total = static_cast<double>(space.f_blocks) * static_cast<double>(space.f_frsize);
  const Error full = error(hktSystemError,
                           "shared memory: %s has %.1f MiB free of %.1f MiB, %.1f MiB are needed for %zu ranks (use "
                           "HOCKET_SHM=memfd or mount it larger)",
                           dir, free / kMiB, total / kMiB, static_cast<double>(bytes) / kMiB, config.ranks.size());
  // Asked first so that a hopeless request does not fill the file system before it fails; 0 blocks: it has no limit.
  if (space.f_blocks != 0 && static_cast<double>(bytes) > free) return full;
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return sys_error("shared memory: cannot size a file in %s", dir);
  if (Status reserved = reserve(fd.get(), 0, bytes); !reserved) return errno == ENOSPC ? full : reserved.error();
  return fd;
}

struct flock lock_of(int index, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = index;
  lock.l_len = 1;
  return lock;
}

}  // namespace

int GroupConfig::index_of(int rank) const {
  const auto it = std::lower_bound(ranks.begin(), ranks.end(), rank);
  return it != ranks.end() && *it == rank ? static_cast<int>(it - ranks.begin()) : -1;
}

Status check(const GroupConfig& c) {
  HKT_TRY(check_geometry(c.geometry));
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

Layout::Layout(uint32_t ranks, uint32_t tags, const RingGeometry& geometry)
    : ranks_(ranks),
      tags_(tags),
      blocks_(whole_pages(sizeof(Header))),
      rings_(whole_pages(blocks_ + ranks_ * sizeof(RankBlock))),
      pitch_(whole_pages(geometry.bytes())),
      bytes_(rings_ + ranks_ * (ranks_ - 1) * tags_ * pitch_) {}

uint64_t Layout::ring(int from, int to, uint16_t tag) const {
  // A rank has no link to itself: its own place is left out.
  const uint64_t column = static_cast<uint64_t>(to < from ? to : to - 1);
  return rings_ + ((static_cast<uint64_t>(from) * (ranks_ - 1) + column) * tags_ + tag) * pitch_;
}

Segment::Segment(Fd fd, const GroupConfig& config, const Layout& layout)
    : fd_(std::move(fd)),
      layout_(layout),
      ranks_(static_cast<int>(config.ranks.size())),
      backing_(config.backing),
      creator_pid_(getpid()),
      own_(config.ranks.size()) {}

Status Segment::map_memory() {
  // NORESERVE: most of the mapping is never touched; what is used has been reserved in the file.
  void* base = mmap(nullptr, layout_.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
  if (base == MAP_FAILED)
    return sys_error("shared memory: cannot map %.1f MiB (see ulimit -v)", static_cast<double>(layout_.bytes()) / kMiB);
  base_ = static_cast<unsigned char*>(base);
  return {};
}

Result<std::shared_ptr<Segment>> Segment::create(const GroupConfig& config) {
  const Layout layout(static_cast<uint32_t>(config.ranks.size()), config.tags, config.geometry);
  HKT_ASSIGN(Fd fd,
             config.backing == Backing::memfd ? open_memfd(layout.bytes()) : open_devshm(config, layout.bytes()));
  if (config.backing == Backing::memfd) HKT_TRY(reserve(fd.get(), 0, layout.control_bytes()));
  std::shared_ptr<Segment> segment(new Segment(std::move(fd), config, layout));
  HKT_TRY(segment->map_memory());
  for (int i = 0; i < segment->ranks_; ++i) new (&segment->block(i)) RankBlock;
  auto* header = new (segment->base_) Header;
  header->nonce = config.nonce;
  header->bytes = layout.bytes();
  header->version = Header::kVersion;
  header->ranks = static_cast<uint32_t>(segment->ranks_);
  header->tags = config.tags;
  header->geometry = config.geometry;
  header->magic = Header::kMagic;
  return segment;
}

Result<std::shared_ptr<Segment>> Segment::map(Fd fd, const GroupConfig& config) {
  const Layout layout(static_cast<uint32_t>(config.ranks.size()), config.tags, config.geometry);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return sys_error("shared memory: fstat");
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) != layout.bytes())
    return error(
        hktRemoteError,
        "shared memory of rank %d has %lld bytes, %llu are expected: do all ranks have the same HOCKET_* settings?",
        config.ranks[0], static_cast<long long>(info.st_size), static_cast<unsigned long long>(layout.bytes()));
  std::shared_ptr<Segment> segment(new Segment(std::move(fd), config, layout));
  HKT_TRY(segment->map_memory());
  const Header& h = segment->header();
  const char* wrong = h.magic != Header::kMagic                                 ? "magic number"
                      : h.version != Header::kVersion                           ? "version"
                      : h.nonce != config.nonce                                 ? "job"
                      : h.ranks != config.ranks.size() || h.tags != config.tags ? "group"
                      : !(h.geometry == config.geometry)                        ? "ring geometry"
                                                                                : nullptr;
  if (wrong != nullptr)
    return error(hktRemoteError,
                 "shared memory of rank %d has another %s: do all ranks run the same version of Hocket?",
                 config.ranks[0], wrong);
  return segment;
}

Segment::~Segment() {
  if (base_ == nullptr) return;
  for (int i = 0; i < ranks_; ++i) leave(i);
  munmap(base_, layout_.bytes());
}

Status Segment::join(int index) {
  struct flock lock = lock_of(index, F_WRLCK);
  const bool locked = !own(index) && fcntl(fd(), F_SETLK, &lock) == 0;
  if (!locked && !own(index) && errno != EAGAIN && errno != EACCES)
    return sys_error("shared memory: cannot lock a file");
  if (!locked)
    return error(hktInternalError,
                 "shared memory: place %d of the group is taken already (two processes with one rank?)", index);
  own_[static_cast<size_t>(index)].store(true, std::memory_order_release);
  block(index).pid.store(getpid(), std::memory_order_relaxed);
  // Release: whoever sees this rank present finds its lock (the kernel orders it) and its pid.
  block(index).state.store(RankBlock::kPresent, std::memory_order_release);
  return {};
}

void Segment::leave(int index) {
  if (getpid() != creator_pid_ || !own(index)) return;
  own_[static_cast<size_t>(index)].store(false, std::memory_order_release);
  // Before the lock goes: a peer that finds the lock free looks here once more.
  block(index).state.store(RankBlock::kLeft, std::memory_order_release);
  block(index).bell.disarm();
  struct flock lock = lock_of(index, F_UNLCK);
  fcntl(fd(), F_SETLK, &lock);  // cannot fail; closing the file would do the same
}

Segment::Presence Segment::presence(int index) const {
  const std::atomic<uint32_t>& state = block(index).state;
  const uint32_t before = state.load(std::memory_order_acquire);
  if (before == RankBlock::kAbsent) return Presence::absent;
  if (before == RankBlock::kLeft) return Presence::left;
  if (own(index)) return Presence::present;
  struct flock lock = lock_of(index, F_WRLCK);
  if (fcntl(fd(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK) return Presence::present;
  return state.load(std::memory_order_acquire) == RankBlock::kLeft ? Presence::left : Presence::dead;
}

Result<unsigned char*> Segment::ring(int from, int to, uint16_t tag) {
  const uint64_t offset = layout_.ring(from, to, tag);
  if (backing_ == Backing::memfd) HKT_TRY(reserve(fd(), offset, layout_.ring_bytes()));
  return base_ + offset;
}

void Segment::ring_all() {
  for (int i = 0; i < ranks_; ++i) block(i).bell.ring(Fence::full);
}

}  // namespace hocket::shm
