#include "transport/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/result.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace hocket {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

}  // namespace

Status check_file_limit(uint64_t end) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur)
    return error(hktSystemError, "shared memory: a file of %.1f MiB is beyond this process's limit (ulimit -f)",
                 static_cast<double>(end) / kMiB);
  return {};
}

Result<Fd> make_memfd(uint64_t bytes) {
  // NOEXEC_SEAL is demanded by hardened kernels and unknown to those before 6.3.
  Fd fd(memfd_create("hocket", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  if (!fd && errno == EINVAL) fd = Fd(memfd_create("hocket", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return descriptor_error("shared memory: memfd_create");
  HKT_TRY(check_file_limit(bytes));
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return sys_error("shared memory: cannot make a memfd of %.1f MiB", static_cast<double>(bytes) / kMiB);
  // Nobody who gets the descriptor can cut the memory under the others (SIGBUS).
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return sys_error("shared memory: cannot seal the size of a memfd");
  return fd;
}

Status reserve_pages(int fd, uint64_t offset, uint64_t bytes) {
  HKT_TRY(check_file_limit(offset + bytes));
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

}  // namespace hocket
