// Runs a plan on real numbers: a small executor of its own, over FIFO links of depth 2 and several rounds, in and out
// of place, with memory that lies where Shape says. Independent of verify and of the engine.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "schedule/drive.h"
#include "schedule/plan.h"
#include "schedule/shape.h"

namespace hocket {

using Value = uint64_t;
using Fold = Value (*)(Value, Value);

inline constexpr uint32_t kElem = sizeof(Value);
inline constexpr uint32_t kLine = kChunkAlign / kElem;
inline constexpr uint32_t kNobody = 0xffffffff;
inline constexpr Value kGarbage = 0xdeadbeef00000000u;

inline Value pre(Value v) { return 3 * v + 1; }
inline Value post(Value v) { return 7 * v + 5; }
inline Value input(uint32_t rank, uint64_t i) { return (rank + 1) * 1000003u + i * 7919u; }

// How much data a call moves, and where it lies.
struct Sizes {
  uint64_t elems = 0;  // of the vector, or of the largest block
  uint64_t round = 1;
  std::vector<uint64_t> counts{}, displs{};  // of blocks; empty: all have `elems`, one after another

  uint64_t count(uint32_t block) const { return counts.empty() ? elems : counts[block]; }
  uint64_t displ(uint32_t block) const { return displs.empty() ? block * elems : displs[block]; }
};

class Execution {
 public:
  Execution(const Plan& plan, const Sizes& sizes, Fold fold, bool in_place)
      : plan_(plan), sizes_(sizes), fold_(fold), in_place_(in_place) {
    const uint32_t n = plan.info.nranks;
    sent_.assign(n, {});
    for (uint32_t r = 0; r < n; ++r) {
      ranks_.push_back({Memory(extent(Buf::in, r)), Memory(extent(Buf::out, r)), {}, shape(r), {}});
      Rank& rank = ranks_.back();
      rank.scratch.assign(plan.info.chunks[2] * rank.shape.scratch_stride() / kElem, 0xabcdefu);
      for (uint64_t i = 0; i < rank.out.size(); ++i) rank.out[i] = kGarbage + r;
      for (uint64_t i = 0; i < rank.in.size(); ++i) at(r, Buf::in, i) = input(r, i);
      rank.cursors.resize(plan.ranks[r].lanes.size());
      for (uint32_t lane = 0; lane < rank.cursors.size(); ++lane) rank.cursors[lane].lane = lane;
    }
  }

  // Runs all lanes of all ranks but `absent`, one after another, until nothing moves. Returns how many ranks have
  // finished.
  uint32_t drive(uint32_t absent = kNobody) {
    for (;;) {
      bool moved = false;
      uint32_t finished = 0;
      for (uint32_t r = 0; r < ranks_.size(); ++r) {
        if (r == absent) continue;
        Machine machine{*this, r};
        bool done = true;
        for (Cursor& c : ranks_[r].cursors) {
          const Cursor before = c;
          done &= run_lane(Source{plan_.ranks[r]}, c, ranks_[r].shape.rounds(), machine);
          moved |= c.round != before.round || c.step != before.step;
        }
        finished += done;
      }
      if (!moved) return finished;
    }
  }

  // Runs to the end and checks all but the result.
  void run() {
    const uint32_t n = plan_.info.nranks;
    EXPECT_EQ(drive(), n) << "standstill";
    for (const auto& [link, queue] : links_)
      EXPECT_TRUE(queue.empty()) << std::get<0>(link) << " -> " << std::get<1>(link) << ": a message is never popped";
    for (uint32_t r = 0; r < n; ++r) {
      EXPECT_EQ(sent_[r].messages, plan_.ranks[r].cost.messages * ranks_[r].shape.rounds()) << "rank " << r;
      EXPECT_EQ(sent_[r].blocks, plan_.ranks[r].cost.blocks * ranks_[r].shape.rounds()) << "rank " << r;
      // What belongs to the caller alone is as it was.
      for (uint64_t i = 0; i < ranks_[r].in.size(); ++i)
        EXPECT_TRUE(shared(r, i) || ranks_[r].in[i] == input(r, i)) << "in of rank " << r << " was written";
    }
  }

  uint64_t out_size(uint32_t rank) const { return ranks_[rank].out.size(); }
  Value out(uint32_t rank, uint64_t i) const { return ranks_[rank].out[i]; }

 private:
  using Memory = std::vector<Value>;
  struct Rank {
    Memory in, out, scratch;
    Shape shape;
    std::vector<Cursor> cursors;
  };
  struct Source {
    const RankPlan& plan;
    uint32_t steps(uint32_t lane) const { return plan.lanes[lane].count; }
    const Step& step(uint32_t lane, uint32_t i) const { return plan.steps[plan.lanes[lane].first + i]; }
    Dep dep(uint32_t lane, uint32_t i, uint32_t d) const {
      return plan.deps[plan.first_dep[plan.lanes[lane].first + i] + d];
    }
  };
  using Message = std::vector<Value>;

  struct Machine {
    Execution& run;
    uint32_t rank;

    std::deque<Message>& in_link(uint32_t k) {
      const Peer& p = run.plan_.ranks[rank].in[k];
      return run.links_[{p.rank, rank, p.tag}];
    }
    std::deque<Message>& out_link(uint32_t k) {
      const Peer& p = run.plan_.ranks[rank].out[k];
      return run.links_[{rank, p.rank, p.tag}];
    }
    bool dep_done(Dep d, uint32_t round) const {
      const Cursor& c = run.ranks_[rank].cursors[d.lane];
      return c.round > round || (c.round == round && c.step > d.step);
    }
    bool pop_ready(uint32_t k) { return !in_link(k).empty(); }
    bool push_ready(uint32_t k, const Step&) { return out_link(k).size() < kDepth; }

    // Of `s.count` blocks from the `skip`-th on.
    std::vector<Span> spans(const Step& s, Buf b, uint32_t chunk, uint32_t round, uint32_t skip = 0) const {
      std::vector<Span> list;
      const uint32_t chunks = run.plan_.info.chunks[static_cast<size_t>(b)];
      for (uint32_t j = skip; j < skip + s.count; ++j)
        list.push_back(run.ranks_[rank].shape.span(b, (chunk + j * s.stride) % chunks, round));
      return list;
    }
    void execute(const Step& s, const Cursor& c) {
      std::vector<Message> operands;
      for (uint32_t k = 0; k < s.nrecv; ++k) {
        operands.push_back(in_link(s.recv + k).front());
        in_link(s.recv + k).pop_front();
      }
      for (uint32_t o = 0; o < s.nload; ++o) {
        Message local;
        for (const Span& span : spans(s, s.src_buf(), s.src, c.round, o * s.count))
          for (uint64_t i = 0; i < span.bytes / kElem; ++i)
            local.push_back(run.at(rank, s.src_buf(), span.offset / kElem + i));
        if (s.has(kPre)) std::transform(local.begin(), local.end(), local.begin(), pre);
        operands.insert(operands.begin() + s.self + o, local);
      }
      Message v;
      if (!operands.empty()) v = operands[0];
      for (size_t k = 1; k < operands.size(); ++k) {
        ASSERT_EQ(operands[k].size(), v.size());
        for (size_t i = 0; i < v.size(); ++i) v[i] = run.fold_(v[i], operands[k][i]);
      }
      if (s.has(kPost)) std::transform(v.begin(), v.end(), v.begin(), post);
      if (s.has(kStore)) {
        size_t at = 0;
        for (const Span& span : spans(s, s.dst_buf(), s.dst, c.round))
          for (uint64_t i = 0; i < span.bytes / kElem; ++i)
            run.at(rank, s.dst_buf(), span.offset / kElem + i) = v.at(at++);
        ASSERT_EQ(at, v.size());
      }
      for (uint32_t k = 0; k < s.nsend; ++k) out_link(s.send + k).push_back(v);
      run.sent_[rank].messages += s.nsend;
      run.sent_[rank].blocks += s.nsend * s.count;
    }
  };

  static constexpr uint32_t kDepth = 2;  // of a link

  Shape shape(uint32_t rank) const {
    const PlanInfo& info = plan_.info;
    if (layout(info.collective) == Layout::round_major) return {sizes_.elems, kElem, info.chunks[1], sizes_.round};
    return Shape(BlockLayout{info.collective, info.nranks, rank, kElem, sizes_.elems, sizes_.round,
                             sizes_.counts.empty() ? nullptr : sizes_.counts.data(),
                             sizes_.displs.empty() ? nullptr : sizes_.displs.data()});
  }
  bool own_block(Buf b) const {
    return b == Buf::in ? in_is_own_block(plan_.info.collective) : out_is_own_block(plan_.info.collective);
  }
  uint64_t extent(Buf b, uint32_t rank) const {
    if (layout(plan_.info.collective) == Layout::round_major) return sizes_.elems;
    if (own_block(b)) return sizes_.count(rank);
    uint64_t end = 0;
    for (uint32_t c = 0; c < plan_.info.nranks; ++c) end = std::max(end, sizes_.displ(c) + sizes_.count(c));
    return end;
  }
  // Whether the rank has both buffers, and in place element i of in is one of out: which, by adding `offset`.
  bool shared(uint32_t rank, uint64_t i, int64_t* offset = nullptr) const {
    const Collective c = plan_.info.collective;
    int64_t by = 0;
    if (!in_place_ ||
        ((out_is_at_root(c) || in_is_at_root(c)) && c != Collective::broadcast && rank != plan_.info.root))
      return false;
    if (own_block(Buf::in)) by = static_cast<int64_t>(sizes_.displ(rank));
    if (own_block(Buf::out)) {
      by = -static_cast<int64_t>(sizes_.displ(rank));
      if (i < sizes_.displ(rank) || i >= sizes_.displ(rank) + sizes_.count(rank)) return false;
    }
    if (offset) *offset = by;
    return true;
  }
  Value& at(uint32_t rank, Buf b, uint64_t i) {
    Rank& r = ranks_[rank];
    int64_t offset = 0;
    if (b == Buf::scratch) return r.scratch.at(i);
    if (b == Buf::in && !shared(rank, i, &offset)) return r.in.at(i);
    return r.out.at(static_cast<uint64_t>(static_cast<int64_t>(i) + offset));
  }

  const Plan& plan_;
  const Sizes& sizes_;
  Fold fold_;
  bool in_place_;
  std::vector<Rank> ranks_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::deque<Message>> links_;  // source, destination, tag
  std::vector<Cost> sent_;
};

}  // namespace hocket
