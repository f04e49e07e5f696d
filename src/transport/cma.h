// Cross memory attach: reading the memory of another process of this host with process_vm_readv(2). Whether that is
// allowed depends on users, namespaces, ptrace scope and seccomp filters, and a process id may mean another process
// here than there: so it is tried, once for each pair of ranks, on a number that only the peer has.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "base/result.h"

namespace hocket {

// A number in a rank's memory, for its peers to read.
struct ReadProof {
  int32_t pid = 0;
  uint64_t address = 0;  // of the number, 8 bytes
  uint64_t number = 0;   // random
};
// Can this process read that? An error says why not, and what to do about it.
Status try_reading(const ReadProof& proof);

// Can others read [p, p + bytes) of this process as far as this rank's memory goes? Not what a device driver has
// mapped, such as memory pinned for a GPU. Looks at the two ends alone (a system call): one with such pages in its
// middle is taken for good, and reading it is then a ReadError.
bool can_be_read(const void* p, uint64_t bytes);

// A rank in another process.
struct FarRank {
  int rank = 0;
  int32_t pid = 0;
};

// Reading has failed in the middle of a call: the rank has ended, its memory is not there any more or may not be read
// any more; or the memory of this process that it was to be copied to cannot be written.
class ReadError : public std::exception {
 public:
  ReadError(FarRank whose, int code);
  static ReadError of_own_memory(const void* to);
  int rank() const { return rank_; }  // -1: the fault is this process's own
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  ReadError(int rank, std::string text) : rank_(rank), text_(std::move(text)) {}
  int rank_;
  std::string text_;
};

// Copies [from, from + bytes) of another process to `to`. Throws ReadError. Any thread.
void read_process(FarRank whose, void* to, uint64_t from, uint64_t bytes);

}  // namespace hocket
