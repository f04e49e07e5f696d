// The collectives that are made of a graph's two phases: a fold, after which every rank has its own block complete, and
// a copy, its mirror image, which brings every rank's block to all.
//
// Members of a Graph, with `rank` counting as in circulant_steps.h and offset_tree.h:
//   n; max_ranks; Text::name, Text::all_reduce_summary, Text::block_summary (of the other two)
//   links()                               each way, the same number for both phases
//   messages(), message_blocks()          of a phase: messages of a rank (n-1 blocks in all), most blocks of one
//   fold_steps(), fold(rank, partial, i)  the last one, whose value is the own block, is left for the planner to store
//   keeps_partials()                      whether `fold` stores anything before
//   fold_from(rank, k), fold_to(rank, k)  the ranks of link k
//   copy_first(own, out)                  `own`, whose value is the own block, with what the copy sends of it at once
//   copy_steps(), copy(rank, in, out, i)  the steps after that; in, out: first of the phase's links in the tables
//   copy_from(rank, k), copy_to(rank, k)
#pragma once

#include "algorithms/math.h"

namespace hocket {

// Partial folds lie in out.
template <class Graph>
struct AllReduceOn {
  static constexpr Collective collective = Collective::all_reduce;
  static constexpr const char* name = Graph::Text::name;
  static constexpr const char* summary = Graph::Text::all_reduce_summary;
  static constexpr uint32_t max_ranks = Graph::max_ranks;
  enum Tag : uint16_t { kReduce = 0, kCopy = 1 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::scratch ? 0 : n; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const {
    return n == 1 ? 1 : graph().fold_steps() + graph().copy_steps();
  }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    const uint32_t folds = graph().fold_steps(), first = graph().links();
    if (i >= folds) return graph().copy(rank, first, first, i - folds);
    const Step s = graph().fold(rank, Buf::out, i);
    return i + 1 < folds ? s : graph().copy_first(s.post().store(Buf::out, rank), first);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  // The links of the fold, then those of the copy.
  HKT_HD constexpr uint32_t links_in(uint32_t) const { return 2 * graph().links(); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return 2 * graph().links(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const {
    if (k < graph().links()) return {graph().fold_from(rank, k), kReduce, 0};
    return {graph().copy_from(rank, k - graph().links()), kCopy, 0};
  }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const {
    if (k < graph().links()) return {graph().fold_to(rank, k), kReduce, 0};
    return {graph().copy_to(rank, k - graph().links()), kCopy, 0};
  }

  HKT_HD constexpr Cost cost(uint32_t) const { return {2 * graph().messages(), 2 * (n - 1)}; }
  HKT_HD constexpr uint32_t message_blocks() const { return graph().message_blocks(); }

 private:
  HKT_HD constexpr Graph graph() const { return {n}; }
};

// Blocks lie at their places in out from the start: no scratch, no rotation.
template <class Graph>
struct AllGatherOn {
  static constexpr Collective collective = Collective::all_gather;
  static constexpr const char* name = Graph::Text::name;
  static constexpr const char* summary = Graph::Text::block_summary;
  static constexpr uint32_t max_ranks = Graph::max_ranks;
  enum Tag : uint16_t { kCopy = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const { return b == Buf::in ? 1 : b == Buf::out ? n : 0; }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return n == 1 ? 1 : 1 + graph().copy_steps(); }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (i > 0) return graph().copy(rank, 0, 0, i - 1);
    const Step s = Step{}.load(Buf::in, 0).store(Buf::out, rank);
    return n == 1 ? s : graph().copy_first(s, 0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return graph().links(); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return graph().links(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {graph().copy_from(rank, k), kCopy, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {graph().copy_to(rank, k), kCopy, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {graph().messages(), n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return graph().message_blocks(); }

 private:
  HKT_HD constexpr Graph graph() const { return {n}; }
};

// Partial folds lie in scratch.
template <class Graph>
struct ReduceScatterOn {
  static constexpr Collective collective = Collective::reduce_scatter;
  static constexpr const char* name = Graph::Text::name;
  static constexpr const char* summary = Graph::Text::block_summary;
  static constexpr uint32_t max_ranks = Graph::max_ranks;
  enum Tag : uint16_t { kReduce = 0 };

  uint32_t n = 1;

  HKT_HD constexpr uint32_t chunks(Buf b) const {
    return b == Buf::in ? n : b == Buf::out ? 1 : n > 1 && graph().keeps_partials() ? n : 0;
  }
  HKT_HD constexpr uint32_t lanes(uint32_t) const { return 1; }
  HKT_HD constexpr uint32_t steps(uint32_t, uint32_t) const { return n == 1 ? 1 : graph().fold_steps(); }

  HKT_HD constexpr Step step(uint32_t rank, uint32_t, uint32_t i) const {
    if (n == 1) return reduce_alone(1);
    const Step s = graph().fold(rank, Buf::scratch, i);
    return i + 1 < graph().fold_steps() ? s : s.post().store(Buf::out, 0);
  }
  HKT_HD constexpr Dep dep(uint32_t, uint32_t, uint32_t, uint32_t) const { return {}; }

  HKT_HD constexpr uint32_t links_in(uint32_t) const { return graph().links(); }
  HKT_HD constexpr uint32_t links_out(uint32_t) const { return graph().links(); }
  HKT_HD constexpr Peer in(uint32_t rank, uint32_t k) const { return {graph().fold_from(rank, k), kReduce, 0}; }
  HKT_HD constexpr Peer out(uint32_t rank, uint32_t k) const { return {graph().fold_to(rank, k), kReduce, 0}; }

  HKT_HD constexpr Cost cost(uint32_t) const { return {graph().messages(), n - 1}; }
  HKT_HD constexpr uint32_t message_blocks() const { return graph().message_blocks(); }

 private:
  HKT_HD constexpr Graph graph() const { return {n}; }
};

}  // namespace hocket
