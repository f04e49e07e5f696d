// The learner of stores against a made-up pair of cores: it finds the faster way, keeps it, and follows when the cores
// change.
#include <gtest/gtest.h>

#include "select/learn_stores.h"

namespace hocket::select {
namespace {

// Runs `calls` calls on cores where one way takes 100 and the other 400; returns how many took the fast way.
int fast_calls(StoreLearner& learner, std::optional<bool> prior, bool past_is_fast, int calls) {
  int fast = 0;
  for (int i = 0; i < calls; ++i) {
    const bool past = learner.next(prior);
    fast += past == past_is_fast;
    learner.took(past == past_is_fast ? 100 : 400);
  }
  return fast;
}

TEST(StoreLearner, FindsTheFasterWay) {
  for (const bool past_is_fast : {false, true}) {
    StoreLearner learner;
    EXPECT_FALSE(learner.knows());
    fast_calls(learner, std::nullopt, past_is_fast, 4);
    ASSERT_TRUE(learner.knows());
    EXPECT_EQ(learner.better(), past_is_fast);
    // Two calls of 64 try the other way.
    EXPECT_EQ(fast_calls(learner, std::nullopt, past_is_fast, 640), 620);
  }
}

TEST(StoreLearner, BelievesAnotherSizeForAFewCalls) {
  StoreLearner learner;
  EXPECT_EQ(fast_calls(learner, true, true, 6), 6);
  EXPECT_FALSE(learner.knows());
  EXPECT_EQ(fast_calls(learner, true, true, 2), 0);
  EXPECT_TRUE(learner.knows());
  EXPECT_EQ(fast_calls(learner, true, true, 40), 40);
}

TEST(StoreLearner, UnlearnsAWrongPrior) {
  StoreLearner learner;
  EXPECT_EQ(fast_calls(learner, false, true, 8), 2);
  EXPECT_EQ(fast_calls(learner, false, true, 40), 40);
}

TEST(StoreLearner, TellsOthersOnlyWhatIsClear) {
  StoreLearner learner;
  EXPECT_FALSE(learner.clearly_better().has_value());
  fast_calls(learner, std::nullopt, true, 4);
  EXPECT_EQ(learner.clearly_better(), true);
  StoreLearner even;
  for (int i = 0; i < 4; ++i) even.took(even.next(std::nullopt) ? 100 : 110);
  EXPECT_TRUE(even.knows());
  EXPECT_FALSE(even.clearly_better().has_value());
}

TEST(StoreLearner, FollowsWhenTheCoresChange) {
  StoreLearner learner;
  fast_calls(learner, std::nullopt, true, 1000);
  // The way in use becomes slow at once; the memory of the other way is old but better.
  EXPECT_GE(fast_calls(learner, std::nullopt, false, 1000), 1000 - 4 - 2 * (1000 / 64 + 1));
  // And the other way round: found again at the next tries.
  EXPECT_GE(fast_calls(learner, std::nullopt, true, 1000), 1000 - 70 - 2 * (1000 / 64 + 1));
}

}  // namespace
}  // namespace hocket::select
