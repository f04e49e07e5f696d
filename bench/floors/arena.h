// Buffers that every rank can reach. All ranks allocate the same sizes in the same order, so a buffer of one rank has
// its counterpart at the same place of the others' parts.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace floors {

class Arena {
 public:
  static constexpr size_t kBuffer = size_t{1} << 30;  // of address space; pages come as they are touched
  static constexpr size_t kBuffers = 2;               // an input and an output

  // Before the ranks are forked. Null base: there is no address space, said by errno.
  static void* reserve(int ranks) {
    void* at = mmap(nullptr, kBuffer * kBuffers * static_cast<size_t>(ranks), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    madvise(at, kBuffer * kBuffers * static_cast<size_t>(ranks), MADV_HUGEPAGE);
    return at;
  }
  Arena(void* base, int rank) : base_(static_cast<std::byte*>(base)), rank_(rank) {}

  void* allocate(size_t bytes) {
    for (size_t i = 0; i < kBuffers && bytes <= kBuffer; ++i) {
      if (used_[i]) continue;
      used_[i] = true;
      return part(rank_) + i * kBuffer;
    }
    return nullptr;
  }
  void release(void* memory) {
    const auto i = static_cast<size_t>(static_cast<std::byte*>(memory) - part(rank_)) / kBuffer;
    used_[i] = false;
    madvise(memory, kBuffer, MADV_REMOVE);
  }
  // What `p` is for this rank, for another one.
  template <class T>
  T* of(int rank, T* p) const {
    const auto* at = reinterpret_cast<const std::byte*>(p);
    return reinterpret_cast<T*>(part(rank) + (at - part(rank_)));
  }

 private:
  std::byte* part(int rank) const { return base_ + kBuffer * kBuffers * static_cast<size_t>(rank); }

  std::byte* base_;
  int rank_;
  bool used_[kBuffers] = {};
};

}  // namespace floors
