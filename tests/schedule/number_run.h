// Runs a valid plan on numbers, lanes taking turns at random, over links of depth 2 and for several rounds: a second
// opinion on what verify has proven, with nothing in common with it but the meaning of a step.
#pragma once

#include <deque>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "schedule/plan.h"

namespace hocket {

class NumberRun {
 public:
  using Number = uint64_t;
  using Fold = Number (*)(Number, Number);
  static constexpr uint32_t kRounds = 3;
  static constexpr size_t kDepth = 2;

  NumberRun(const Plan& plan, bool in_place, uint32_t seed, Fold fold)
      : plan_(plan), in_place_(in_place), fold_(fold), random_(seed) {
    const auto& chunks = plan.info.chunks;
    for (uint32_t r = 0; r < plan.info.nranks; ++r) {
      memory_.push_back({std::vector<Number>(chunks[0] * kRounds), std::vector<Number>(chunks[1] * kRounds, kGarbage),
                         std::vector<Number>(chunks[2], kGarbage)});
      for (uint32_t i = 0; i < chunks[0] * kRounds; ++i) at(r, Buf::in, i % chunks[0], i / chunks[0]) = input(r, i);
      for (uint32_t lane = 0; lane < plan.ranks[r].lanes.size(); ++lane) lanes_.push_back({r, lane, 0, 0});
    }
  }

  // Empty if all went well.
  std::string run() {
    std::vector<size_t> open;
    for (size_t i = 0; i < lanes_.size(); ++i)
      if (plan_.ranks[lanes_[i].rank].lanes[lanes_[i].lane].count > 0) open.push_back(i);
    while (!open.empty()) {
      std::shuffle(open.begin(), open.end(), random_);
      size_t moved = open.size();
      for (size_t k = 0; k < open.size() && moved == open.size(); ++k)
        if (try_step(lanes_[open[k]])) moved = k;
      if (moved == open.size()) return "deadlock";
      if (lanes_[open[moved]].round == kRounds) open.erase(open.begin() + static_cast<ptrdiff_t>(moved));
    }
    for (const auto& [link, queue] : queues_)
      if (!queue.empty()) return "a message is left over";
    return {};
  }
  // Element i of out, chunk i mod chunks of round i / chunks.
  Number out(uint32_t rank, uint32_t i) {
    const uint32_t chunks = plan_.info.chunks[1];
    return at(rank, Buf::out, i % chunks, i / chunks);
  }
  // What it should be with `fold`, for an operation whose order does not matter.
  Number wanted(uint32_t rank, uint32_t i) const {
    const PlanInfo& info = plan_.info;
    const uint32_t n = info.nranks, chunk = i % info.chunks[1], round = i / info.chunks[1];
    const auto of = [&](uint32_t r, uint32_t c) { return input(r, round * info.chunks[0] + c); };
    switch (info.collective) {
      case Collective::broadcast:
        return of(info.root, chunk);
      case Collective::all_gather:
      case Collective::gather:
        return of(chunk, 0);
      case Collective::scatter:
        return of(info.root, rank);
      case Collective::all_to_all:
        return of(chunk, rank);
      default:
        break;
    }
    Number sum = 0;
    for (uint32_t r = 0; r < n; ++r) sum += pre(of(r, info.collective == Collective::reduce_scatter ? rank : chunk));
    return post(sum);
  }
  bool has_out(uint32_t rank) const {
    const Collective c = plan_.info.collective;
    return (c != Collective::reduce && c != Collective::gather) || rank == plan_.info.root;
  }

  static Number input(uint32_t rank, uint32_t i) { return (rank + 1) * Number{1000003} + i * Number{7919}; }
  static Number pre(Number v) { return 3 * v + 1; }
  static Number post(Number v) { return 7 * v + 5; }

 private:
  static constexpr Number kGarbage = 0xdeadbeefdeadbeef;
  struct Turn {
    uint32_t rank, lane, round, step;
  };
  using Message = std::vector<Number>;
  using LinkKey = std::tuple<uint32_t, uint32_t, uint32_t>;  // source, destination, tag

  // In place: what the standard says of each collective, written as "this chunk of in is that chunk of out".
  Number& at(uint32_t rank, Buf b, uint32_t chunk, uint32_t round) {
    if (b == Buf::in && in_place_ && has_out(rank)) {
      switch (plan_.info.collective) {
        case Collective::all_gather:
        case Collective::gather:
          return at(rank, Buf::out, rank, round);
        case Collective::reduce_scatter:
        case Collective::scatter:
          if (chunk == rank) return at(rank, Buf::out, 0, round);
          break;
        default:
          return at(rank, Buf::out, chunk, round);
      }
    }
    const auto i = static_cast<size_t>(b);
    return memory_[rank][i][round * plan_.info.chunks[i] + chunk];
  }
  Number& cell(uint32_t rank, Buf b, const Step& s, uint32_t first, uint32_t j, uint32_t round) {
    const uint32_t chunks = plan_.info.chunks[static_cast<size_t>(b)];
    const uint32_t chunk = (first + j * s.stride) % chunks;
    return at(rank, b, chunk, b == Buf::scratch ? 0 : round);
  }
  std::deque<Message>& from(uint32_t rank, uint32_t k) {
    const Peer& p = plan_.ranks[rank].in[k];
    return queues_[{p.rank, rank, p.tag}];
  }
  std::deque<Message>& to(uint32_t rank, uint32_t k) {
    const Peer& p = plan_.ranks[rank].out[k];
    return queues_[{rank, p.rank, p.tag}];
  }
  bool is_done(uint32_t rank, const Dep& d, uint32_t round) const {
    for (const Turn& t : lanes_)
      if (t.rank == rank && t.lane == d.lane) return t.round > round || (t.round == round && t.step > d.step);
    return false;
  }

  bool try_step(Turn& t) {
    const RankPlan& p = plan_.ranks[t.rank];
    const uint32_t index = p.lanes[t.lane].first + t.step;
    const Step& s = p.steps[index];
    for (uint32_t d = 0; d < s.ndep; ++d) {
      const Dep& dep = p.deps[p.first_dep[index] + d];
      if (dep.lag <= t.round && !is_done(t.rank, dep, t.round - dep.lag)) return false;
    }
    for (uint32_t k = 0; k < s.nrecv; ++k)
      if (from(t.rank, s.recv + k).empty()) return false;
    for (uint32_t k = 0; k < s.nsend; ++k)
      if (to(t.rank, s.send + k).size() >= kDepth) return false;

    std::vector<Message> operands;
    for (uint32_t k = 0; k < s.nrecv; ++k) {
      operands.push_back(from(t.rank, s.recv + k).front());
      from(t.rank, s.recv + k).pop_front();
    }
    for (uint32_t o = 0; o < s.nload; ++o) {
      Message own;
      for (uint32_t j = 0; j < s.count; ++j) {
        const Number v = cell(t.rank, s.src_buf(), s, s.src, o * s.count + j, t.round);
        own.push_back(s.has(kPre) ? pre(v) : v);
      }
      operands.insert(operands.begin() + s.self + o, own);
    }
    Message v(s.count);
    for (uint32_t j = 0; j < s.count; ++j) {
      v[j] = operands[0][j];
      for (size_t k = 1; k < operands.size(); ++k) v[j] = fold_(v[j], operands[k][j]);
      if (s.has(kPost)) v[j] = post(v[j]);
      if (s.has(kStore)) cell(t.rank, s.dst_buf(), s, s.dst, j, t.round) = v[j];
    }
    for (uint32_t k = 0; k < s.nsend; ++k) to(t.rank, s.send + k).push_back(v);
    if (++t.step == p.lanes[t.lane].count) {
      t.step = 0;
      ++t.round;
    }
    return true;
  }

  const Plan& plan_;
  bool in_place_;
  Fold fold_;
  std::mt19937 random_;
  std::vector<std::array<std::vector<Number>, kBufs>> memory_;
  std::vector<Turn> lanes_;
  std::map<LinkKey, std::deque<Message>> queues_;
};

// What is wrong with the outputs of a plan, or nothing: right sums and copies, and with an operation that is
// commutative but not associative the same result on all ranks of an all-reduce. In and out of place, by several orders
// of lanes.
inline std::string run_with_numbers(const Plan& plan) {
  using Number = NumberRun::Number;
  const auto add = [](Number a, Number b) -> Number { return a + b; };
  const auto scatter = [](Number a, Number b) -> Number { return ((a + b) * 0x9e3779b97f4a7c15u) ^ ((a + b) >> 29); };
  const uint32_t n = plan.info.nranks, elements = plan.info.chunks[1] * NumberRun::kRounds;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    const bool in_place = (seed & 1) != 0;
    NumberRun sum(plan, in_place, seed, add), same(plan, in_place, seed, scatter);
    for (NumberRun* r : {&sum, &same}) {
      const std::string wrong = r->run();
      if (!wrong.empty()) return wrong;
    }
    if (plan.info.collective == Collective::barrier) continue;
    for (uint32_t i = 0; i < elements; ++i) {
      for (uint32_t r = 0; r < n; ++r) {
        if (!sum.has_out(r)) continue;
        if (sum.out(r, i) != sum.wanted(r, i)) return format("element %u of rank %u is wrong", i, r);
        if (plan.info.collective == Collective::all_reduce && same.out(r, i) != same.out(0, i))
          return format("element %u of rank %u is not that of rank 0", i, r);
      }
    }
  }
  return {};
}

}  // namespace hocket
