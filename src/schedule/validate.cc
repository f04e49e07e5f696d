// validate: the one strict reading of a plan's fields. What a field means is written in step.h; here stands what it may
// hold.
#include <algorithm>
#include <numeric>

#include "schedule/text.h"
#include "schedule/verify.h"
#include "schedule/wiring.h"

namespace hocket {
namespace {

// Why a range of `count` blocks is wrong in a buffer, or null.
const char* range_fault(uint64_t count, uint32_t stride, uint32_t first, uint32_t chunks) {
  if (first >= chunks) return "names a chunk that its buffer does not have";
  if (count > chunks) return "has more blocks than its buffer has chunks";
  if (count <= 1) return nullptr;
  if (stride >= chunks) return "has a stride that is not below the number of chunks";
  if (count > chunks / std::gcd(stride, chunks)) return "names a block twice";
  return nullptr;
}

// Whether src and dst may be the same memory: one buffer, or in and out where a call in place makes chunk c of one that
// of the other.
bool may_alias(const PlanInfo& info, const Step& s) {
  const auto chunks = [&](Buf b) { return info.chunks[static_cast<size_t>(b)]; };
  return s.src_buf() == s.dst_buf() ||
         (s.src_buf() == Buf::in && s.dst_buf() == Buf::out && chunks(Buf::in) == chunks(Buf::out));
}

// Whether a step reads a block that it also writes, other than block j of an operand as block j of dst: the result
// would hang on the order of the blocks.
bool overlaps_shifted(const Step& s, uint32_t chunks) {
  for (uint32_t j = 1; j < loaded_blocks(s); ++j)
    if (j % s.count != 0 && block(s.src, s.stride, j, chunks) == s.dst) return true;
  for (uint32_t j = 1; j < s.count; ++j)
    if (block(s.dst, s.stride, j, chunks) == s.src) return true;
  return false;
}

// Why the operations of a step do not fit together, or null. Independent of plan and rank.
const char* ops_fault(const Step& s) {
  if ((s.ops & ~kStepOpsAll) != 0) return "has unknown bits in ops";
  if (s.flags != 0) return "has a reserved field set (flags)";
  if (s.has(kRecv) != (s.nrecv > 0)) return "pops if and only if nrecv > 0, but ops says otherwise";
  if (s.has(kSend) != (s.nsend > 0)) return "pushes if and only if nsend > 0, but ops says otherwise";
  if (s.has(kLoad) != (s.nload > 0)) return "loads if and only if nload > 0, but ops says otherwise";
  if (!s.has(kRecv) && s.recv != 0) return "has recv set without a pop";
  if (!s.has(kSend) && s.send != 0) return "has send set without a push";
  if (!s.has(kLoad) && (s.src != 0 || (s.bufs & 15) != 0 || s.self != 0))
    return "has src, its buffer or self set without a load";
  if (!s.has(kStore) && (s.dst != 0 || (s.bufs >> 4) != 0)) return "has dst or its buffer set without a store";
  if ((s.bufs & 15) >= kBufs || (s.bufs >> 4) >= kBufs) return "names a buffer that does not exist";
  if (s.has(kStore) && s.dst_buf() == Buf::in) return "stores to in, which belongs to the caller";
  if (s.self > s.nrecv) return "puts its own operand (self) behind the last position";
  if (s.stride == 0) return "has stride 0";
  if (s.count <= 1 && s.nload <= 1 && s.stride != 1) return "has a stride without a second block";
  if (s.ops == 0 && s.ndep == 0) return "does nothing";
  if (s.count == 0) {
    if ((s.ops & (kLoad | kStore | kPre | kPost)) != 0) return "loads, stores or computes 0 blocks";
    return nullptr;
  }
  if (s.operands() == 0) return "has blocks but neither pops nor loads them";
  if (!s.has(kStore) && !s.has(kSend)) return "neither stores nor pushes its value";
  if (s.has(kPre) && s.nload != 1) return "has pre without a load, or for several local operands";
  // The size of a block is that of the chunk that it is loaded from or stored to.
  if (!s.has(kLoad) && !s.has(kStore)) return "passes blocks on that it neither loads nor stores";
  return nullptr;
}

// Why a step does not fit its plan, or null.
const char* plan_fault(const PlanInfo& info, const RankPlan& plan, uint32_t rank, const Step& s) {
  if (size_t{s.recv} + s.nrecv > plan.in.size()) return "pops a link behind the end of the in table";
  if (size_t{s.send} + s.nsend > plan.out.size()) return "pushes a link behind the end of the out table";
  const auto absent = [&](Buf b) { return !has_buffer(info, rank, b); };
  if (s.has(kLoad))
    if (const char* fault =
            range_fault(loaded_blocks(s), s.stride, s.src, info.chunks[static_cast<size_t>(s.src_buf())]))
      return fault;
  if (s.has(kStore))
    if (const char* fault = range_fault(s.count, s.stride, s.dst, info.chunks[static_cast<size_t>(s.dst_buf())]))
      return fault;
  if (s.has(kLoad) && absent(s.src_buf()))
    return s.src_buf() == Buf::in ? "loads in at a rank that is not the root" : "loads out at a rank that has none";
  if (s.has(kStore) && absent(s.dst_buf())) return "stores to out at a rank that has none: it is not the root";
  if (s.nload > 1 && uint64_t{s.count} * s.stride % size_classes(info) != 0)
    return "loads operands of different size classes";
  if (s.has(kLoad) && s.has(kStore)) {
    if (size_class(info, rank, s.src_buf(), s.src) != size_class(info, rank, s.dst_buf(), s.dst))
      return "loads and stores chunks of different size classes";
    if (may_alias(info, s) && overlaps_shifted(s, info.chunks[static_cast<size_t>(s.dst_buf())]))
      return "stores over blocks that it has yet to load";
  }
  if (s.has(kSend) && s.count > info.message_blocks) return "pushes more blocks than the plan declares for a message";
  if (info.collective == Collective::barrier) return s.count != 0 ? "moves data in a barrier" : nullptr;
  if (!reduces(info.collective) && (s.has(kPre) || s.has(kPost) || (s.count > 0 && s.operands() > 1)))
    return "reduces in a collective that only moves data";
  return nullptr;
}

std::string fields(const Step& s) {
  return format(
      "ops=0x%02x bufs=0x%02x ndep=%u flags=%u nrecv=%u nsend=%u self=%u recv=%u send=%u nload=%u src=%u dst=%u "
      "count=%u stride=%u",
      s.ops, s.bufs, s.ndep, s.flags, s.nrecv, s.nsend, s.self, s.recv, s.send, s.nload, s.src, s.dst, s.count,
      s.stride);
}

Status check_peers(const PlanInfo& info, const RankPlan& plan, uint32_t rank, Table which) {
  const std::vector<Peer>& table = which == Table::in ? plan.in : plan.out;
  const char* name = which == Table::in ? "in" : "out";
  if (table.size() > kMaxLinks)
    return error(hktInvalidArgument, "rank %u: %s table: %zu links, a step can name %u", rank, name, table.size(),
                 kMaxLinks);
  for (uint32_t k = 0; k < table.size(); ++k) {
    const Peer& p = table[k];
    const char* fault = p.rank >= info.nranks ? "there is no such rank"
                        : p.rank == rank      ? "that is the rank itself"
                        : p.tag >= kMaxTags   ? "there is no such tag"
                        : p.spare != 0        ? "spare is set"
                                              : nullptr;
    if (fault)
      return error(hktInvalidArgument, "rank %u: %s table entry %u: rank %u tag %u: %s (%s)", rank, name, k, p.rank,
                   p.tag, fault, link_user(plan, rank, which, k).c_str());
  }
  return {};
}

Status check_deps(const RankPlan& plan, uint32_t rank, uint32_t lane, uint32_t i) {
  const uint32_t at = plan.lanes[lane].first + i;
  const size_t first = plan.first_dep[at];
  for (size_t d = first; d < first + plan.steps[at].ndep; ++d) {
    const Dep& dep = plan.deps[d];
    const char* fault = dep.lane >= plan.lanes.size()                       ? "there is no such lane"
                        : dep.step >= plan.lanes[dep.lane].count            ? "that lane has no such step"
                        : dep.lane == lane && dep.lag == 0 && dep.step >= i ? "it waits for itself"
                        : dep.lane == lane                                  ? "a lane is in order by itself"
                        : dep.lag > kMaxLag                                 ? "the lag is too large"
                                                                            : nullptr;
    if (fault)
      return error(hktInvalidArgument, "%s: dependency %zu on lane %u step %u lag %u: %s",
                   step_name(plan, rank, lane, i).c_str(), d - first, dep.lane, dep.step, dep.lag, fault);
  }
  return {};
}

// Lanes, steps and dependencies lie in their arrays one after another, without gaps.
Status check_layout(const RankPlan& plan, uint32_t rank) {
  size_t steps = 0, deps = 0;
  if (plan.lanes.size() > kMaxLanes)
    return error(hktInvalidArgument, "rank %u: %zu lanes, there may be %u", rank, plan.lanes.size(), kMaxLanes);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (plan.lanes[lane].first != steps)
      return error(hktInvalidArgument, "rank %u lane %zu starts at step %u of the array, not at %zu", rank, lane,
                   plan.lanes[lane].first, steps);
    steps += plan.lanes[lane].count;
  }
  if (steps != plan.steps.size() || plan.first_dep.size() != plan.steps.size())
    return error(hktInvalidArgument, "rank %u: %zu steps, %zu in its lanes, %zu with dependencies", rank,
                 plan.steps.size(), steps, plan.first_dep.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.first_dep[i] != deps)
      return error(hktInvalidArgument, "rank %u: dependencies of step %zu of the array start at %u, not at %zu", rank,
                   i, plan.first_dep[i], deps);
    deps += plan.steps[i].ndep;
  }
  if (deps != plan.deps.size())
    return error(hktInvalidArgument, "rank %u: %zu dependencies, its steps name %zu", rank, plan.deps.size(), deps);
  return {};
}

Error wrong_cost(const RankPlan& plan, uint32_t rank, uint64_t messages, uint64_t blocks) {
  // The first step that goes beyond what is declared, or else the last that sends.
  std::string step = "no step sends";
  uint64_t m = 0, b = 0;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t i = 0; i < plan.lanes[lane].count && m <= plan.cost.messages && b <= plan.cost.blocks; ++i) {
      const Step& s = plan.steps[plan.lanes[lane].first + i];
      m += s.nsend;
      b += uint64_t{s.nsend} * s.count;
      if (s.has(kSend)) step = step_name(plan, rank, lane, i);
    }
  }
  return error(hktInvalidArgument, "rank %u declares %u messages and %u blocks, its steps send %llu and %llu: %s %s",
               rank, plan.cost.messages, plan.cost.blocks, static_cast<unsigned long long>(messages),
               static_cast<unsigned long long>(blocks), step.c_str(),
               m > plan.cost.messages || b > plan.cost.blocks ? "goes beyond" : "is the last to send");
}

}  // namespace

Status validate(const PlanInfo& info) {
  const char* name = info.name.c_str();
  const Collective of = info.collective;
  if (static_cast<uint32_t>(of) >= kCollectives) return error(hktInvalidArgument, "plan %s: unknown collective", name);
  if (info.nranks == 0) return error(hktInvalidArgument, "plan %s: 0 ranks", name);
  if (is_rooted(of) ? info.root >= info.nranks : info.root != 0)
    return error(hktInvalidArgument, "plan %s: root %u of %u ranks (0 where there is none)", name, info.root,
                 info.nranks);
  const uint32_t in = info.chunks[0], out = info.chunks[1], scratch = info.chunks[2], n = info.nranks;
  if (layout(of) == Layout::blocks) {
    const uint32_t want_in = in_is_own_block(of) ? 1 : n, want_out = out_is_own_block(of) ? 1 : n;
    if (in != want_in || out != want_out)
      return error(hktInvalidArgument, "plan %s: %u chunks of in and %u of out; %s of %u ranks has %u and %u", name, in,
                   out, collective_name(of), n, want_in, want_out);
  } else if (in == 0 || in != out) {
    return error(hktInvalidArgument, "plan %s: %u chunks of in and %u of out; both need the same number, at least 1",
                 name, in, out);
  }
  if (scratch % size_classes(info) != 0)
    return error(hktInvalidArgument, "plan %s: %u chunks of scratch are no multiple of the %u size classes", name,
                 scratch, size_classes(info));
  return {};
}

Status validate(const PlanInfo& info, const RankPlan& plan, uint32_t rank) {
  HKT_TRY(validate(info));
  if (rank >= info.nranks) return error(hktInvalidArgument, "rank %u of a plan for %u ranks", rank, info.nranks);
  HKT_TRY(check_layout(plan, rank));
  HKT_TRY(check_peers(info, plan, rank, Table::in));
  HKT_TRY(check_peers(info, plan, rank, Table::out));
  uint64_t messages = 0, blocks = 0;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t i = 0; i < plan.lanes[lane].count; ++i) {
      const Step& s = plan.steps[plan.lanes[lane].first + i];
      const char* fault = ops_fault(s);
      if (!fault) fault = plan_fault(info, plan, rank, s);
      if (fault)
        return error(hktInvalidArgument, "%s %s [%s]", step_name(plan, rank, lane, i).c_str(), fault,
                     fields(s).c_str());
      if (s.ndep > 0) HKT_TRY(check_deps(plan, rank, lane, i));
      messages += s.nsend;
      blocks += uint64_t{s.nsend} * s.count;
    }
  }
  if (messages != plan.cost.messages || blocks != plan.cost.blocks) return wrong_cost(plan, rank, messages, blocks);
  return {};
}

Status validate(const Plan& plan) {
  HKT_TRY(wire(plan));
  return {};
}

}  // namespace hocket
