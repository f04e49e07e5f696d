// A process that may not read the memory of others: process_vm_readv and process_vm_writev fail with EPERM, as under
// the system call filters of containers and where Yama is strict.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace hocket::test {

// For the whole process and its children, and for ever. False if the system has no such filters.
inline bool deny_reading_of_processes() {
  constexpr auto number = static_cast<unsigned>(offsetof(seccomp_data, nr));
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{sizeof filter / sizeof filter[0], filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return false;
  // It must do what it says: even one's own memory cannot be read in this way.
  char from = 1, to = 0;
  const iovec here{&to, 1}, there{&from, 1};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == -1 && errno == EPERM;
}

}  // namespace hocket::test
