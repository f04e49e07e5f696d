// What the tests of verify share: plans by name, plans by hand, and a plan's cost as its steps have it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/catalog.h"
#include "sanitizers.h"
#include "schedule/verify.h"

#define HKT_SANITIZED (HOCKET_TEST_ASAN || HOCKET_TEST_TSAN)

namespace hocket {

inline constexpr Placement kPlacements[] = {Placement::out_of_place, Placement::in_place};

inline Plan planned(const char* name, uint32_t n, uint32_t root = 0) {
  for (const CatalogEntry& e : catalog())
    if (std::string(e.name) == name) return e.plan(n, root);
  ADD_FAILURE() << "no planner " << name;
  std::abort();
}

inline Plan planned(Collective collective, const char* name, uint32_t n, uint32_t root = 0) {
  if (const CatalogEntry* e = find_planner(collective, name)) return e->plan(n, root);
  ADD_FAILURE() << "no planner " << name;
  std::abort();
}

// Declares the cost that the steps have, so that a planted mistake is not caught by its cost alone.
inline void declare(Plan& plan) {
  plan.info.message_blocks = 0;
  for (RankPlan& r : plan.ranks) {
    r.cost = {};
    for (const Step& s : r.steps) {
      r.cost.messages += s.nsend;
      r.cost.blocks += s.nsend * s.count;
      if (s.nsend > 0) plan.info.message_blocks = std::max(plan.info.message_blocks, s.count);
    }
  }
}

// A step with its dependencies.
struct Line {
  Step step;
  std::vector<Dep> deps;
  Line(const Step& s) : step(s) {}  // NOLINT: implicit by intent
  Line(const Step& s, std::vector<Dep> d) : step(s.after(static_cast<uint32_t>(d.size()))), deps(std::move(d)) {}
};

struct Program {
  std::vector<Peer> in, out;
  std::vector<std::vector<Line>> lanes;
};

inline Plan by_hand(Collective collective, std::array<uint32_t, kBufs> chunks, const std::vector<Program>& programs) {
  Plan plan;
  plan.info.name = "by hand";
  plan.info.collective = collective;
  plan.info.nranks = static_cast<uint32_t>(programs.size());
  plan.info.chunks = chunks;
  for (const Program& program : programs) {
    RankPlan r;
    r.in = program.in;
    r.out = program.out;
    for (const std::vector<Line>& lane : program.lanes) {
      r.lanes.push_back({static_cast<uint32_t>(r.steps.size()), static_cast<uint32_t>(lane.size())});
      for (const Line& line : lane) {
        r.steps.push_back(line.step);
        r.first_dep.push_back(static_cast<uint32_t>(r.deps.size()));
        r.deps.insert(r.deps.end(), line.deps.begin(), line.deps.end());
      }
    }
    plan.ranks.push_back(std::move(r));
  }
  declare(plan);
  return plan;
}

inline Plan by_hand(Collective collective, uint32_t chunks, uint32_t scratch, const std::vector<Program>& programs) {
  return by_hand(collective, {chunks, chunks, scratch}, programs);
}

// Broadcast from rank 0 to rank 1 through scratch: one lane receives, another one unpacks; each waits for the other.
inline Plan staged_broadcast() {
  const Program root{{}, {{1, 0, 0}}, {{Step{}.load(Buf::in, 0).store(Buf::out, 0).push(0)}}};
  const Line receive{Step{}.pop(0).store(Buf::scratch, 0), {{1, 1, 0}}};
  const Line unpack{Step{}.load(Buf::scratch, 0).store(Buf::out, 0), {{0, 0, 0}}};
  return by_hand(Collective::broadcast, 1, 1, {root, {{{0, 0, 0}}, {}, {{receive}, {unpack}}}});
}

// All-reduce of two ranks and two chunks, both sent before any is received: needs room for two messages on a link.
inline Plan two_ahead() {
  auto side = [](uint32_t rank) {
    const uint32_t peer = 1 - rank;
    auto send = [](uint32_t c) { return Line(Step{}.load(Buf::in, c).pre().push(0)); };
    auto fold = [&](uint32_t c) { return Line(Step{}.pop(0).load(Buf::in, c, rank).pre().post().store(Buf::out, c)); };
    return Program{{{peer, 0, 0}}, {{peer, 0, 0}}, {{send(0), send(1), fold(0), fold(1)}}};
  };
  return by_hand(Collective::all_reduce, 2, 0, {side(0), side(1)});
}

// Two-shot of two ranks in one lane, which keeps a copy of the operand that it has sent away before it receives the
// result.
inline Plan two_shot_with_copy() {
  auto side = [](uint32_t rank) {
    const uint32_t peer = 1 - rank;
    return Program{{{peer, 0, 0}, {peer, 1, 0}},
                   {{peer, 0, 0}, {peer, 1, 0}},
                   {{Step{}.load(Buf::in, peer).pre().push(0),
                     Step{}.pop(0).load(Buf::in, rank, rank).pre().post().store(Buf::out, rank).push(1),
                     Step{}.load(Buf::in, peer).store(Buf::scratch, peer), Step{}.pop(1).store(Buf::out, peer)}}};
  };
  return by_hand(Collective::all_reduce, 2, 2, {side(0), side(1)});
}

// All-reduce of two ranks over 4 chunks: rank 0 owns the even ones, rank 1 the odd ones, a message is two blocks with a
// stride. Operands wait in scratch for the fold.
inline Plan strided() {
  auto side = [](uint32_t rank) {
    const uint32_t peer = 1 - rank;
    return Program{{{peer, 0, 0}, {peer, 1, 0}},
                   {{peer, 0, 0}, {peer, 1, 0}},
                   {{Step{}.load(Buf::in, peer).pre().blocks(2, 2).push(0),
                     Step{}.load(Buf::in, rank).pre().store(Buf::scratch, rank).blocks(2, 2),
                     Step{}.pop(0).load(Buf::scratch, rank, rank).post().store(Buf::out, rank).blocks(2, 2).push(1),
                     Step{}.pop(1).store(Buf::out, peer).blocks(2, 2)}}};
  };
  return by_hand(Collective::all_reduce, 4, 4, {side(0), side(1)});
}

// All-reduce of three ranks and two chunks, whose operands wait in scratch and are folded at once: at rank 0 two of
// them before a message, at rank 1 two behind it, at rank 2 all three.
inline Plan several_operands() {
  const Step send = Step{}.load(Buf::in, 0).pre().blocks(2).push(0, 2);
  const auto keep = [](uint32_t at) { return Step{}.load(Buf::in, 0).pre().store(Buf::scratch, at).blocks(2); };
  const auto take = [](uint32_t k, uint32_t at) { return Step{}.pop(k).store(Buf::scratch, at).blocks(2); };
  const auto fold = [](uint32_t self, uint32_t operands) {
    return Step{}.load(Buf::scratch, 0, self).loads(operands).post().store(Buf::out, 0).blocks(2);
  };
  const auto side = [](uint32_t a, uint32_t b, std::vector<Line> steps) {
    return Program{{{a, 0, 0}, {b, 0, 0}}, {{a, 0, 0}, {b, 0, 0}}, {std::move(steps)}};
  };
  return by_hand(Collective::all_reduce, 2, 6,
                 {side(1, 2, {send, keep(0), take(0, 2), fold(0, 2).pop(1)}),
                  side(0, 2, {send, keep(0), take(1, 2), fold(1, 2).pop(0)}),
                  side(0, 1, {send, take(0, 0), take(1, 2), keep(4), fold(0, 3)})});
}

inline Lowering slots(uint32_t depth, uint32_t ack_batch) {
  Lowering l;
  l.depth = depth;
  l.ack_batch = ack_batch;
  return l;
}

}  // namespace hocket
