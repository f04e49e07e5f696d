#include "transport/regions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"

namespace hocket {
namespace {

// Another process's descriptor, opened again. /proc needs the right to look into that process: the same user, and no
// other PID namespace.
Result<Fd> open_of(const MemorySpot& spot) {
  const std::string name = format("/proc/%d/fd/%d", spot.pid, spot.file);
  Fd fd(open(name.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return sys_error("cannot open %s", name.c_str());
  struct stat s {};
  if (fstat(fd.get(), &s) != 0) return sys_error("fstat");
  if (s.st_dev != spot.device || s.st_ino != spot.inode)
    return error(hktRemoteError, "%s is another file (another PID namespace?)", name.c_str());
  return fd;
}

}  // namespace

MemorySpot spot_of(const SharedMemory& memory, uint64_t process) {
  MemorySpot spot;
  spot.process = process;
  spot.pid = getpid();
  spot.file = memory.file->get();
  spot.device = memory.device;
  spot.inode = memory.inode;
  spot.offset = memory.offset;
  spot.bytes = memory.bytes;
  spot.base = reinterpret_cast<uint64_t>(memory.base);
  return spot;
}

Regions::Peer& Regions::peer(int rank) {
  std::unique_ptr<Peer>& p = peers_[static_cast<size_t>(rank)];
  if (p == nullptr) p = std::make_unique<Peer>();
  return *p;
}

const RegionBases* Regions::of(int rank) { return &peer(rank).bases; }

Region& Regions::add(uint32_t name, const SharedMemory& memory) {
  auto own = std::make_unique<Own>();
  own->memory = memory;
  own->region.base = memory.base;
  own->region.bytes = memory.bytes;
  own->region.name = name;
  own->region.mapped.resize(peers_.size());
  own_bases_[name] = memory.base;
  own_.push_back(std::move(own));
  return own_.back()->region;
}

Status Regions::map(int rank, uint32_t name, const MemorySpot& spot, uint64_t my_process) {
  Peer& p = peer(rank);
  if (spot.process == my_process) {
    auto* const base = reinterpret_cast<unsigned char*>(spot.base);
    // What the program has mapped itself it may unmap while peers in this process are at work: they map it anew.
    if (std::shared_ptr<const void> pages = pages_at(base); pages != nullptr) {
      p.bases[name] = base;
      p.pages[name] = std::move(pages);
      return {};
    }
  }
  HKT_ASSIGN(const Fd fd, open_of(spot));
  const uint64_t lead = spot.offset % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // Populated: no call pays for the first touch of a page.
  void* const at = mmap(nullptr, lead + spot.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(),
                        static_cast<off_t>(spot.offset - lead));
  if (at == MAP_FAILED) return sys_error("cannot map %llu bytes", static_cast<unsigned long long>(spot.bytes));
  const uint64_t length = lead + spot.bytes;
  p.pages[name] = std::shared_ptr<const void>(at, [length](void* mapped) { munmap(mapped, length); });
  p.bases[name] = static_cast<unsigned char*>(at) + lead;
  return {};
}

void Regions::remove(uint32_t name) {
  for (const auto& p : peers_) {
    if (p == nullptr) continue;
    p->bases[name] = nullptr;
    p->pages[name].reset();
  }
  own_bases_[name] = nullptr;
  own_.erase(std::remove_if(own_.begin(), own_.end(), [&](const auto& o) { return o->region.name == name; }),
             own_.end());
}

const Region* Regions::find(const void* p, uint64_t bytes) const {
  for (const auto& o : own_)
    if (o->region.holds(p, bytes)) return &o->region;
  return nullptr;
}

const Region* Regions::overlapping(const void* p, uint64_t bytes) const {
  const auto* at = static_cast<const unsigned char*>(p);
  for (const auto& o : own_)
    if (at < o->region.base + o->region.bytes && o->region.base < at + bytes) return &o->region;
  return nullptr;
}

}  // namespace hocket
