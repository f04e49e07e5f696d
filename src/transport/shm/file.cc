#include "transport/shm/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>

#include "transport/memory_file.h"

namespace hocket::shm {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr uint64_t kHeaderBytes = 4096;

uint64_t aligned(uint64_t bytes) { return (bytes + File::kAlign - 1) / File::kAlign * File::kAlign; }

Result<Fd> open_devshm(const FileSpec& spec) {
  const char* dir = spec.devshm_dir;
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
                           dir, free / kMiB, total / kMiB, static_cast<double>(spec.bytes) / kMiB, spec.ranks);
  // Asked first so that a hopeless request does not fill the file system before it fails; 0 blocks: it has no limit.
  if (space.f_blocks != 0 && static_cast<double>(spec.bytes) > free) return full;
  HKT_TRY(check_file_limit(File::kFirst + spec.bytes));
  if (ftruncate(fd.get(), static_cast<off_t>(File::kFirst + spec.bytes)) != 0)
    return sys_error("shared memory: cannot size a file in %s", dir);
  return fd;
}

struct flock lock_of(int seat, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = seat;
  lock.l_len = 1;
  return lock;
}

}  // namespace

// All that processes share besides the ranges.
struct File::Header {
  static constexpr uint64_t kMagic = 0x31'4c'49'46'54'4b'48'00;  // "\0HKTFIL1" in memory
  uint64_t magic = 0;
  uint64_t nonce = 0;
  std::atomic<uint64_t> next{0};  // offset of the next range
};

Result<std::shared_ptr<File>> File::create(const FileSpec& spec) {
  HKT_ASSIGN(Fd fd, spec.backing == Backing::memfd ? make_memfd(kFirst + spec.bytes) : open_devshm(spec));
  std::shared_ptr<File> file(new File(std::move(fd), spec.backing));
  HKT_TRY(file->reserve(0, kHeaderBytes));
  if (spec.backing == Backing::devshm) HKT_TRY(file->reserve(kFirst, spec.bytes));
  HKT_ASSIGN(unsigned char* page, file->map(0, kHeaderBytes));
  file->header_ = new (page) Header;
  file->header_->nonce = spec.nonce;
  file->header_->next.store(kFirst + aligned(spec.bytes), std::memory_order_relaxed);
  file->header_->magic = Header::kMagic;
  return file;
}

Result<std::shared_ptr<File>> File::open(Fd fd, Backing backing, uint64_t nonce) {
  std::shared_ptr<File> file(new File(std::move(fd), backing));
  if (file->size() < kHeaderBytes) return error(hktRemoteError, "shared memory: a file that is too short");
  HKT_ASSIGN(unsigned char* page, file->map(0, kHeaderBytes));
  file->header_ = reinterpret_cast<Header*>(page);
  if (file->header_->magic != Header::kMagic || file->header_->nonce != nonce)
    return error(hktRemoteError,
                 "shared memory: a file of another job or version: do all ranks run the same version of Hocket?");
  return file;
}

File::~File() {
  if (header_ != nullptr) munmap(header_, kHeaderBytes);
}

uint64_t File::take(uint64_t bytes) { return header_->next.fetch_add(aligned(bytes), std::memory_order_relaxed); }

Status File::reserve(uint64_t offset, uint64_t bytes) { return reserve_pages(fd(), offset, bytes); }

void File::give_back(uint64_t offset, uint64_t bytes) {
  // A failure costs memory until the last process leaves, nothing else.
  (void)fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(aligned(bytes)));
}

Result<unsigned char*> File::map(uint64_t offset, uint64_t bytes) const {
  // NORESERVE: most of a mapping is never touched; what is used has been reserved in the file.
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd(), static_cast<off_t>(offset));
  if (base == MAP_FAILED)
    return sys_error("shared memory: cannot map %.1f MiB (see ulimit -v)", static_cast<double>(bytes) / kMiB);
  return static_cast<unsigned char*>(base);
}

uint64_t File::size() const {
  struct stat info {};
  return fstat(fd(), &info) == 0 && info.st_size > 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

Status File::hold(int seat) {
  const MutexLock lock(mutex_);
  int& holders = seats_[seat];
  if (holders == 0) {
    struct flock request = lock_of(seat, F_WRLCK);
    if (fcntl(fd(), F_SETLK, &request) != 0) {
      seats_.erase(seat);
      if (errno != EAGAIN && errno != EACCES) return sys_error("shared memory: cannot lock a file");
      return error(hktInternalError,
                   "shared memory: place %d of the host is taken already (two processes with one rank?)", seat);
    }
  }
  ++holders;
  return {};
}

void File::release(int seat) {
  const MutexLock lock(mutex_);
  const auto it = seats_.find(seat);
  if (it == seats_.end() || --it->second > 0) return;
  seats_.erase(it);
  struct flock request = lock_of(seat, F_UNLCK);
  fcntl(fd(), F_SETLK, &request);  // cannot fail; closing the file would do the same
}

bool File::held(int seat) const {
  struct flock request = lock_of(seat, F_WRLCK);
  return fcntl(fd(), F_GETLK, &request) != 0 || request.l_type != F_UNLCK;
}

}  // namespace hocket::shm
