// The text form: what it looks like, that it comes back unchanged, and that anything else is refused with its line.
#include "schedule/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "algorithms/catalog.h"

namespace hocket {
namespace {

void expect_same(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.info.name, b.info.name);
  EXPECT_EQ(a.info.collective, b.info.collective);
  EXPECT_EQ(a.info.nranks, b.info.nranks);
  EXPECT_EQ(a.info.root, b.info.root);
  EXPECT_EQ(a.info.chunks, b.info.chunks);
  EXPECT_EQ(a.info.message_blocks, b.info.message_blocks);
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (size_t r = 0; r < a.ranks.size(); ++r) EXPECT_TRUE(a.ranks[r] == b.ranks[r]) << "rank " << r;
}

// Every part of the form at once: dependencies, ranges, strides, scratch, fan-in and fan-out, an idle lane, a block
// that passes.
Plan motley() {
  Plan plan;
  plan.info = {"motley", Collective::all_reduce, 2, 0, {6, 6, 12}, 3};
  plan.ranks.resize(2);
  RankPlan& r = plan.ranks[0];
  r.in = {{1, 0, 0}, {1, 1, 0}, {1, 2, 0}};
  r.out = {{1, 0, 0}, {1, 2, 0}, {1, 3, 0}};
  r.steps = {
      Step{}.load(Buf::in, 5).store(Buf::scratch, 11).blocks(3, 2).push(1, 2).pre(),
      Step{}.pop(0, 2).load(Buf::scratch, 7, 1).post().store(Buf::out, 1).blocks(2),
      Step{}.pop(2).push(0).blocks(2),
      Step{}.load(Buf::out, 4).store(Buf::out, 4).after(2),
  };
  r.first_dep = {0, 0, 0, 0};
  r.deps = {{0, 0, 2}, {2, 3, 0}};
  r.lanes = {{0, 3}, {3, 0}, {3, 1}};
  r.cost = {3, 8};
  return plan;
}

constexpr const char* kMotley =
    "plan format=1 name=motley collective=all_reduce ranks=2 root=0 in=6 out=6 scratch=12 message_blocks=3\n"
    "rank 0 lanes=3 steps=4 messages=3 blocks=8\n"
    "  in 1.t0 1.t1 1.t2\n"
    "  out 1.t0 1.t2 1.t3\n"
    "  r0 l0 s0: v = in[5:3:2]*pre; store scratch[11:3:2]; push 1.t2, 1.t3\n"
    "  r0 l0 s1: v = pop 1.t0 + scratch[7:2] + pop 1.t1; post; store out[1:2]\n"
    "  r0 l0 s2: v = pop 1.t2; push 1.t0; blocks 2\n"
    "  r0 l1: idle\n"
    "  r0 l2 s0: after l0 s2, l2 s0 lag 3; v = out[4]; store out[4]\n"
    "rank 1 lanes=0 steps=0 messages=0 blocks=0\n"
    "  in\n"
    "  out\n";

TEST(Text, ShowsEveryPartOfAStep) { EXPECT_EQ(to_text(motley()), kMotley); }

TEST(Text, ComesBackUnchanged) {
  Result<Plan> plan = parse_plan(kMotley);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  expect_same(*plan, motley());
}

TEST(Text, AllPlannersComeBackUnchanged) {
  for (const CatalogEntry& e : catalog())
    for (const uint32_t n : {1u, 2u, 3u, 5u, 8u, 13u})
      for (const uint32_t root : {0u, n - 1}) {
        const Plan plan = e.plan(n, root);
        Result<Plan> back = parse_plan(to_text(plan));
        ASSERT_TRUE(back.ok()) << e.name << " n " << n << ": " << back.error().text;
        expect_same(*back, plan);
      }
}

TEST(Text, ReadsLikeTheStep) {
  const Plan ring = find_planner(Collective::all_reduce, "ring")->plan(4, 0);
  EXPECT_EQ(step_text(ring.ranks[2], 2, 0, 2), "r2 l0 s2: v = pop 1.t0 + in[3]*pre; push 3.t0");
  EXPECT_EQ(step_text(ring.ranks[2], 2, 0, 3), "r2 l0 s3: v = pop 1.t0 + in[2]*pre; post; store out[2]; push 3.t1");
}

TEST(Text, SeveralLocalOperandsAreCounted) {
  Plan plan = find_planner(Collective::all_reduce, "gather_reduce")->plan(3, 0);
  EXPECT_EQ(step_text(plan.ranks[1], 1, 0, 4), "r1 l0 s4: v = 3 of scratch[0]; post; store out[0]");
  plan.ranks[1].steps[4] = Step{}.pop(0).load(Buf::scratch, 2, 1).loads(2).store(Buf::out, 0).blocks(1, 2);
  EXPECT_EQ(step_text(plan.ranks[1], 1, 0, 4), "r1 l0 s4: v = pop 2.t0 + 2 of scratch[2:1:2]; store out[0:1:2]");
  Result<Plan> back = parse_plan(to_text(plan));
  ASSERT_TRUE(back.ok()) << back.error().text;
  expect_same(*back, plan);
}

TEST(Text, CommentsBlankLinesAndBlanksDoNotMatter) {
  std::string text = "# a plan\n\n" + std::string(kMotley);
  text.replace(text.find("  r0 l0 s2"), 2, "\t  ");
  text.replace(text.find("pop 1.t2; push"), 14, "pop   1 . t2  ;push");
  text.replace(text.find("rank 1"), 6, "\r\n   # the other one\r\nrank 1");
  Result<Plan> plan = parse_plan(text);
  ASSERT_TRUE(plan.ok()) << plan.error().text;
  expect_same(*plan, motley());
}

struct Wrong {
  const char* from;
  const char* to;
  const char* error;  // what it must say
};

TEST(Text, RefusesEverythingElseWithItsLine) {
  const std::vector<Wrong> cases = {
      {"plan format=1", "plan format=2", "line 1: this is format 2, only format 1 can be read"},
      {"plan ", "plane ", "line 1, column 1: found 'plane format=1"},
      {"all_reduce", "all_reduced", "line 1, column 38: found 'all_reduced"},
      {"ranks=2", "ranks=-2", "expected a number from 0 to 4294967295"},
      {"ranks=2", "ranks=4294967296", "expected a number from 0 to 4294967295"},
      {"ranks=2", "ranks=1", "line 10, column 6: found '1 lanes=0 steps=0 messag', expected no further rank"},
      {"ranks=2", "ranks=3", "line 12: the text ends, but ranks or link tables are missing (2 of 3 ranks)"},
      {"scratch=12 ", "", "expected 'scratch'"},
      {"message_blocks=3", "message_blocks=3 more", "expected the end of the line"},
      {"rank 0", "rank 1", "line 2, column 6: found '1 lanes=3 steps=4 messag', expected '0'"},
      {"  in 1.t0 1.t1 1.t2\n", "", "line 3, column 3: found 'out 1.t0 1.t2 1.t3', expected 'in'"},
      {"in 1.t0 1.t1", "in 1.t0 1.t0", "line 3, column 20: found the end of the line, expected every link once"},
      {"1.t3\n", "1.t65536\n", "expected a number from 0 to 65535"},
      {"r0 l0 s1", "r0 l0 s2", "line 6, column 9: found 's2: v = "},
      {"r0 l0 s1", "r1 l0 s1", "line 6, column 3: found 'r1 l0 s1"},
      {"r0 l0 s1", "r0 l3 s1", "expected the next step of lane 0, or lane 1"},
      {"  r0 l1: idle\n", "",
       "line 8, column 9: found 's0: after l0 s2, l2 s0 l', expected the next step of lane 0, or lane 1"},
      {"  r0 l0 s2: v = pop 1.t2; push 1.t0; blocks 2\n", "",
       "line 9: rank 0 ends here with 3 lanes and 3 steps, its line says 3 and 4"},
      {"r0 l1: idle", "r0 l1: idles", "line 8, column 10: found 'idles', expected 'idle'"},
      {"r0 l1: idle", "r0 l0: idle", "line 8"},
      {"in[5:3:2]*pre", "in[5:3:2]*pro", "expected 'pre'"},
      {"in[5:3:2]", "on[5:3:2]", "line 5, column 17: found 'on[5:3:2]*pre; store scr', expected in, out or scratch"},
      {"in[5:3:2]", "in[5:3:2", "expected ']'"},
      {"scratch[11:3:2]", "scratch[11:3:1]", "expected the count and stride of what v loads"},
      {"scratch[11:3:2]", "scratch[11]", "expected the count and stride of what v loads"},
      {"push 1.t2, 1.t3", "push 1.t0, 1.t3", "the link that follows in the rank's table, not 1.t3"},
      {"push 1.t2, 1.t3", "push 7.t2, 1.t3", "a link of the rank's table, not 7.t2"},
      {"push 1.t2, 1.t3", "push 1.t2, ", "found the end of the line, expected a number"},
      {"+ pop 1.t1", "+ pop 1.t2", "the link that follows in the rank's table, not 1.t2"},
      {"+ pop 1.t1", "+ in[0:2]", "expected one range of operands from a buffer at most, or pop"},
      {"; post; store", "; store out[1:2]; post; store", "expected the end of the line"},
      {"; post; store", " post; store", "expected ';'"},
      {"; blocks 2", ";", "expected another part of the step"},
      {"store out[1:2]", "store out[1:2]; blocks 2",
       "line 6, column 75: found 'blocks 2', expected the end of the line"},
      {"after l0 s2,", "after l0 s2", "line 9"},
      {"lag 3", "lag 65536", "expected a number from 0 to 65535"},
      {"rank 1 lanes=0 steps=0 messages=0 blocks=0\n  in\n  out\n",
       "rank 1 lanes=0 steps=0 messages=0 blocks=0\n  in\n",
       "the text ends, but ranks or link tables are missing (2 of 2 ranks)"},
  };
  for (const Wrong& w : cases) {
    std::string text = kMotley;
    const size_t at = text.find(w.from);
    ASSERT_NE(at, std::string::npos) << w.from;
    text.replace(at, std::string(w.from).size(), w.to);
    const Result<Plan> plan = parse_plan(text);
    ASSERT_FALSE(plan.ok()) << w.from << " -> " << w.to;
    EXPECT_EQ(plan.error().code, hktInvalidArgument);
    EXPECT_NE(plan.error().text.find(w.error), std::string::npos)
        << w.from << " -> " << w.to << ": " << plan.error().text;
  }
  EXPECT_NE(parse_plan("").error().text.find("without a 'plan' line"), std::string::npos);
}

// Whatever is cut out or changed, the parser answers and does not fall over: run under the sanitizers.
TEST(Text, SurvivesDamage) {
  const std::string whole = to_text(find_planner(Collective::all_reduce, "double_tree")->plan(3, 0));
  const size_t last_line = whole.rfind('\n', whole.size() - 2) + 1;
  uint32_t accepted = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (i <= last_line) {
      EXPECT_FALSE(parse_plan(whole.substr(0, i)).ok()) << "cut at " << i;
    }
    for (const char c : {'9', ';', ':', ' ', '\n', '\0', 'r', '\xff'}) {
      std::string text = whole;
      text[i] = c;
      const Result<Plan> plan = parse_plan(text);
      if (plan.ok()) accepted += parse_plan(to_text(plan.value())).ok();
    }
  }
  EXPECT_GT(accepted, 0u);  // another number is another plan
}

TEST(Text, NumbersThatWouldOverflowAStepAreRefused) {
  std::string text =
      "plan format=1 name=x collective=all_reduce ranks=1 root=0 in=1 out=1 scratch=0 message_blocks=0\n"
      "rank 0 lanes=1 steps=1 messages=0 blocks=0\n"
      "  in\n"
      "  out\n"
      "  r0 l0 s0: after l1 s0";
  for (int i = 1; i < 255; ++i) text += ", l1 s0";
  const Result<Plan> most = parse_plan(text + "; v = in[0]; store out[0]\n");
  ASSERT_TRUE(most.ok()) << most.error().text;
  EXPECT_EQ(most.value().ranks[0].steps[0].ndep, 255);
  const Result<Plan> more = parse_plan(text + ", l1 s0; v = in[0]; store out[0]\n");
  EXPECT_NE(more.error().text.find("at most 255 dependencies"), std::string::npos);
}

}  // namespace
}  // namespace hocket
