#include "base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace hocket {

Result<std::string> random_bytes(size_t n) {
  std::string out(n, '\0');
  // Up to 256 bytes come whole, or not at all.
  ssize_t got = 0;
  do got = getrandom(out.data(), n, 0);
  while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(n)) return sys_error("the system gives no random bytes (getrandom)");
  return out;
}

Result<uint64_t> random_bits() {
  HKT_ASSIGN(const std::string bytes, random_bytes(sizeof(uint64_t)));
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), sizeof bits);
  return bits != 0 ? bits : 1;
}

}  // namespace hocket
