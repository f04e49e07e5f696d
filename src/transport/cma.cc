#include "transport/cma.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/text.h"

namespace hocket {
namespace {

constexpr uint64_t kMostBytes = 0x7ffff000;  // of one call, a limit of Linux

// Bytes read, or -1 and errno.
ssize_t read_some(int32_t pid, void* to, uint64_t from, uint64_t bytes) {
  const uint64_t n = std::min(bytes, kMostBytes);
  const iovec local{to, n};
  const iovec remote{reinterpret_cast<void*>(from), n};  // NOLINT(performance-no-int-to-ptr): of another process
  return process_vm_readv(pid, &local, 1, &remote, 1, 0);
}

// Of Yama; 0 where there is none.
int ptrace_scope() {
  int scope = 0;
  if (std::FILE* const f = std::fopen("/proc/sys/kernel/yama/ptrace_scope", "re"); f != nullptr) {
    if (std::fscanf(f, "%d", &scope) != 1) scope = 0;
    (void)std::fclose(f);
  }
  return scope;
}

// Writing begins with this byte. What is there is lost.
bool can_be_written(void* at) {
  const unsigned char zero = 0;
  const iovec local{at, 1};
  const iovec remote{const_cast<unsigned char*>(&zero), 1};  // only read
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

std::string text_of(FarRank whose, int code) {
  if (code == ESRCH) return format("rank %d (pid %d) has ended", whose.rank, whose.pid);
  if (code == EPERM)
    return format(
        "reading memory of rank %d (pid %d) is no longer permitted (process_vm_readv, as it was at bring-up): "
        "has it changed its user, or made itself undumpable, or has a seccomp filter been added?",
        whose.rank, whose.pid);
  return format(
      "memory of rank %d (pid %d) that the call uses cannot be read (error %d): has it been freed before the "
      "call was over, or has it pages of a device driver between its first and its last byte?",
      whose.rank, whose.pid, code);
}

}  // namespace

Status try_reading(const ReadProof& proof) {
  uint64_t seen = 0;
  const ssize_t n = read_some(proof.pid, &seen, proof.address, sizeof seen);
  const int code = n < 0 ? errno : 0;
  if (n == static_cast<ssize_t>(sizeof seen) && seen == proof.number) return {};
  if (code == EPERM) {
    if (const int scope = ptrace_scope(); scope > 0)
      return error(hktSystemError,
                   "process_vm_readv is not permitted: /proc/sys/kernel/yama/ptrace_scope is %d; 0 permits it", scope);
    return error(hktSystemError,
                 "process_vm_readv is not permitted (another user or user namespace, another PID namespace, in which "
                 "process %d is somebody else's, a process that cannot be dumped, or a seccomp filter, such as a "
                 "container's)",
                 proof.pid);
  }
  if (code == ENOSYS) return error(hktSystemError, "this kernel, or a seccomp filter, has no process_vm_readv");
  // What can be read there is not what the peer has: its number means another process here, or none.
  return error(hktSystemError, "process %d is another one here than there (another PID namespace)", proof.pid);
}

bool can_be_read(const void* p, uint64_t bytes) {
  if (bytes == 0) return true;
  std::array<unsigned char, 2> ends{};
  const iovec local{ends.data(), ends.size()};
  auto* const first = const_cast<unsigned char*>(static_cast<const unsigned char*>(p));  // only read
  const std::array<iovec, 2> remote{iovec{first, 1}, iovec{first + (bytes - 1), 1}};
  return process_vm_readv(getpid(), &local, 1, remote.data(), remote.size(), 0) == static_cast<ssize_t>(ends.size());
}

ReadError::ReadError(FarRank whose, int code) : ReadError(whose.rank, text_of(whose, code)) {}

ReadError ReadError::of_own_memory(const void* to) {
  return {-1,
          format("this rank's output cannot be written at %p: has it been freed, or is it shorter than the call says, "
                 "or read-only?",
                 to)};
}

void read_process(FarRank whose, void* to, uint64_t from, uint64_t bytes) {
  auto* at = static_cast<unsigned char*>(to);
  while (bytes != 0) {
    const ssize_t n = read_some(whose.pid, at, from, bytes);
    if (n <= 0) {
      const int code = n < 0 ? errno : EFAULT;
      // The kernel does not say which of the two sides is bad, but stops where it is.
      if (code == EFAULT && !can_be_written(at)) throw ReadError::of_own_memory(at);
      throw ReadError(whose, code);
    }
    at += n;
    from += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
}

}  // namespace hocket
