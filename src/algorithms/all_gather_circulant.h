// Circulant all-gather (Bruck's): in every round a rank doubles what it has by the blocks of a rank further on.
//
// Steps: ceil(log2 n) hops for any n. Bytes on the wire: n-1 blocks per rank, the least there is. Wins for small and
// medium blocks over a network.
//
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", 1997. Blocks lie at their places in out from the start: no scratch, no rotation.
#pragma once

#include "algorithms/circulant_steps.h"

namespace hocket {

struct AllGatherCirculant {
  static constexpr Collective collective = Collective::all_gather;
  static constexpr const char* name = "circulant";
  static constexpr const char* summary = "log2 n hops, n-1 blocks per rank: small and medium blocks, any n";
  static constexpr uint32_t max_ranks = 1u << 30;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? 1 : b == Buf::out ? n : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return 1 + graph().copy_steps(); }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (i > 0) return graph().copy(rank, 0, 0, i - 1);
    const Step s = Step{}.load(Buf::in, 0).store(Buf::out, rank);
    return n == 1 ? s : s.push(0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return graph().rounds(); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return graph().rounds(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {graph().copy_from(rank, k), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {graph().copy_to(rank, k), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {graph().rounds(), n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return n / 2; }

 private:
  HKT_HD constexpr CirculantSteps graph() const { return {n}; }
};

static_assert(AllGatherCirculant{5}.step(3, 0, 0) == Step{}.load(Buf::in, 0).store(Buf::out, 3).push(0));
static_assert(AllGatherCirculant{5}.step(3, 0, 1) == Step{}.pop(0).store(Buf::out, 4));
static_assert(AllGatherCirculant{5}.step(3, 0, 5) == Step{}.pop(2).store(Buf::out, 1).blocks(2));

}  // namespace hocket
