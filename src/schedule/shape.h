// Shape: turns (buffer, chunk, round) into byte spans.
//
// Round-major, for vectors that may be cut anyhow: round q covers elements [q * round_elems, (q + 1) * round_elems) of
// in and out; inside it the chunks follow one another and their edges lie on cache lines (relative to the buffer's
// start). Blocks, where the user says what lies where: round q covers elements [q * round_elems, (q + 1) * round_elems)
// of each block, as far as the block reaches.
//
// Chunks of no size are normal. Scratch is not advanced: its chunk j lies at j * scratch_stride and is as long as the
// chunks of its size class (schedule/buffers.h).
#pragma once

#include <cstdint>

#include "schedule/collective.h"

namespace hocket {

struct Span {
  uint64_t offset = 0;  // bytes from the start of the buffer
  uint64_t bytes = 0;
};

inline constexpr uint32_t kChunkAlign = 64;  // bytes

// A layout of blocks as one rank sees it. Without tables all blocks have `elems` elements and lie one after another.
// The tables have an entry for each of the n blocks, are not owned, and outlive the Shape. Where in or out is the block
// of its own rank, it starts with that block.
struct BlockLayout {
  Collective collective = Collective::all_gather;
  uint32_t blocks = 1;  // number of ranks
  uint32_t rank = 0;    // counts only: whose block it is
  uint32_t elem_size = 1;
  uint64_t elems = 0;                // of a block; with counts: of the largest
  uint64_t round_elems = 1;          // of a block in a round: as round_elems of a round-major shape
  const uint64_t* counts = nullptr;  // elements, by block
  const uint64_t* displs = nullptr;  // elements from the start of the buffer, by block; null: block c at c * elems
};

class Shape {
 public:
  // Round-major. elems >= 0; elem_size a power of two <= 16; chunks >= 1; round_elems >= 1, a multiple of
  // kChunkAlign / elem_size unless one round covers everything.
  HKT_HD constexpr Shape(uint64_t elems, uint32_t elem_size, uint32_t chunks, uint64_t round_elems)
      : elems_(elems), round_elems_(round_elems), elem_size_(elem_size), chunks_(chunks) {}
  HKT_HD constexpr explicit Shape(const BlockLayout& b)
      : elems_(b.elems),
        round_elems_(b.round_elems),
        elem_size_(b.elem_size),
        chunks_(b.blocks),
        layout_(Layout::blocks),
        in_is_own_(in_is_own_block(b.collective)),
        out_is_own_(out_is_own_block(b.collective)),
        rank_(b.rank),
        counts_(b.counts),
        displs_(b.displs) {}

  HKT_HD constexpr uint32_t rounds() const {
    return elems_ <= round_elems_ ? 1 : static_cast<uint32_t>((elems_ + round_elems_ - 1) / round_elems_);
  }
  HKT_HD constexpr Span span(Buf b, uint32_t chunk, uint32_t round) const {
    if (layout_ == Layout::blocks) return block(b, chunk, round);
    return b == Buf::scratch ? Span{uint64_t{chunk} * scratch_stride(), user(chunk % chunks_, round).bytes}
                             : user(chunk, round);
  }
  // The largest chunk of any round, in whole lines.
  HKT_HD constexpr uint64_t scratch_stride() const {
    const uint64_t bytes = (elems_ < round_elems_ ? elems_ : round_elems_) * elem_size_;
    const uint64_t lines = (bytes + kChunkAlign - 1) / kChunkAlign;
    return (layout_ == Layout::blocks ? lines : (lines + chunks_ - 1) / chunks_) * kChunkAlign;
  }
  HKT_HD constexpr uint32_t elem_size() const { return elem_size_; }
  // Of the vector; of the largest block.
  HKT_HD constexpr uint64_t elems() const { return elems_; }

 private:
  // Of in or out, round-major.
  HKT_HD constexpr Span user(uint32_t chunk, uint32_t round) const {
    const uint64_t base = uint64_t{round} * round_elems_;
    const uint64_t left = elems_ - base;
    const uint64_t bytes = (left < round_elems_ ? left : round_elems_) * elem_size_;
    if (chunks_ == 1) return {base * elem_size_, bytes};
    const uint64_t lo = edge(chunk, bytes), hi = edge(chunk + 1, bytes);
    return {base * elem_size_ + lo, hi - lo};
  }
  // First byte of a chunk inside a round of `bytes`: lines are dealt out as evenly as they can be.
  HKT_HD constexpr uint64_t edge(uint32_t chunk, uint64_t bytes) const {
    const uint64_t lines = (bytes + kChunkAlign - 1) / kChunkAlign;
    const uint64_t at = lines * chunk / chunks_ * kChunkAlign;
    return at < bytes ? at : bytes;
  }
  HKT_HD constexpr Span block(Buf b, uint32_t chunk, uint32_t round) const {
    const bool own = (b == Buf::in && in_is_own_) || (b == Buf::out && out_is_own_);
    const uint64_t count = counts_ == nullptr ? elems_ : counts_[own ? rank_ : chunk % chunks_];
    const uint64_t base = uint64_t{round} * round_elems_;
    const uint64_t at = base < count ? base : count, left = count - at;
    const uint64_t bytes = (left < round_elems_ ? left : round_elems_) * elem_size_;
    if (b == Buf::scratch) return {uint64_t{chunk} * scratch_stride(), bytes};
    const uint64_t start = own ? 0 : displs_ == nullptr ? uint64_t{chunk} * elems_ : displs_[chunk];
    return {(start + at) * elem_size_, bytes};
  }

  uint64_t elems_, round_elems_;
  uint32_t elem_size_, chunks_;
  Layout layout_ = Layout::round_major;
  bool in_is_own_ = false, out_is_own_ = false;
  uint32_t rank_ = 0;
  const uint64_t* counts_ = nullptr;
  const uint64_t* displs_ = nullptr;
};

}  // namespace hocket
