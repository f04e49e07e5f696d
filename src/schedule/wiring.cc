#include "schedule/wiring.h"

#include <algorithm>

#include "schedule/verify.h"

namespace hocket {
namespace {

constexpr uint32_t kNone = ~0u;

void number(const Plan& plan, Wiring& w) {
  uint32_t lanes = 0, steps = 0, in = 0, out = 0;
  auto mark = [&] {
    w.first_lane.push_back(lanes);
    w.first_step.push_back(steps);
    w.first_in.push_back(in);
    w.first_out.push_back(out);
  };
  for (uint32_t r = 0; r < plan.ranks.size(); ++r) {
    mark();
    const RankPlan& p = plan.ranks[r];
    lanes += static_cast<uint32_t>(p.lanes.size());
    steps += static_cast<uint32_t>(p.steps.size());
    in += static_cast<uint32_t>(p.in.size());
    out += static_cast<uint32_t>(p.out.size());
    w.lane_rank.insert(w.lane_rank.end(), p.lanes.size(), r);
  }
  mark();
}

// Pairs every out entry with the in entry of its peer.
Status join_tables(const Plan& plan, Wiring& w) {
  const uint32_t n = plan.info.nranks;
  // Out entries ordered by destination (a counting sort), so that one table of n * tags places serves every
  // destination.
  std::vector<uint32_t> start(n + 1, 0);
  for (const RankPlan& p : plan.ranks)
    for (const Peer& peer : p.out) ++start[peer.rank + 1];
  for (uint32_t r = 0; r < n; ++r) start[r + 1] += start[r];
  struct Entry {
    uint32_t source, out;
  };
  std::vector<Entry> entries(start[n]);
  std::vector<uint32_t> next(start.begin(), start.end() - 1);
  for (uint32_t r = 0; r < n; ++r)
    for (uint32_t k = 0; k < plan.ranks[r].out.size(); ++k) entries[next[plan.ranks[r].out[k].rank]++] = {r, k};

  w.links.resize(w.first_in.back());
  w.out.assign(w.first_out.back(), kNone);
  std::vector<uint32_t> place(size_t{n} * kMaxTags, kNone);
  for (uint32_t r = 0; r < n; ++r) {
    const std::vector<Peer>& table = plan.ranks[r].in;
    for (uint32_t k = 0; k < table.size(); ++k) {
      uint32_t& at = place[size_t{table[k].rank} * kMaxTags + table[k].tag];
      if (at != kNone)
        return error(hktInvalidArgument,
                     "rank %u: in table entry %u: rank %u tag %u is listed twice, entry %u has it already (%s)", r, k,
                     table[k].rank, table[k].tag, at, link_user(plan.ranks[r], r, Table::in, k).c_str());
      at = k;
    }
    for (uint32_t e = start[r]; e < start[r + 1]; ++e) {
      const Entry& from = entries[e];
      const uint32_t tag = plan.ranks[from.source].out[from.out].tag;
      const uint32_t k = place[size_t{from.source} * kMaxTags + tag];
      if (k == kNone)
        return error(hktInvalidArgument,
                     "rank %u: out table entry %u: rank %u tag %u is not in that rank's in table, or is in this table "
                     "twice (%s)",
                     from.source, from.out, r, tag,
                     link_user(plan.ranks[from.source], from.source, Table::out, from.out).c_str());
      place[size_t{from.source} * kMaxTags + tag] = kNone;
      const uint32_t id = w.first_in[r] + k;
      w.links[id] = {from.source, r, from.out, tag, kNone, kNone, 0, 0};
      w.out[w.first_out[from.source] + from.out] = id;
    }
    for (uint32_t k = 0; k < table.size(); ++k)
      if (place[size_t{table[k].rank} * kMaxTags + table[k].tag] != kNone)
        return error(hktInvalidArgument,
                     "rank %u: in table entry %u: rank %u tag %u is not in that rank's out table (%s)", r, k,
                     table[k].rank, table[k].tag, link_user(plan.ranks[r], r, Table::in, k).c_str());
  }
  return {};
}

// The global step with the k-th push (or pop) of a link.
uint32_t find_use(const Plan& plan, const Wiring& w, uint32_t link, uint32_t k, bool sends) {
  const PlanLink& l = w.links[link];
  const uint32_t rank = sends ? l.source : l.destination;
  const uint32_t entry = sends ? l.out : link - w.first_in[l.destination];
  const RankPlan& p = plan.ranks[rank];
  for (uint32_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    const uint32_t first = sends ? s.send : s.recv, count = sends ? s.nsend : s.nrecv;
    if (entry >= first && entry - first < count && k-- == 0) return w.first_step[rank] + i;
  }
  return 0;
}

Status count_messages(const Plan& plan, Wiring& w) {
  std::vector<uint32_t> pops(w.links.size(), 0);
  for (uint32_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& p = plan.ranks[r];
    for (uint32_t lane = 0; lane < p.lanes.size(); ++lane) {
      const uint32_t id = w.first_lane[r] + lane;
      for (uint32_t i = 0; i < p.lanes[lane].count; ++i) {
        const Step& s = p.steps[p.lanes[lane].first + i];
        for (uint32_t k = 0; k < s.nrecv; ++k) {
          const uint32_t link = w.first_in[r] + s.recv + k;
          PlanLink& l = w.links[link];
          if (l.consumer != id && l.consumer != kNone)
            return error(hktInvalidArgument, "%s pops %s, which lane %u pops already: one lane pops a link",
                         step_name(p, r, lane, i).c_str(), link_name(l).c_str(), l.consumer - w.first_lane[r]);
          l.consumer = id;
          ++pops[link];
        }
        for (uint32_t k = 0; k < s.nsend; ++k) {
          PlanLink& l = w.links[w.out[w.first_out[r] + s.send + k]];
          if (l.producer != id && l.producer != kNone)
            return error(hktInvalidArgument, "%s pushes %s, which lane %u pushes already: one lane pushes a link",
                         step_name(p, r, lane, i).c_str(), link_name(l).c_str(), l.producer - w.first_lane[r]);
          l.producer = id;
          ++l.messages;
        }
      }
    }
  }
  uint64_t total = 0;
  for (uint32_t id = 0; id < w.links.size(); ++id) {
    PlanLink& l = w.links[id];
    if (l.messages != pops[id]) {
      const bool extra_push = l.messages > pops[id];
      const uint32_t step = find_use(plan, w, id, std::min(l.messages, pops[id]), extra_push);
      return error(hktInvalidArgument, "%s: %u pushes but %u pops in a round; nothing %s the one of %s",
                   link_name(l).c_str(), l.messages, pops[id], extra_push ? "pops" : "pushes",
                   step_name(plan, w, step).c_str());
    }
    if (l.messages == 0)
      return error(hktInvalidArgument, "rank %u: out table entry %u: %s is used by no step", l.source, l.out,
                   link_name(l).c_str());
    l.first = static_cast<uint32_t>(total);
    total += l.messages;
  }
  if (total >= kNone) return error(hktInvalidArgument, "the plan has more than %u messages in a round", kNone - 1);
  w.messages = static_cast<uint32_t>(total);
  return {};
}

// Scratch that no step of any rank names is memory for nothing.
Status check_scratch(const Plan& plan) {
  const uint32_t scratch = plan.info.chunks[2];
  uint32_t used = 0;  // up to the highest chunk named
  auto name = [&](const Step& s, uint32_t first, uint64_t count) {
    for (uint32_t j = 0; j < count && used < scratch; ++j)
      used = std::max(used, block(first, s.stride, j, scratch) + 1);
  };
  for (const RankPlan& r : plan.ranks) {
    for (const Step& s : r.steps) {
      if (used == scratch) return {};
      if (s.has(kLoad) && s.src_buf() == Buf::scratch) name(s, s.src, loaded_blocks(s));
      if (s.has(kStore) && s.dst_buf() == Buf::scratch) name(s, s.dst, s.count);
    }
  }
  if (scratch - used < size_classes(plan.info) || used == scratch) return {};
  return error(hktInvalidArgument, "the plan declares %u chunks of scratch, its steps name none above %u", scratch,
               used);
}

}  // namespace

uint32_t Wiring::rank_of_step(uint32_t step) const {
  const auto after = std::upper_bound(first_step.begin(), first_step.end(), step);
  return static_cast<uint32_t>(after - first_step.begin()) - 1;
}

Result<Wiring> wire(const Plan& plan) {
  const PlanInfo& info = plan.info;
  HKT_TRY(validate(info));
  if (plan.ranks.size() != info.nranks)
    return error(hktInvalidArgument, "the plan is for %u ranks but holds the steps of %zu", info.nranks,
                 plan.ranks.size());
  uint64_t steps = 0, links = 0;
  uint32_t widest = 0, widest_step = 0;
  for (uint32_t r = 0; r < info.nranks; ++r) {
    HKT_TRY(validate(info, plan.ranks[r], r));
    for (const Step& s : plan.ranks[r].steps) {
      if (s.has(kSend) && s.count > widest) {
        widest = s.count;
        widest_step = static_cast<uint32_t>(steps);
      }
      ++steps;
    }
    links += std::max(plan.ranks[r].in.size(), plan.ranks[r].out.size());
  }
  if (steps >= kNone || links >= kNone)
    return error(hktInvalidArgument, "the plan has more than %u steps or links", kNone - 1);
  Wiring w;
  number(plan, w);
  if (widest != info.message_blocks)
    return error(hktInvalidArgument, "the plan declares messages of at most %u blocks, its steps push at most %u: %s",
                 info.message_blocks, widest,
                 widest ? step_name(plan, w, widest_step).c_str() : "no step pushes a block");
  HKT_TRY(check_scratch(plan));
  HKT_TRY(join_tables(plan, w));
  HKT_TRY(count_messages(plan, w));
  return w;
}

Status check_places(const PlanInfo& info, uint32_t rounds) {
  const uint64_t per_rank = uint64_t{rounds} * (uint64_t{info.chunks[0]} + info.chunks[1]) + info.chunks[2];
  if (per_rank <= kMaxPlaces / info.nranks) return {};
  return error(hktInvalidArgument, "too large to verify: %llu chunks in %u rounds of %u ranks, at most %llu in all",
               static_cast<unsigned long long>(per_rank), rounds, info.nranks,
               static_cast<unsigned long long>(kMaxPlaces));
}

std::vector<uint32_t> pushing_steps(const Plan& plan, const Wiring& w) {
  std::vector<uint32_t> steps(w.messages), count(w.links.size(), 0);
  for (uint32_t r = 0; r < plan.ranks.size(); ++r)
    for (uint32_t i = 0; i < plan.ranks[r].steps.size(); ++i) {
      const Step& s = plan.ranks[r].steps[i];
      for (uint32_t k = 0; k < s.nsend; ++k) {
        const uint32_t link = w.out[w.first_out[r] + s.send + k];
        steps[w.links[link].first + count[link]++] = w.first_step[r] + i;
      }
    }
  return steps;
}

std::vector<uint32_t> popping_steps(const Plan& plan, const Wiring& w) {
  std::vector<uint32_t> steps(w.messages), count(w.links.size(), 0);
  for (uint32_t r = 0; r < plan.ranks.size(); ++r)
    for (uint32_t i = 0; i < plan.ranks[r].steps.size(); ++i) {
      const Step& s = plan.ranks[r].steps[i];
      for (uint32_t k = 0; k < s.nrecv; ++k) {
        const uint32_t link = w.first_in[r] + s.recv + k;
        steps[w.links[link].first + count[link]++] = w.first_step[r] + i;
      }
    }
  return steps;
}

const char* buf_name(Buf b) {
  switch (b) {
    case Buf::in:
      return "in";
    case Buf::out:
      return "out";
    case Buf::scratch:
      return "scratch";
  }
  return "no buffer";
}

std::string chunk_name(Buf b, uint32_t chunk) { return format("chunk %u of %s", chunk, buf_name(b)); }

std::string step_name(const RankPlan& plan, uint32_t rank, uint32_t lane, uint32_t step) {
  const Step& s = plan.steps[plan.lanes[lane].first + step];
  std::string name = format("rank %u lane %u step %u", rank, lane, step);
  if (!s.has(kStore) && !s.has(kLoad))
    return name + (s.count == 0 ? " (no chunk)" : format(" (%u blocks of no chunk)", s.count));
  if (s.count <= 1) return name + " (" + chunk_name(value_buf(s), value_chunk(s)) + ")";
  return name +
         format(" (chunk %u + j * %u, j < %u, of %s)", value_chunk(s), s.stride, s.count, buf_name(value_buf(s)));
}

std::string step_name(const Plan& plan, uint32_t rank, uint32_t lane, uint32_t step) {
  return step_name(plan.ranks[rank], rank, lane, step);
}

std::string step_name(const Plan& plan, const Wiring& w, uint32_t global_step) {
  const uint32_t rank = w.rank_of_step(global_step);
  const uint32_t i = global_step - w.first_step[rank];
  const RankPlan& p = plan.ranks[rank];
  uint32_t lane = 0;
  while (i - p.lanes[lane].first >= p.lanes[lane].count) ++lane;
  return step_name(p, rank, lane, i - p.lanes[lane].first);
}

std::string link_user(const RankPlan& plan, uint32_t rank, Table table, uint32_t k) {
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t i = 0; i < plan.lanes[lane].count; ++i) {
      const Step& s = plan.steps[plan.lanes[lane].first + i];
      const uint32_t first = table == Table::out ? s.send : s.recv, count = table == Table::out ? s.nsend : s.nrecv;
      if (k >= first && k - first < count) return "first used by " + step_name(plan, rank, lane, i);
    }
  }
  return "used by no step";
}

std::string link_name(const PlanLink& l) { return format("link %u -> %u tag %u", l.source, l.destination, l.tag); }

}  // namespace hocket
