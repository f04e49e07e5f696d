#include "cma.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace floors {
namespace {

constexpr size_t kMostBytes = 0x7ffff000;  // of one call, a limit of Linux

// 1 byte short is an error too: the caller named memory that exists.
bool read_once(pid_t pid, void* to, const void* from, size_t bytes) {
  const iovec local{to, bytes};
  const iovec remote{const_cast<void*>(from), bytes};
  return process_vm_readv(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

struct Card {
  Flag state;  // 1: the address is there, 2: could read all others, 3: could not
  pid_t pid;
  const uint32_t* address;
};

}  // namespace

bool cma_read(pid_t pid, float* to, const float* from, size_t count) {
  std::byte* at = reinterpret_cast<std::byte*>(to);
  const std::byte* source = reinterpret_cast<const std::byte*>(from);
  for (size_t left = count * sizeof(float); left > 0;) {
    const size_t bytes = std::min(left, kMostBytes);
    if (!read_once(pid, at, source, bytes)) {
      std::fprintf(stderr, "floors: process_vm_readv of %zu bytes from process %d: %s\n", bytes, static_cast<int>(pid),
                   std::strerror(errno));
      return false;
    }
    at += bytes;
    source += bytes;
    left -= bytes;
  }
  return true;
}

bool cma_works(Team& team) {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // an error where Yama is absent, and then not needed
  static const uint32_t kPattern = 0x5eed1e55;
  Card* cards = team.take<Card>(static_cast<size_t>(team.ranks));
  Card& mine = cards[team.rank];
  mine.pid = getpid();
  mine.address = &kPattern;
  mine.state.value.store(1, std::memory_order_release);
  bool works = true;
  for (int peer = 0; peer < team.ranks; peer++) {
    uint32_t seen = 0;
    wait_for(cards[peer].state.value, 1, team.crowded);
    works = works && read_once(cards[peer].pid, &seen, cards[peer].address, sizeof(seen)) && seen == kPattern;
  }
  mine.state.value.store(works ? 2 : 3, std::memory_order_release);
  for (int peer = 0; peer < team.ranks; peer++) {
    wait_for(cards[peer].state.value, 2, team.crowded);
    works = works && cards[peer].state.value.load(std::memory_order_relaxed) == 2;
  }
  return works;
}

}  // namespace floors
