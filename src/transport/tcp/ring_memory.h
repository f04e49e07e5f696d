// The private memory of one ring: zeroed, page-aligned, resident only as far as it has been used.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "transport/link.h"

namespace hocket::tcp {

class RingMemory {
 public:
  RingMemory() = default;
  RingMemory(RingMemory&& other) noexcept : base_(std::exchange(other.base_, nullptr)), geometry_(other.geometry_) {}
  RingMemory& operator=(RingMemory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(geometry_, other.geometry_);
    return *this;
  }
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;
  ~RingMemory() {
    if (base_ != nullptr) munmap(base_, geometry_.bytes());
  }

  static Result<RingMemory> make(const RingGeometry& geometry) {
    void* base = mmap(nullptr, geometry.bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
      return sys_error("cannot get %llu bytes of memory for the buffer of a TCP link",
                       static_cast<unsigned long long>(geometry.bytes()));
    RingMemory memory;
    memory.base_ = static_cast<unsigned char*>(base);
    memory.geometry_ = geometry;
    return memory;
  }

  explicit operator bool() const { return base_ != nullptr; }
  unsigned char* base() const { return base_; }
  std::atomic<uint64_t>& credit() const { return *reinterpret_cast<std::atomic<uint64_t>*>(base_); }
  // The slot of message number `index` (from 0): its tag, and where a payload of so many bytes lies.
  std::atomic<uint64_t>& tag(uint64_t index) const { return *reinterpret_cast<std::atomic<uint64_t>*>(slot(index)); }
  unsigned char* payload(uint64_t index, uint64_t bytes) const {
    return slot(index) + (bytes <= RingGeometry::kInline ? sizeof(uint64_t) : RingGeometry::kHeader);
  }

 private:
  unsigned char* slot(uint64_t index) const {
    return base_ + RingGeometry::kFirstSlot + (index & (geometry_.depth - 1)) * geometry_.stride();
  }
  unsigned char* base_ = nullptr;
  RingGeometry geometry_;
};

}  // namespace hocket::tcp
