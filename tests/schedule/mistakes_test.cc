// Planted mistakes in all-reduce, broadcast and barrier.
#include "schedule/mistakes.h"

namespace hocket {
namespace {

// The dissemination barrier of 5 ranks without its last phase: each rank hears of 3 others.
Plan short_barrier() {
  auto side = [](uint32_t rank) {
    return Program{{{(rank + 4) % 5, 0, 0}, {(rank + 3) % 5, 0, 0}},
                   {{(rank + 1) % 5, 0, 0}, {(rank + 2) % 5, 0, 0}},
                   {{Step{}.push(0), Step{}.pop(0).push(1), Step{}.pop(1)}}};
  };
  return by_hand(Collective::barrier, 1, 0, {side(0), side(1), side(2), side(3), side(4)});
}

// Broadcast of two chunks: the root sends them in one order, rank 1 names another one.
Plan crossed_chunks(uint32_t first, uint32_t second) {
  const Program root{
      {},
      {{1, 0, 0}},
      {{Step{}.load(Buf::in, 0).store(Buf::out, 0).push(0), Step{}.load(Buf::in, 1).store(Buf::out, 1).push(0)}}};
  const Program leaf{{{0, 0, 0}}, {}, {{Step{}.pop(0).store(Buf::out, first), Step{}.pop(0).store(Buf::out, second)}}};
  return by_hand(Collective::broadcast, 2, 0, {root, leaf});
}

// Broadcast of two chunks, received into scratch, moved there, and unpacked by one step each, chunk 0 from
// `chunk_of_scratch` (2 is right).
Plan unpacked(uint32_t chunk_of_scratch) {
  const Program root{{}, {{1, 0, 0}}, {{Step{}.load(Buf::in, 0).store(Buf::out, 0).blocks(2).push(0)}}};
  const Program leaf{
      {{0, 0, 0}},
      {},
      {{Step{}.pop(0).store(Buf::scratch, 0).blocks(2), Step{}.load(Buf::scratch, 0).store(Buf::scratch, 2).blocks(2),
        Step{}.load(Buf::scratch, chunk_of_scratch).store(Buf::out, 0),
        Step{}.load(Buf::scratch, 3).store(Buf::out, 1)}}};
  return by_hand(Collective::broadcast, 2, chunk_of_scratch < 4 ? 4 : 6, {root, leaf});
}

// The sum of two ranks, to which pre comes afterwards, twice.
Plan late_pre() {
  const Program first{{{1, 0, 0}}, {{1, 0, 0}}, {{Step{}.load(Buf::in, 0).push(0), Step{}.pop(0).store(Buf::out, 0)}}};
  const Program second{{{0, 0, 0}},
                       {{0, 0, 0}},
                       {{Step{}.pop(0).load(Buf::in, 0, 1).store(Buf::scratch, 0),
                         Step{}.load(Buf::scratch, 0).pre().store(Buf::scratch, 0),
                         Step{}.load(Buf::scratch, 0).pre().post().store(Buf::out, 0).push(0)}}};
  return by_hand(Collective::all_reduce, 1, 1, {first, second});
}

// Broadcast that is received into a chunk of another number than the one it was sent from.
Plan placed_elsewhere() {
  const Program root{{}, {{1, 0, 0}}, {{Step{}.load(Buf::in, 0).store(Buf::out, 0).push(0)}}};
  const Program leaf{
      {{0, 0, 0}}, {}, {{Step{}.pop(0).store(Buf::scratch, 1), Step{}.load(Buf::scratch, 1).store(Buf::out, 0)}}};
  return by_hand(Collective::broadcast, 1, 2, {root, leaf});
}

// Two messages on two links; the second chunk goes over the buffer that the first one is read from, in order, but too
// early.
Plan stale_source() {
  const Program root{
      {},
      {{1, 0, 0}, {1, 1, 0}},
      {{Step{}.load(Buf::in, 0).store(Buf::scratch, 0).push(0), Step{}.load(Buf::in, 0).store(Buf::out, 0),
        Step{}.load(Buf::out, 0).store(Buf::scratch, 0).push(1)}}};
  const Program leaf{
      {{0, 0, 0}, {0, 1, 0}}, {}, {{Step{}.pop(1).store(Buf::out, 0), Step{}.pop(0).store(Buf::scratch, 0)}}};
  return by_hand(Collective::broadcast, 1, 1, {root, leaf});
}

// The direct push of tag 1 arrives before the consumer stores what it has popped from tag 0 in the same chunk.
Plan overtaken_destination() {
  const Program root{{},
                     {{1, 0, 0}, {1, 1, 0}},
                     {{Step{}.load(Buf::in, 0).store(Buf::out, 0).push(1), Step{}.load(Buf::in, 0).push(0)}}};
  const Program leaf{
      {{0, 0, 0}, {0, 1, 0}}, {}, {{Step{}.pop(0).store(Buf::out, 0), Step{}.pop(1).store(Buf::out, 0)}}};
  return by_hand(Collective::broadcast, 1, 0, {root, leaf});
}

// A ring whose copy phase runs twice, the second time from the chunk that each rank owns. The declared cost is that of
// the ring.
Plan copied_twice() {
  Plan p = planned("ring", 4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    append(p, rank, Step{}.load(Buf::out, rank).push(1));
    for (uint32_t i = 4; i < 7; ++i) append(p, rank, step(p, rank, 0, i));
  }
  return p;
}

// Broadcast to rank 1 over two links, each popped and stored by a lane of its own.
Plan stored_twice() {
  const Program root{{}, {{1, 0, 0}, {1, 1, 0}}, {{Step{}.load(Buf::in, 0).store(Buf::out, 0).push(0, 2)}}};
  const Program leaf{
      {{0, 0, 0}, {0, 1, 0}}, {}, {{Step{}.pop(0).store(Buf::out, 0)}, {Step{}.pop(1).store(Buf::out, 0)}}};
  return by_hand(Collective::broadcast, 1, 0, {root, leaf});
}

// several_operands() whose rank 0 receives its second operand on a lane of its own, which must wait until it has been
// folded in the round before.
Plan operand_on_another_lane(bool waits) {
  return changed(several_operands(), [&](Plan& p) {
    RankPlan& r = p.ranks[0];
    std::swap(r.steps[2], r.steps[3]);
    r.lanes = {{0, 3}, {3, 1}};
    r.deps = {{1, 0, 0}};
    r.steps[2].ndep = 1;
    if (waits) {
      r.deps.push_back({0, 1, 2});
      r.steps[3].ndep = 1;
    }
    r.first_dep = {0, 0, 0, 1};
  });
}

Plan declaring(Plan plan, uint32_t message_blocks) {
  plan.info.message_blocks = message_blocks;
  return plan;
}

Mistakes in_fields() {
  const Plan ring = planned("ring", 4);
  Mistakes list;
  list.push_back({"a field that overflows: link index",
                  Pass::validate,
                  with_step(ring, 2, 3, [](Step& s) { s.recv = 0xffff; }),
                  {"rank 2 lane 0 step 3 (chunk 2 of out)", "behind the end of the in table"}});
  list.push_back({"a field that overflows: chunk",
                  Pass::validate,
                  with_step(ring, 2, 1, [](Step& s) { s.src = 0xffffffff; }),
                  {"rank 2 lane 0 step 1 (chunk 4294967295 of in)", "does not have"}});
  list.push_back({"a field that overflows: count",
                  Pass::validate,
                  with_step(ring, 1, 0, [](Step& s) { s.count = 0xffffffff; }),
                  {"rank 1 lane 0 step 0", "more blocks"}});
  list.push_back({"a range that names a block twice",
                  Pass::validate,
                  with_step(ring, 1, 0, [](Step& s) { s = s.blocks(3, 2); }),
                  {"rank 1 lane 0 step 0", "twice"}});
  list.push_back({"an unused field set: src without a load",
                  Pass::validate,
                  with_step(ring, 3, 5, [](Step& s) { s.src = 1; }),
                  {"rank 3 lane 0 step 5", "without a load"}});
  list.push_back({"a reserved field set",
                  Pass::validate,
                  with_step(ring, 0, 2, [](Step& s) { s.flags = 1; }),
                  {"rank 0 lane 0 step 2", "reserved"}});
  list.push_back({"a stride without a second block",
                  Pass::validate,
                  with_step(ring, 0, 2, [](Step& s) { s.stride = 2; }),
                  {"rank 0 lane 0 step 2"}});
  list.push_back({"a store to in",
                  Pass::validate,
                  with_step(ring, 2, 3, [](Step& s) { s = s.store(Buf::in, s.dst); }),
                  {"rank 2 lane 0 step 3 (chunk 2 of in)", "stores to in"}});
  list.push_back({"a local operand behind the last one",
                  Pass::validate,
                  with_step(ring, 2, 3, [](Step& s) { s.self = 2; }),
                  {"rank 2 lane 0 step 3"}});
  list.push_back({"local operands without a load",
                  Pass::validate,
                  with_step(ring, 3, 5, [](Step& s) { s.nload = 1; }),
                  {"rank 3 lane 0 step 5", "loads if and only if nload > 0"}});
  list.push_back({"a load of no operand",
                  Pass::validate,
                  with_step(ring, 2, 3, [](Step& s) { s.nload = 0; }),
                  {"rank 2 lane 0 step 3", "loads if and only if nload > 0"}});
  list.push_back({"more local operands than chunks",
                  Pass::validate,
                  with_step(several_operands(), 2, 4, [](Step& s) { s = s.loads(4); }),
                  {"rank 2 lane 0 step 4 (chunk 0 + j * 1, j < 2, of out)", "more blocks"}});
  list.push_back({"a chunk in two local operands",
                  Pass::validate,
                  with_step(planned("gather_reduce", 4), 1, 4, [](Step& s) { s.stride = 2; }),
                  {"rank 1 lane 0 step 4 (chunk 0 of out)", "twice"}});
  list.push_back({"local operands of different sizes",
                  Pass::validate,
                  with_step(several_operands(), 2, 4, [](Step& s) { s = s.blocks(1); }),
                  {"rank 2 lane 0 step 4 (chunk 0 of out)", "operands of different size classes"}});
  list.push_back({"pre for several local operands",
                  Pass::validate,
                  with_step(several_operands(), 1, 3, [](Step& s) { s = s.pre(); }),
                  {"rank 1 lane 0 step 3", "several local operands"}});
  list.push_back(
      {"a store over an operand still to be folded",
       Pass::validate,
       with_step(planned("gather_reduce", 5), 1, 6, [](Step& s) { s = s.loads(2).store(Buf::scratch, 1).blocks(2); }),
       {"rank 1 lane 0 step 6", "stores over blocks that it has yet to load"}});
  list.push_back({"chunks of different sizes in one step",
                  Pass::validate,
                  with_step(ring, 2, 3, [](Step& s) { s.src = 1; }),
                  {"rank 2 lane 0 step 3", "size classes"}});
  list.push_back({"a fold in a broadcast",
                  Pass::validate,
                  with_step(planned("chain", 3), 1, 0, [](Step& s) { s = s.load(Buf::out, 0); }),
                  {"rank 1 lane 0 step 0", "reduces"}});
  list.push_back({"a value that goes nowhere",
                  Pass::validate,
                  with_step(ring, 2, 0, [](Step& s) { s = Step{}.load(Buf::in, 1).pre(); }),
                  {"rank 2 lane 0 step 0 (chunk 1 of in)", "neither stores nor pushes"}});
  return list;
}

Mistakes in_links() {
  const Plan ring = planned("ring", 4);
  Mistakes list;
  list.push_back({"a link to itself",
                  Pass::validate,
                  changed(ring, [](Plan& p) { p.ranks[1].out[0].rank = 1; }),
                  {"rank 1: out table entry 0", "itself", "rank 1 lane 0 step 0 (chunk 0 of in)"}});
  list.push_back({"a lost link tag",
                  Pass::validate,
                  changed(ring, [](Plan& p) { p.ranks[2].in[1].tag = 3; }),
                  {"rank 2", "tag 1", "not in that rank's in table", "rank 1 lane 0 step 3"}});
  list.push_back({"a link listed twice",
                  Pass::validate,
                  changed(ring, [](Plan& p) { p.ranks[2].in[1] = p.ranks[2].in[0]; }),
                  {"rank 2", "twice"}});
  list.push_back({"two lanes on one link",
                  Pass::validate,
                  changed(planned("two_shot", 3),
                          [](Plan& p) {  // lane 1's first pop moves to the end of lane 0
                            RankPlan& r = p.ranks[1];
                            Step moved = step(p, 1, 1, 0);
                            moved.recv = step(p, 1, 1, 1).recv;
                            moved.dst = step(p, 1, 1, 1).dst;
                            r.steps.insert(r.steps.begin() + r.lanes[1].first, moved);
                            r.first_dep.push_back(0);
                            ++r.lanes[0].count;
                            ++r.lanes[1].first;
                          }),
                  {"rank 1 lane 1 step 1", "lane 0 pops already"}});
  list.push_back({"a push that nobody pops",
                  Pass::validate,
                  changed(ring, [](Plan& p) { append(p, 1, Step{}.load(Buf::out, 0).push(1)); }),
                  {"link 1 -> 2 tag 1", "rank 1 lane 0 step 7 (chunk 0 of out)", "nothing pops"}});
  list.push_back(
      {"a dropped step", Pass::validate, changed(ring, [](Plan& p) { drop(p, 2, 4); }), {"nothing p", "step"}});
  list.push_back({"a dropped store",
                  Pass::data,
                  with_step(planned("binomial", 4), 0, 0, [](Step& s) { s = Step{}.load(Buf::in, 0).push(0, 2); }),
                  {"rank 0 (out of place): no step stores chunk 0 of out"}});
  return list;
}

Mistakes in_cost() {
  Mistakes list;
  list.push_back({"an all-gather run twice",
                  Pass::validate,
                  copied_twice(),
                  {"rank 0 declares 6 messages and 6 blocks", "send 9 and 9",
                   "rank 0 lane 0 step 7 (chunk 0 of out) goes beyond"}});
  list.push_back({"a message larger than declared",
                  Pass::validate,
                  declaring(crossed_chunks(0, 1), 2),
                  {"at most 2 blocks", "rank 0 lane 0 step 0"}});
  list.push_back({"a message larger than a slot",
                  Pass::validate,
                  declaring(unpacked(2), 1),
                  {"rank 0 lane 0 step 0 (chunk 0 + j * 1, j < 2, of out) pushes more blocks than the plan declares"}});
  return list;
}

Mistakes in_data() {
  const Plan ring = planned("ring", 4), one_shot = planned("one_shot", 3);
  Mistakes list;
  list.push_back({"a wrong chunk",
                  Pass::data,
                  with_step(ring, 2, 0, [](Step& s) { s.src = 3; }),
                  {"rank 3 lane 0 step 1 (chunk 1 of in) expects 1 blocks with the sizes of chunk 1",
                   "rank 2 lane 0 step 0 (chunk 3 of in)"}});
  list.push_back({"a wrong chunk of the same size",
                  Pass::data,
                  unpacked(4),
                  {"rank 1 lane 0 step 2 (chunk 0 of out) loads chunk 4 of scratch, which nothing has stored"}});
  list.push_back({"messages in another order than their pops",
                  Pass::data,
                  crossed_chunks(1, 0),
                  {"rank 1 lane 0 step 0 (chunk 1 of out)", "rank 0 lane 0 step 0 (chunk 0 of out)"}});
  list.push_back({"a message of another length",
                  Pass::data,
                  with_step(crossed_chunks(0, 1), 0, 0, [](Step& s) { s = s.blocks(2); }),
                  {"rank 1 lane 0 step 0", "expects 1 blocks", "pushed 2 blocks"}});
  list.push_back({"a wrong buffer that in == out would mask",
                  Pass::data,
                  with_step(one_shot, 1, 1, [](Step& s) { s = s.load(Buf::out, 0, 1); }),
                  {"rank 1 lane 0 step 1 (chunk 0 of out) loads chunk 0 of out, which nothing has stored"}});
  list.push_back({"a read before the write",
                  Pass::data,
                  with_step(planned("recursive_doubling", 4), 3, 1,
                            [](Step& s) { s.bufs = Step{}.load(Buf::out, 0).store(Buf::out, 0).bufs; }),
                  {"rank 3 lane 0 step 1 (chunk 0 of out)", "nothing has stored"}});
  list.push_back(
      {"a contribution counted twice",
       Pass::data,
       with_step(ring, 2, 5, [](Step& s) { s = s.load(Buf::in, 0).pre(); }),
       {"rank 2 (out of place): chunk 0 of out as left by rank 2 lane 0 step 5", "rank 2's contribution 2 times"}});
  list.push_back(
      {"a contribution lost",
       Pass::data,
       with_step(planned("recursive_doubling", 4), 2, 2,
                 [](Step& s) { s = Step{}.pop(1).load(Buf::in, 0, 1).pre().store(Buf::out, 0).post(); }),
       {"rank 2 (out of place): chunk 0 of out as left by rank 2 lane 0 step 2", "rank 3's contribution 0 times"}});
  list.push_back(
      {"a missing pre",
       Pass::data,
       with_step(ring, 2, 0, [](Step& s) { s.ops &= static_cast<uint8_t>(~kPre); }),
       {"rank 0 (out of place): chunk 1 of out as left by rank 0 lane 0 step 6", "pre applied 3 times for 4 ranks"}});
  list.push_back({"a post too many",
                  Pass::data,
                  with_step(ring, 2, 5, [](Step& s) { s = s.post(); }),
                  {"rank 2 (out of place): chunk 0 of out as left by rank 2 lane 0 step 5", "post applied 2 times"}});
  list.push_back({"pre on a partial sum, as often as there are ranks",
                  Pass::data,
                  late_pre(),
                  {"rank 0 (out of place): chunk 0 of out as left by rank 0 lane 0 step 1", "wrong operands"}});
  list.push_back({"the wrong root",
                  Pass::validate,
                  changed(planned("binomial", 4, 1), [](Plan& p) { p.info.root = 2; }),
                  {"rank 1 lane 0 step 0 (chunk 0 of out)", "not the root"}});
  Mistake swapped{
      "a swapped order for a non-commutative operation",
      Pass::data,
      changed(planned("two_shot", 3), [](Plan& p) { step(p, 1, 0, 2).self = 0; }),
      {"rank 0 (out of place): chunk 1 of out", "the first to leave it is rank 1 lane 0 step 2 (chunk 1 of out)"}};
  swapped.demands.order_is_rank = true;
  list.push_back(swapped);
  // The same contributions in the same order, but the first two are rounded before the third one joins.
  Mistake rounded{"a rounding in the middle of the canonical fold",
                  Pass::data,
                  planned(Collective::reduce, "chain", 3, 2),
                  {"rank 2 (out of place): chunk 0 of out as left by rank 2 lane 0 step 0", "rounded once"}};
  rounded.demands.order_is_rank = rounded.demands.canonical = true;
  list.push_back(rounded);
  Mistake differs{"another fold on one rank",
                  Pass::data,
                  with_step(one_shot, 2, 1, [](Step& s) { s.self = 0; }),
                  {"rank 2 (out of place): chunk 0 of out as left by rank 2 lane 0 step 1", "bits may differ"}};
  differs.demands.rank_identical = true;
  list.push_back(differs);
  list.push_back(
      {"a local operand too few",
       Pass::data,
       with_step(several_operands(), 2, 4, [](Step& s) { s = s.loads(2); }),
       {"rank 2 (out of place): chunk 0 of out as left by rank 2 lane 0 step 4", "rank 2's contribution 0 times"}});
  list.push_back({"a local operand that nobody has stored",
                  Pass::data,
                  changed(several_operands(), [](Plan& p) { drop(p, 2, 3); }),
                  {"rank 2 lane 0 step 3", "loads chunk 4 of scratch, which nothing has stored"}});
  list.push_back({"a barrier without one of its edges",
                  Pass::data,
                  short_barrier(),
                  {"rank 0 may leave the barrier", "before rank 1", "rank 0 lane 0 step 2 (no chunk)"}});
  return list;
}

Mistakes in_waiting() {
  Mistakes list;
  list.push_back(
      {"a circle of waiting ranks",
       Pass::data,
       changed(two_ahead(),
               [](Plan& p) {
                 for (RankPlan& r : p.ranks) std::swap(r.steps[1], r.steps[2]);
                 std::swap(p.ranks[0].steps[0], p.ranks[0].steps[1]);
                 std::swap(p.ranks[1].steps[0], p.ranks[1].steps[1]);
               }),
       {"deadlock of 2 lanes", "rank 0 lane 0 step 0 (chunk 0 of out)", "rank 1 lane 0 step 0 (chunk 0 of out)"}});
  list.push_back(
      {"links too shallow",
       Pass::races,
       two_ahead(),
       {"deadlock of 2 lanes", "rank 0 lane 0 step 1 (chunk 1 of in) round 0 waits for room on link 0 -> 1 tag 0"},
       links(2, 2)});
  list.push_back({"a dependency on itself",
                  Pass::validate,
                  changed(staged_broadcast(), [](Plan& p) { p.ranks[1].deps[0] = {0, 0, 0}; }),
                  {"rank 1 lane 0 step 0 (chunk 0 of scratch)", "waits for itself"}});
  list.push_back({"a dependency on a step that does not exist",
                  Pass::validate,
                  changed(staged_broadcast(), [](Plan& p) { p.ranks[1].deps[1].step = 1; }),
                  {"rank 1 lane 1 step 0 (chunk 0 of out)", "no such step"}});
  list.push_back(
      {"lanes that wait for each other",
       Pass::data,
       changed(staged_broadcast(), [](Plan& p) { p.ranks[1].deps[0].lag = 0; }),
       {"deadlock of 2 lanes", "rank 1 lane 0 step 0 (chunk 0 of scratch)", "rank 1 lane 1 step 0 (chunk 0 of out)"}});
  list.push_back({"a missing dependency between lanes",
                  Pass::races,
                  changed(staged_broadcast(),
                          [](Plan& p) {
                            p.ranks[1].deps.pop_back();
                            p.ranks[1].steps[1].ndep = 0;
                          }),
                  {"reads chunk 0 of scratch of rank 1", "rank 1 lane 1 step 0 (chunk 0 of out) round 0",
                   "rank 1 lane 0 step 0"}});
  list.push_back({"two lanes that store one chunk",
                  Pass::races,
                  stored_twice(),
                  {"rank 1 lane", "writes chunk 0 of out of rank 1 in round 0"}});
  list.push_back(
      {"scratch used again by the next round",
       Pass::races,
       changed(staged_broadcast(),
               [](Plan& p) {
                 p.ranks[1].deps.erase(p.ranks[1].deps.begin());
                 p.ranks[1].steps[0].ndep = 0;
                 p.ranks[1].first_dep[1] = 0;
               }),
       {"rank 1 lane 0 step 0 (chunk 0 of scratch) round 1", "rank 1 lane 1 step 0 (chunk 0 of out) round 0"}});
  list.push_back({"a local operand that the next round overwrites",
                  Pass::races,
                  operand_on_another_lane(false),
                  {"rank 0 lane 0 step 2 (chunk 0 + j * 1, j < 2, of out) round 0 reads chunk 2 of scratch",
                   "the write by rank 0 lane 1 step 0 (chunk 2 + j * 1, j < 2, of scratch) round 1"}});
  list.push_back({"a lag that is too long",
                  Pass::races,
                  changed(staged_broadcast(), [](Plan& p) { p.ranks[1].deps[0].lag = 2; }),
                  {"chunk 0 of scratch of rank 1", "step 0"}});
  return list;
}

Mistakes in_protocols() {
  const Plan ring = planned("ring", 4);
  Mistakes list;
  list.push_back({"a mapped link for a value that is nowhere",
                  Pass::lower,
                  ring,
                  {"rank 3 lane 0 step 1 (chunk 1 of in) pushes a fold that it stores nowhere",
                   "link 3 -> 0 tag 0 cannot be mapped"},
                  by_tag({M, S, S, S})});
  list.push_back({"a direct link for a fold",
                  Pass::lower,
                  ring,
                  {"rank 0 lane 0 step 1 (chunk 2 of in) folds what it pops", "link 3 -> 0 tag 0 cannot be direct"},
                  by_tag({D, S, S, S})});
  list.push_back({"a direct link between different chunks",
                  Pass::lower,
                  placed_elsewhere(),
                  {"rank 1 lane 0 step 0 (chunk 1 of scratch) stores other chunks"},
                  by_tag({D, S, S, S})});
  list.push_back({"mapped recursive doubling",
                  Pass::races,
                  planned("recursive_doubling", 4),
                  {"race (out of place)", "chunk 0 of out of rank", "link", "tag 1"},
                  by_tag({S, M, S, S})});
  list.push_back(
      {"a peer that still reads after return",
       Pass::races,
       planned("binomial", 4),
       {"rank 0 may have returned", "lane 0 step 0 (chunk 0 of out) round", "still reads chunk 0 of out of rank 0"},
       by_tag({M, S, S, S}),
       false});
  list.push_back({"one-shot mapped in place",
                  Pass::races,
                  planned("one_shot", 3),
                  {"race (in place)", "chunk 0 of out"},
                  by_tag({M, S, S, S})});
  list.push_back({"a direct push into an input still needed",
                  Pass::races,
                  two_shot_with_copy(),
                  {"race (in place)", "chunk 0 of out of rank 1", "lane 0 step"},
                  by_tag({S, D, S, S})});
  list.push_back({"a mapped source overwritten, in order, before it is read",
                  Pass::races,
                  stale_source(),
                  {"rank 1 lane 0 step 1 (chunk 0 of scratch) round 0 takes the message of link 0 -> 1 tag 0",
                   "written it meanwhile"},
                  by_tag({M, S, S, S})});
  list.push_back(
      {"a direct message overwritten before it is taken",
       Pass::races,
       overtaken_destination(),
       {"rank 1 lane 0 step 1 (chunk 0 of out) round 0 takes the message of link 0 -> 1 tag 1", "rank 1 lane 0 step 0"},
       by_tag({S, D, S, S})});
  return list;
}

TEST(Mistakes, each_is_caught_by_its_pass_and_named) {
  Mistakes list;
  for (const auto& group : {in_fields(), in_links(), in_cost(), in_data(), in_waiting(), in_protocols()})
    list.insert(list.end(), group.begin(), group.end());
  EXPECT_GE(list.size(), 25u);
  expect_caught(list);
}

TEST(Mistakes, the_plans_without_them_pass) {
  expect_right({planned("ring", 4), planned("one_shot", 3), planned("two_shot", 3), planned("binomial", 4),
                planned("chain", 3), staged_broadcast(), two_ahead(), two_shot_with_copy(), crossed_chunks(0, 1),
                unpacked(2), several_operands(), operand_on_another_lane(true), planned("gather_reduce", 5),
                stale_source(), overtaken_destination(), planned("recursive_doubling", 4),
                planned("dissemination", 5)});
}

}  // namespace
}  // namespace hocket
