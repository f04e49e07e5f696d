// Shape: turns (buffer, chunk, round) into byte spans for layouts that are free to choose (all-reduce, broadcast,
// barrier): round-major. Round q covers elements [q * round_elems, (q + 1) * round_elems) of in and out; inside it the
// chunks follow one another and their edges lie on cache lines (relative to the buffer's start). Zero-size chunks are
// normal. Scratch is not advanced: its chunk j lies at j * scratch_stride and is as long as user chunk j mod chunks.
#pragma once

#include <cstdint>

#include "schedule/step.h"

namespace hocket {

struct Span {
  uint64_t offset = 0;  // bytes from the start of the buffer
  uint64_t bytes = 0;
};

inline constexpr uint32_t kChunkAlign = 64;  // bytes

class Shape {
 public:
  // elems >= 0; elem_size a power of two <= 16; chunks >= 1; round_elems >= 1, a multiple of kChunkAlign / elem_size
  // unless one round covers everything.
  HKT_HD constexpr Shape(uint64_t elems, uint32_t elem_size, uint32_t chunks, uint64_t round_elems)
      : elems_(elems), round_elems_(round_elems), elem_size_(elem_size), chunks_(chunks) {}

  HKT_HD constexpr uint32_t rounds() const {
    return elems_ <= round_elems_ ? 1 : static_cast<uint32_t>((elems_ + round_elems_ - 1) / round_elems_);
  }
  // Of a user buffer (in or out).
  HKT_HD constexpr Span user(uint32_t chunk, uint32_t round) const {
    const uint64_t base = uint64_t{round} * round_elems_;
    const uint64_t left = elems_ - base;
    const uint64_t bytes = (left < round_elems_ ? left : round_elems_) * elem_size_;
    if (chunks_ == 1) return {base * elem_size_, bytes};
    const uint64_t lo = edge(chunk, bytes), hi = edge(chunk + 1, bytes);
    return {base * elem_size_ + lo, hi - lo};
  }
  HKT_HD constexpr Span scratch(uint32_t chunk, uint32_t round) const {
    return {uint64_t{chunk} * scratch_stride(), user(chunk % chunks_, round).bytes};
  }
  HKT_HD constexpr Span span(Buf b, uint32_t chunk, uint32_t round) const {
    return b == Buf::scratch ? scratch(chunk, round) : user(chunk, round);
  }
  // The largest chunk of any round.
  HKT_HD constexpr uint64_t scratch_stride() const {
    const uint64_t bytes = (elems_ < round_elems_ ? elems_ : round_elems_) * elem_size_;
    const uint64_t lines = (bytes + kChunkAlign - 1) / kChunkAlign;
    return (lines + chunks_ - 1) / chunks_ * kChunkAlign;
  }
  HKT_HD constexpr uint32_t elem_size() const { return elem_size_; }
  HKT_HD constexpr uint64_t elems() const { return elems_; }

 private:
  // First byte of a chunk inside a round of `bytes`: lines are dealt out as evenly as they can be.
  HKT_HD constexpr uint64_t edge(uint32_t chunk, uint64_t bytes) const {
    const uint64_t lines = (bytes + kChunkAlign - 1) / kChunkAlign;
    const uint64_t at = lines * chunk / chunks_ * kChunkAlign;
    return at < bytes ? at : bytes;
  }

  uint64_t elems_, round_elems_;
  uint32_t elem_size_, chunks_;
};

}  // namespace hocket
