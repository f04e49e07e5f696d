#include "schedule/lower.h"

#include <algorithm>
#include <vector>

#include "schedule/wiring.h"

namespace hocket {
namespace {

Error illegal(const Plan& plan, const Wiring& wiring, const PlanLink& link, uint32_t step, Protocol protocol,
              const char* why) {
  return error(hktInvalidArgument, "%s %s: %s cannot be %s, use slot for tag %u", step_name(plan, wiring, step).c_str(),
               why, link_name(link).c_str(), protocol_name(protocol), link.tag);
}

// Why a step's value cannot be read where it lies, or null.
const char* not_in_memory(const Step& s, const Lowering& lowering) {
  if (s.count == 0 || s.has(kStore)) return nullptr;
  if (!s.has(kLoad)) return "passes on what it has popped and stores nowhere";
  if (s.operands() > 1) return "pushes a fold that it stores nowhere";
  if (s.has(kPost)) return "pushes what post has changed and stores it nowhere";
  if (s.has(kPre) && !lowering.identity_pre)
    return "pushes what pre (no identity, says the lowering) has changed and stores it nowhere";
  return nullptr;
}

// Why a step cannot find its value in its destination already, or null.
const char* not_placed(const Step& s) {
  if (s.count == 0) return nullptr;
  if (s.nrecv != 1 || s.has(kLoad)) return "folds what it pops";
  if (!s.has(kStore)) return "does not store what it pops";
  if (s.has(kPost)) return "applies post to what it pops";
  return nullptr;
}

}  // namespace

const char* protocol_name(Protocol protocol) {
  switch (protocol) {
    case Protocol::slot:
      return "slot";
    case Protocol::mapped:
      return "mapped";
    case Protocol::direct:
      return "direct";
  }
  return "no protocol";
}

ZeroCopy ZeroCopy::only(bool mapped, bool direct) const {
  ZeroCopy some = *this;
  for (Protocol& p : some.protocol)
    if ((p == Protocol::mapped && !mapped) || (p == Protocol::direct && !direct)) p = Protocol::slot;
  return some;
}

bool ZeroCopy::copies_all() const {
  return std::all_of(protocol.begin(), protocol.end(), [](Protocol p) { return p == Protocol::slot; });
}

Status check_lowering(const Plan& plan, const Wiring& w, const Lowering& lowering) {
  if (lowering.depth == 0 || lowering.depth > kMaxDepth)
    return error(hktInvalidArgument, "links of depth %u: 1 to %u are possible", lowering.depth, kMaxDepth);
  if (lowering.ack_batch == 0 || lowering.ack_batch > lowering.depth)
    return error(hktInvalidArgument, "acks for every %u messages: 1 to the depth, %u, are possible", lowering.ack_batch,
                 lowering.depth);
  for (uint32_t tag = 0; tag < kMaxTags; ++tag)
    if (lowering.protocol[tag] > Protocol::direct)
      return error(hktInvalidArgument, "unknown protocol %u for tag %u", static_cast<unsigned>(lowering.protocol[tag]),
                   tag);
  const auto& protocol = lowering.protocol;
  if (ZeroCopy{protocol}.copies_all()) return {};

  const std::vector<uint32_t> pushing = pushing_steps(plan, w), popping = popping_steps(plan, w);
  for (const PlanLink& l : w.links) {
    const Step* first = nullptr;
    for (uint32_t m = l.first; m < l.first + l.messages; ++m) {
      const Step& from = plan.ranks[l.source].steps[pushing[m] - w.first_step[l.source]];
      const Step& to = plan.ranks[l.destination].steps[popping[m] - w.first_step[l.destination]];
      const Protocol p = protocol[l.tag];
      if (p == Protocol::mapped)
        if (const char* why = not_in_memory(from, lowering)) return illegal(plan, w, l, pushing[m], p, why);
      if (p != Protocol::direct) continue;
      if (const char* why = not_placed(to)) return illegal(plan, w, l, popping[m], p, why);
      if (to.count == 0) continue;
      if (!first) first = &to;
      if (to.dst_buf() != first->dst_buf())
        return illegal(plan, w, l, popping[m], p, "stores to another buffer than steps before it");
      if (!from.has(kStore) && !from.has(kLoad))
        return illegal(plan, w, l, pushing[m], p, "names no chunk for what it pushes");
      if (from.count != to.count || value_chunk(from) != to.dst || from.stride != to.stride)
        return illegal(plan, w, l, popping[m], p, "stores other chunks than those pushed");
    }
  }
  return {};
}

Result<Lowering> lower(const Plan& plan, const LowerOptions& options) {
  HKT_ASSIGN(const Wiring wiring, wire(plan));
  Lowering lowering;
  lowering.depth = options.depth;
  lowering.ack_batch = options.ack_batch;
  for (const PlanLink& l : wiring.links) {
    lowering.protocol[l.tag] = options.protocol[l.tag];
    lowering.drain |= options.protocol[l.tag] == Protocol::mapped;
  }
  const std::vector<uint32_t> pushing = lowering.drain ? pushing_steps(plan, wiring) : std::vector<uint32_t>{};
  for (const PlanLink& l : wiring.links) {
    if (lowering.protocol[l.tag] != Protocol::mapped) continue;
    for (uint32_t i = 0; i < l.messages && !lowering.identity_pre; ++i) {
      const Step& s = plan.ranks[l.source].steps[pushing[l.first + i] - wiring.first_step[l.source]];
      lowering.identity_pre = s.has(kPre) && !s.has(kStore);
    }
  }
  HKT_TRY(check_lowering(plan, wiring, lowering));
  return lowering;
}

uint64_t round_elems(const PlanInfo& info, uint32_t elem_size, uint64_t slot_bytes) {
  const uint64_t lines = slot_bytes / kChunkAlign / std::max(info.message_blocks, 1u);  // per chunk
  const uint32_t chunks = layout(info.collective) == Layout::blocks ? 1 : info.chunks[static_cast<size_t>(Buf::out)];
  return lines * chunks * (kChunkAlign / elem_size);
}

}  // namespace hocket
