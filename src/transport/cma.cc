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
                 "process_vm_readv is not permitted (another user or user namespace, a process that cannot be dumped, "
                 "or a seccomp filter, such as a container's)");
  }
  if (code == ENOSYS) return error(hktSystemError, "this kernel, or a seccomp filter, has no process_vm_readv");
  // What can be read there is not what the peer has: its number means another process here, or none.
  return error(hktSystemError, "process %d is another one here than there (another PID namespace)", proof.pid);
}

bool can_be_read(const void* p, uint64_t bytes) {
  if (bytes == 0) return true;
  std::array<unsigned char, 2> ends{};
  const iovec local{ends.data(), ends.size()};
  auto* const first = static_cast<unsigned char*>(const_cast<void*>(p));  // only read
  const std::array<iovec, 2> remote{iovec{first, 1}, iovec{first + (bytes - 1), 1}};
  return process_vm_readv(getpid(), &local, 1, remote.data(), remote.size(), 0) == static_cast<ssize_t>(ends.size());
}

ReadError::ReadError(FarRank whose, int code)
    : rank_(whose.rank),
      text_(code == ESRCH ? format("rank %d (pid %d) has ended", whose.rank, whose.pid)
                          : format("memory of rank %d (pid %d) that the call uses cannot be read (error %d); has it "
                                   "been freed before the call was over?",
                                   whose.rank, whose.pid, code)) {}

void read_process(FarRank whose, void* to, uint64_t from, uint64_t bytes) {
  auto* at = static_cast<unsigned char*>(to);
  while (bytes != 0) {
    const ssize_t n = read_some(whose.pid, at, from, bytes);
    if (n <= 0) throw ReadError(whose, n < 0 ? errno : EFAULT);
    at += n;
    from += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
}

}  // namespace hocket
