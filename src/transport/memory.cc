#include "transport/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "base/text.h"
#include "base/thread_annotations.h"
#include "transport/memory_file.h"

namespace hocket {
namespace {

// --- The allocations of this process. Memory belongs to the process and knows no communicator, so this table is one
// per process as well.
struct Allocation {
  uint64_t bytes = 0;
  std::shared_ptr<const Fd> file;
  std::shared_ptr<const void> pages;
  pid_t owner = 0;  // a forked child has the memory mapped, too, and must not give it back
};

class Allocations {
 public:
  static Allocations& of_process() {
    static Allocations all;
    return all;
  }
  void add(void* p, Allocation a) HKT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    all_[reinterpret_cast<uintptr_t>(p)] = std::move(a);
  }
  // The allocation that [p, p + bytes) begins in, with where it begins.
  std::pair<unsigned char*, Allocation> find(const void* p) HKT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto at = reinterpret_cast<uintptr_t>(p);
    auto next = all_.upper_bound(at);
    if (next == all_.begin()) return {};
    const auto& [base, a] = *--next;
    if (at - base >= a.bytes) return {};
    return {reinterpret_cast<unsigned char*>(base), a};
  }
  // Not the file, whose users are counted.
  std::shared_ptr<const void> pages(const void* p) HKT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto next = all_.upper_bound(reinterpret_cast<uintptr_t>(p));
    if (next == all_.begin()) return nullptr;
    const auto& [base, a] = *std::prev(next);
    return reinterpret_cast<uintptr_t>(p) - base < a.bytes ? a.pages : nullptr;
  }
  // Removes the allocation that begins at p. An error: there is none, or it is in use.
  Result<Allocation> take(void* p) HKT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = all_.find(reinterpret_cast<uintptr_t>(p));
    if (found == all_.end())
      return error(hktInvalidArgument, "%p is not what hktMemAlloc has returned, or has been freed", p);
    if (found->second.file.use_count() > 1)
      return error(hktInvalidUsage,
                   "the memory at %p is registered with a communicator; call hktCommDeregister (or destroy the "
                   "communicator) first",
                   p);
    Allocation a = std::move(found->second);
    all_.erase(found);
    return a;
  }

 private:
  Mutex mutex_;
  std::map<uintptr_t, Allocation> all_ HKT_GUARDED_BY(mutex_);
};

// --- Files that the program has mapped itself, by the kernel's table.
struct Mapping {
  uint64_t begin = 0, end = 0, offset = 0, inode = 0, device = 0;
  bool shared = false, writable = false;
  std::string path;
};

bool parse(const char* line, Mapping& m) {
  char rights[5] = {};
  unsigned major = 0, minor = 0;
  int path = 0;
  if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m.begin, &m.end, rights,
                  &m.offset, &major, &minor, &m.inode, &path) < 7)
    return false;
  m.shared = rights[3] == 's';
  m.writable = rights[0] == 'r' && rights[1] == 'w';
  m.device = makedev(major, minor);
  m.path = path > 0 ? line + path : "";
  while (!m.path.empty() && m.path.back() == '\n') m.path.pop_back();
  return true;
}

// The mapping that [p, p + bytes) lies in; neighbours that go on with the same file are one.
Result<Mapping> mapping_at(const void* p, uint64_t bytes) {
  const auto at = reinterpret_cast<uint64_t>(p);
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return sys_error("cannot read /proc/self/maps, which tells what lies at %p", p);
  Mapping found;
  char* line = nullptr;
  size_t room = 0;
  while (getline(&line, &room, maps) > 0) {
    Mapping m;
    if (!parse(line, m) || m.end <= at) continue;
    if (found.end == 0) {
      if (m.begin > at) break;
      found = m;
    } else {
      const bool goes_on = m.begin == found.end && m.inode == found.inode && m.device == found.device && m.shared &&
                           m.writable && m.offset == found.offset + (found.end - found.begin);
      if (!goes_on) break;
      found.end = m.end;
    }
    if (found.end - at >= bytes) break;
  }
  std::free(line);
  std::fclose(maps);
  if (found.end == 0) return error(hktInvalidArgument, "there is no memory at %p", p);
  if (!found.shared || found.inode == 0)
    return error(hktInvalidArgument,
                 "the memory at %p is private to this process, so no other process can map it; take it from "
                 "hktMemAlloc, or map a file with MAP_SHARED",
                 p);
  if (!found.writable) return error(hktInvalidArgument, "the file mapped at %p must be readable and writable", p);
  if (found.end - at < bytes)
    return error(hktInvalidArgument, "only %" PRIu64 " of the %" PRIu64 " bytes at %p belong to one mapped file",
                 found.end - at, bytes, p);
  return found;
}

bool is_file(int fd, const Mapping& m) {
  struct stat s {};
  return fstat(fd, &s) == 0 && s.st_ino == m.inode && s.st_dev == m.device;
}

// A descriptor of the file behind `m`: by its name, or from one that the program still has open.
Result<Fd> descriptor_of(const Mapping& m) {
  if (!m.path.empty() && m.path[0] == '/') {
    Fd fd(open(m.path.c_str(), O_RDWR | O_CLOEXEC));
    if (fd && is_file(fd.get(), m)) return fd;
  }
  if (DIR* const all = opendir("/proc/self/fd"); all != nullptr) {
    Fd copy;
    while (const dirent* const entry = readdir(all)) {
      const int fd = std::atoi(entry->d_name);
      if (entry->d_name[0] == '.' || !is_file(fd, m)) continue;
      copy = Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
      break;
    }
    closedir(all);
    if (copy) return copy;
  }
  return error(hktInvalidArgument,
               "the file '%s' mapped at 0x%" PRIx64
               " has no name that this process can open, and no descriptor of it is open any more; keep one open until "
               "the memory is registered",
               m.path.c_str(), m.begin);
}

// Whoever touches what a file does not have, or has no room for, is ended by a SIGBUS, and that may be a peer: the file
// must reach as far as the memory, and its holes are filled now.
Status fill_holes(int fd, const SharedMemory& memory) {
  struct stat s {};
  if (fstat(fd, &s) != 0) return sys_error("fstat");
  if (!S_ISREG(s.st_mode)) return {};
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), size = static_cast<uint64_t>(s.st_size);
  if (memory.offset + memory.bytes > (size + page - 1) / page * page)
    return error(hktInvalidArgument,
                 "the file mapped at %p ends after %" PRIu64
                 " bytes, before the memory that is to be registered does: "
                 "make it %" PRIu64 " bytes long (ftruncate)",
                 static_cast<void*>(memory.base), size, memory.offset + memory.bytes);
  // Some file systems cannot reserve anything.
  if (fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(memory.offset), 1) != 0 && errno == EOPNOTSUPP) return {};
  return reserve_pages(fd, memory.offset, std::min(memory.bytes, size - memory.offset));
}

}  // namespace

Result<void*> allocate_shared(uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes == 0 || bytes > (uint64_t{1} << 47))
    return error(hktInvalidArgument, "%" PRIu64 " bytes cannot be allocated", bytes);
  const uint64_t size = (bytes + page - 1) / page * page;
  HKT_ASSIGN(Fd fd, make_memfd(size));
  HKT_TRY(reserve_pages(fd.get(), 0, size));
  void* const p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED) return sys_error("cannot map %" PRIu64 " bytes", size);
  (void)madvise(p, size, MADV_HUGEPAGE);  // where the system gives such pages for shared memory
  std::shared_ptr<const void> pages(p, [size](void* mapped) { munmap(mapped, size); });
  Allocations::of_process().add(p, {size, std::make_shared<const Fd>(std::move(fd)), std::move(pages), getpid()});
  return p;
}

Status free_shared(void* p) {
  HKT_ASSIGN(const Allocation a, Allocations::of_process().take(p));
  // Peers that are not through with giving it up keep it mapped: the pages go now.
  if (a.owner == getpid())
    (void)fallocate(a.file->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(a.bytes));
  return {};
}

std::shared_ptr<const void> pages_at(const void* p) { return Allocations::of_process().pages(p); }

Result<SharedMemory> shared_memory_at(void* p, uint64_t bytes) {
  if (bytes == 0) return error(hktInvalidArgument, "0 bytes cannot be registered");
  SharedMemory memory;
  memory.base = static_cast<unsigned char*>(p);
  memory.bytes = bytes;
  if (const auto [base, a] = Allocations::of_process().find(p); base != nullptr) {
    memory.offset = static_cast<uint64_t>(memory.base - base);
    if (bytes > a.bytes - memory.offset)
      return error(hktInvalidArgument, "only %" PRIu64 " of the %" PRIu64 " bytes at %p were allocated",
                   a.bytes - memory.offset, bytes, p);
    memory.file = a.file;
  } else {
    HKT_ASSIGN(const Mapping m, mapping_at(p, bytes));
    HKT_ASSIGN(Fd fd, descriptor_of(m));
    memory.offset = m.offset + (reinterpret_cast<uint64_t>(p) - m.begin);
    HKT_TRY(fill_holes(fd.get(), memory));
    memory.file = std::make_shared<const Fd>(std::move(fd));
  }
  struct stat s {};
  if (fstat(memory.file->get(), &s) != 0) return sys_error("fstat");
  memory.device = s.st_dev;
  memory.inode = s.st_ino;
  return memory;
}

}  // namespace hocket
