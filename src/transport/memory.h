// Memory that other processes of the host can map: what hktMemAlloc hands out, and files that the program itself has
// mapped. Any thread.
//
// A message of such memory need not travel in a slot (docs/protocols.md), if it is registered with the communicator
// (transport/regions.h).
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/socket.h"

namespace hocket {

// A stretch of a file that is mapped, shared and writable, into this process. A value; keeps the file open.
struct SharedMemory {
  unsigned char* base = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const Fd> file;
  uint64_t offset = 0;  // of `base` in the file
  uint64_t device = 0, inode = 0;
};

// Zeroed memory of `bytes` > 0, rounded up to pages, all of it there: touching it never fails. hktSystemError when
// there is none.
Result<void*> allocate_shared(uint64_t bytes);
// Of allocate_shared(). Its memory goes back to the system at once, whoever else has it mapped. hktInvalidUsage while a
// SharedMemory of it exists; hktInvalidArgument for any other pointer.
Status free_shared(void* p);
// What lies at [p, p + bytes): an allocation, or a file that the program has mapped, whose holes there are filled. An
// error says why others cannot map it, or could not touch all of it.
Result<SharedMemory> shared_memory_at(void* p, uint64_t bytes);

// Keeps the allocation that p lies in mapped for as long as the result lives, even if it is freed; null: there is none.
std::shared_ptr<const void> pages_at(const void* p);

}  // namespace hocket
