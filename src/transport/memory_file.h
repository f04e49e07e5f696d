// Files that exist in memory only. Any thread.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/socket.h"

namespace hocket {

// A file beyond RLIMIT_FSIZE would not be an error but a signal (SIGXFSZ).
Status check_file_limit(uint64_t end);
// A memfd of `bytes` that can grow and never shrinks; nothing of it is reserved.
Result<Fd> make_memfd(uint64_t bytes);
// Makes [offset, offset + bytes) of a file safe to touch: a later store never finds the file system full. What lies
// beyond its end makes it longer.
Status reserve_pages(int fd, uint64_t offset, uint64_t bytes);

}  // namespace hocket
