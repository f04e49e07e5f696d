// Planted mistakes in the collectives whose buffers are blocks, and in reduce: wrong blocks, buffers that a rank does
// not have, what in place destroys.
#include "schedule/mistakes.h"

namespace hocket {
namespace {

using enum Collective;

// An exchange of two ranks in which rank 1 receives before it sends: in place its own block has gone by then.
Plan overwritten_before_sent() {
  const Program first{{{1, 0, 0}},
                      {{1, 0, 0}},
                      {{Step{}.load(Buf::in, 0).store(Buf::out, 0), Step{}.load(Buf::in, 1).push(0),
                        Step{}.pop(0).store(Buf::out, 1)}}};
  const Program second{{{0, 0, 0}},
                       {{0, 0, 0}},
                       {{Step{}.load(Buf::in, 1).store(Buf::out, 1), Step{}.pop(0).store(Buf::out, 0),
                         Step{}.load(Buf::in, 0).push(0)}}};
  return by_hand(all_to_all, {2, 2, 0}, {first, second});
}

// Reduce-scatter of two ranks; rank 1 is sent the operand twice, stores it as it comes and folds the second one: in
// place its own operand has gone by then.
Plan overwritten_before_folded() {
  const Step fold = Step{}.pop(0).load(Buf::in, 0, 1).pre().post().store(Buf::out, 0);
  const Program first{{{1, 0, 0}}, {{1, 0, 0}, {1, 1, 0}}, {{Step{}.load(Buf::in, 1).pre().push(0, 2), fold}}};
  const Program second{{{0, 0, 0}, {0, 1, 0}},
                       {{0, 0, 0}},
                       {{Step{}.load(Buf::in, 0).pre().push(0), Step{}.pop(0).store(Buf::out, 0),
                         Step{}.pop(1).load(Buf::in, 1, 1).pre().post().store(Buf::out, 0)}}};
  return by_hand(reduce_scatter, {2, 1, 0}, {first, second});
}

// The ring's blocks go around a second time. The declared cost is that of the ring.
Plan gathered_twice() {
  Plan p = planned(all_gather, "ring", 4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    append(p, rank, Step{}.load(Buf::out, rank).push(0));
    for (uint32_t i = 1; i < 4; ++i) append(p, rank, step(p, rank, 0, i));
  }
  return p;
}

Mistakes of_buffers() {
  Mistakes list;
  list.push_back({"a store to an out that is not there: gather",
                  Pass::validate,
                  with_step(planned(gather, "flat", 4, 1), 2, 0, [](Step& s) { s = s.store(Buf::out, 2); }),
                  {"rank 2 lane 0 step 0 (chunk 2 of out)", "a rank that has none", "not the root"}});
  list.push_back({"a store to an out that is not there: reduce",
                  Pass::validate,
                  with_step(planned(reduce, "chain", 4, 1), 3, 0, [](Step& s) { s = s.store(Buf::out, 0); }),
                  {"rank 3 lane 0 step 0 (chunk 0 of out)", "a rank that has none"}});
  list.push_back({"a load of an out that is not there",
                  Pass::validate,
                  with_step(planned(gather, "binomial", 4), 2, 2, [](Step& s) { s = s.load(Buf::out, s.src); }),
                  {"rank 2 lane 0 step 2", "loads out at a rank that has none"}});
  list.push_back({"a load of an in that is not there",
                  Pass::validate,
                  with_step(planned(scatter, "binomial", 4), 2, 1, [](Step& s) { s = s.load(Buf::in, s.src); }),
                  {"rank 2 lane 0 step 1 (chunk 3 of in)", "not the root"}});
  list.push_back({"another root than declared",
                  Pass::validate,
                  changed(planned(reduce, "flat", 3, 1), [](Plan& p) { p.info.root = 2; }),
                  {"rank 1 lane 0 step 0 (chunk 0 of out)", "a rank that has none"}});
  list.push_back({"a block that in does not have",
                  Pass::validate,
                  with_step(planned(all_gather, "direct", 3), 1, 0, [](Step& s) { s.src = 1; }),
                  {"rank 1 lane 0 step 0", "does not have", "chunk"}});
  list.push_back({"a fold in a gather",
                  Pass::validate,
                  with_step(planned(gather, "flat", 3), 0, 1, [](Step& s) { s = s.load(Buf::out, s.dst); }),
                  {"rank 0 lane 0 step 1", "reduces in a collective that only moves data"}});
  return list;
}

Mistakes of_sizes() {
  Mistakes list;
  list.push_back({"the own block stored as another rank's",
                  Pass::validate,
                  with_step(planned(all_gather, "ring", 3), 1, 0, [](Step& s) { s.dst = 2; }),
                  {"rank 1 lane 0 step 0 (chunk 2 of out)", "size classes"}});
  list.push_back({"another rank's block folded into the own one",
                  Pass::validate,
                  with_step(planned(reduce_scatter, "direct", 3), 1, 2, [](Step& s) { s.src = 2; }),
                  {"rank 1 lane 0 step 2 (chunk 0 of out)", "size classes"}});
  list.push_back({"a block unpacked from scratch of another size",
                  Pass::validate,
                  with_step(planned(scatter, "binomial", 4), 2, 2, [](Step& s) { s.src = 3; }),
                  {"rank 2 lane 0 step 2 (chunk 0 of out)", "size classes"}});
  list.push_back({"a block stored in the place of another one",
                  Pass::data,
                  with_step(planned(all_gather, "direct", 4), 3, 1, [](Step& s) { s.dst = 1; }),
                  {"rank 3 lane 0 step 1 (chunk 1 of out) expects 1 blocks with the sizes of chunk 1",
                   "rank 2 lane 0 step 0 (chunk 2 of out) pushed 1 blocks with those of chunk 2"}});
  list.push_back(
      {"a range that starts one block late",
       Pass::data,
       with_step(planned(scatter, "binomial", 4), 0, 0, [](Step& s) { s.src = 1; }),
       {"rank 2 lane 0 step 0 (chunk 2 + j * 1, j < 2, of scratch) expects 2 blocks", "rank 0 lane 0 step 0"}});
  list.push_back({"a range in another order",
                  Pass::data,
                  with_step(planned(scatter, "binomial", 8), 0, 0, [](Step& s) { s = s.blocks(4, 3); }),
                  {"rank 4 lane 0 step 0", "expects 4 blocks with the sizes of chunk 4 + j * 1",
                   "pushed 4 blocks with those of chunk 4 + j * 3"}});
  return list;
}

Mistakes of_results() {
  Mistakes list;
  list.push_back(
      {"an all-gather run twice",
       Pass::validate,
       gathered_twice(),
       {"rank 0 declares 3 messages and 3 blocks", "send 6 and 6", "rank 0 lane 0 step 4 (chunk 0 of out)"}});
  list.push_back({"a wrong block",
                  Pass::data,
                  with_step(planned(all_to_all, "direct", 4), 1, 0, [](Step& s) { s.src = 3; }),
                  {"rank 2 (out of place): chunk 1 of out as left by rank 2 lane 0 step",
                   "1 contributions to other chunks", "rank 1's contribution 0 times"}});
  list.push_back(
      {"swapped sources",
       Pass::data,
       changed(planned(all_to_all, "direct", 4),
               [](Plan& p) { std::swap(step(p, 0, 0, 4).dst, step(p, 0, 0, 5).dst); }),
       {"rank 0 (out of place): chunk 2 of out", "rank 2's contribution 0 times", "rank 3's contribution 1 times"}});
  list.push_back({"a block left where it waits",
                  Pass::data,
                  changed(planned(all_to_all, "bruck", 4),
                          [](Plan& p) { step(p, 1, 1, 2) = step(p, 1, 1, 2).store(Buf::scratch, 0); }),
                  {"rank 1 (out of place): no step stores chunk 0 of out", "step"}});
  list.push_back({"blocks shifted between in and out, which are one in place",
                  Pass::validate,
                  with_step(planned(all_to_all, "direct", 4), 0, 0,
                            [](Step& s) { s = Step{}.load(Buf::in, 0).store(Buf::out, 1).blocks(3); }),
                  {"rank 0 lane 0 step 0", "stores over blocks that it has yet to load"}});
  list.push_back({"blocks passed on without a name",
                  Pass::validate,
                  with_step(planned(all_gather, "ring", 3), 1, 1, [](Step& s) { s = Step{}.pop(0).push(0).blocks(1); }),
                  {"rank 1 lane 0 step 1", "passes blocks on that it neither loads nor stores"}});
  list.push_back({"a block that does not arrive",
                  Pass::data,
                  changed(planned(gather, "flat", 3, 1), [](Plan& p) { drop(p, 1, 0); }),
                  {"rank 1 (out of place): no step stores chunk 1 of out", "step"}});
  list.push_back(
      {"an operand folded in twice",
       Pass::data,
       with_step(planned(reduce_scatter, "circulant", 4), 1, 3, [](Step& s) { s = s.load(Buf::in, s.src, 1).pre(); }),
       {"chunk 0 of out", "rank 1", "step"}});
  list.push_back(
      {"a block of the wrong owner",
       Pass::data,
       changed(planned(reduce_scatter, "direct", 3), [](Plan& p) { std::swap(p.ranks[0].out[0], p.ranks[0].out[1]); }),
       {"lane 0 step 2 (chunk 0 of out) expects 1 blocks with the sizes of chunk",
        "rank 0 lane 0 step 0 (chunk 1 of in)"}});
  list.push_back({"a reduce that forgets post",
                  Pass::data,
                  with_step(planned(reduce, "binomial", 5, 3), 3, 0, [](Step& s) { s.ops &= ~kPost & kStepOpsAll; }),
                  {"rank 3 (out of place): chunk 0 of out", "post applied 0 times", "step 0"}});
  list.push_back(
      {"a fold that is not in the order of ranks",
       Pass::data,
       planned(reduce, "binomial", 5, 3),
       {"rank 3", "chunk 0 of out", "not folded in the order of ranks", "the first to leave it is rank", "step 0"},
       {},
       true,
       {true, true}});
  list.push_back(
      {"an in place that loses the own block",
       Pass::data,
       overwritten_before_sent(),
       {"rank 0 (in place): chunk 1 of out as left by rank 0 lane 0 step 2", "rank 1's contribution 0 times"}});
  list.push_back({"an operand that in place is gone",
                  Pass::data,
                  overwritten_before_folded(),
                  {"rank 1 (in place): chunk 0 of out as left by rank 1 lane 0 step 2", "rank 0's contribution 2 times",
                   "rank 1's contribution 0 times"}});
  return list;
}

Mistakes of_races() {
  Mistakes list;
  list.push_back({"mapped blocks overwritten by those that come",
                  Pass::races,
                  planned(all_to_all, "direct", 3),
                  {"race (in place)", "chunk 1 of in of rank 2", "rank 2 lane 0 step 3", "written it meanwhile"},
                  by_tag({M, S, S, S})});
  list.push_back({"a peer that still reads after return",
                  Pass::races,
                  planned(all_gather, "ring", 3),
                  {"may have returned", "still reads chunk", "of out of rank", "step"},
                  by_tag({M, S, S, S}),
                  false});
  list.push_back({"mapped partial folds that lie nowhere",
                  Pass::lower,
                  planned(reduce_scatter, "ring", 3),
                  {"lane 0 step 1", "of in) pushes a fold that it stores nowhere"},
                  by_tag({M, S, S, S})});
  list.push_back({"a direct push to where the block has another name",
                  Pass::lower,
                  planned(scatter, "flat", 3),
                  {"rank 1 lane 0 step 0 (chunk 0 of out)", "stores other chunks than those pushed"},
                  by_tag({D, S, S, S})});
  return list;
}

TEST(BlockMistakes, each_is_caught_by_its_pass_and_named) {
  for (const Mistakes& group : {of_buffers(), of_sizes(), of_results(), of_races()}) expect_caught(group);
}

TEST(BlockMistakes, the_plans_without_them_pass) {
  expect_right({planned(all_gather, "ring", 4), planned(all_gather, "direct", 4), planned(all_gather, "circulant", 5),
                planned(reduce_scatter, "ring", 3), planned(reduce_scatter, "direct", 3),
                planned(reduce_scatter, "circulant", 4), planned(all_to_all, "direct", 4),
                planned(all_to_all, "bruck", 4), planned(gather, "flat", 4, 1), planned(gather, "binomial", 4),
                planned(scatter, "binomial", 8), planned(reduce, "flat", 3, 1), planned(reduce, "chain", 4, 1),
                planned(reduce, "binomial", 5, 3)});
}

}  // namespace
}  // namespace hocket
