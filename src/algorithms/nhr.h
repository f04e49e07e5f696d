// All-reduce, all-gather and reduce-scatter on a tree of offsets (offset_tree.h), with messages of as many blocks as
// can be (`nhr`), of up to 4 (`pat4`) or of one (`pat1`).
//
// Steps: `nhr` ceil(log2 n) hops for any n, twice as many for the all-reduce; `pat4` n/8 to n/4, `pat1` n/2. Bytes
// on the wire: n-1 blocks per rank and phase, the least there is; half of them go to the next rank, a quarter two ranks
// on,
// ... Wins over a network where near ranks are better connected: `nhr` for small and medium blocks and medium vectors,
// `pat4` and `pat1` for large blocks, of which slots have no room for many: half as many hops as a ring, or
// less. The operation must be commutative.
// Order: block c is folded at one place, by one tree with the ranks counted from c. All ranks get the same bits, but
// blocks differ in their order.
#pragma once

#include "algorithms/graph_planners.h"
#include "algorithms/offset_tree.h"

namespace hocket {

struct NhrVariant {
  static constexpr const char* name = "nhr";
  static constexpr const char* all_reduce_summary =
      "2 log2 n hops, 2(n-1)/n of the vector per rank, most of it to near ranks: medium and large vectors, any n";
  static constexpr const char* block_summary =
      "log2 n hops, n-1 blocks per rank, most of them to near ranks: small and medium blocks, any n";
  static constexpr uint32_t max_rows = 1u << 31;
};
struct Pat4Variant {
  static constexpr const char* name = "pat4";
  static constexpr const char* block_summary =
      "n/8 to n/4 hops, n-1 blocks per rank in messages of up to 4, most to near ranks: medium and large blocks";
  static constexpr uint32_t max_rows = 4;
};
struct Pat1Variant {
  static constexpr const char* name = "pat1";
  static constexpr const char* block_summary =
      "n/2 hops, n-1 blocks per rank, one by one, most to near ranks: large blocks";
  static constexpr uint32_t max_rows = 1;
};

using Nhr = AllReduceOn<OffsetTree<NhrVariant>>;
using AllGatherNhr = AllGatherOn<OffsetTree<NhrVariant>>;
using AllGatherPat4 = AllGatherOn<OffsetTree<Pat4Variant>>;
using AllGatherPat1 = AllGatherOn<OffsetTree<Pat1Variant>>;
using ReduceScatterNhr = ReduceScatterOn<OffsetTree<NhrVariant>>;
using ReduceScatterPat4 = ReduceScatterOn<OffsetTree<Pat4Variant>>;
using ReduceScatterPat1 = ReduceScatterOn<OffsetTree<Pat1Variant>>;

static_assert(ReduceScatterNhr{8}.step(1, 0, 0) == Step{}.load(Buf::in, 0).pre().blocks(4, 6).push(0));
static_assert(ReduceScatterPat1{8}.step(1, 0, 3) == Step{}.pop(0, 2).load(Buf::in, 5, 2).pre().push(2));
static_assert(AllGatherPat1{8}.step(1, 0, 4) == Step{}.pop(2).store(Buf::out, 5).push(0, 2));
static_assert(AllGatherNhr{3}.cost(0).messages == 2 && AllGatherPat4{16}.cost(0).messages == 5);

}  // namespace hocket
