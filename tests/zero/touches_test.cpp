// When weights must be there and may go, in small orders written by hand and as properties of all
// schedules.
#include "zero/touches.h"

#include <gtest/gtest.h>

#include <map>

#include "framework/base/error.h"
#include "tests/zero/touch_text.h"

namespace trireme::test {
namespace {

std::string text(const ActionList& actions, const std::vector<int>& entries, int every = 0,
                 bool late = false) {
  int total = 0;
  for (int n : entries) total += n;
  return text_of(touches(flatten(actions, entries), {segments_of(entries, every), late, total}));
}

TEST(Touches, ForwardOnly) {
  EXPECT_EQ(text(forward_only(1, 2, 1, 0), {2}), ">0.0 <0.0 >0.1 <0.1 >1.0 <1.0 >1.1 <1.1 ");
}

TEST(Touches, PlainBackward) {
  const std::string expected =
      ">0.0 <0.0 >0.1 <0.1 "
      ">0.1 (0.1 <0.1 )0.1 >0.0 (0.0 <0.0 )0.0 ";
  EXPECT_EQ(text(gpipe(1, 1, 0), {2}), expected);
  // Nothing is split, so a late release is the same moment.
  EXPECT_EQ(text(gpipe(1, 1, 0), {2}, 0, true), expected);
}

TEST(Touches, RecomputedSegmentsRunAgainForwardAndKeepTheirWeights) {
  EXPECT_EQ(text(gpipe(1, 1, 0), {3}, 2),
            ">0.0 <0.0 >0.1 <0.1 >0.2 <0.2 "
            ">0.2 (0.2 <0.2 )0.2 "
            ">0.0 >0.1 (0.1 <0.1 )0.1 (0.0 <0.0 )0.0 ");
}

TEST(Touches, SegmentsEndWithTheirMicroBatch) {
  EXPECT_EQ(text(gpipe(1, 2, 0), {2}, 2),
            ">0.0 <0.0 >0.1 <0.1 >1.0 <1.0 >1.1 <1.1 "
            ">1.0 >1.1 (1.1 <1.1 )1.1 (1.0 <1.0 )1.0 "
            ">0.0 >0.1 (0.1 <0.1 )0.1 (0.0 <0.0 )0.0 ");
}

TEST(Touches, WithASplitBackwardEndsComeWithTheWeightHalf) {
  EXPECT_EQ(text(zero_bubble_h1(1, 1, 0), {2}),
            ">0.0 <0.0 >0.1 <0.1 "
            ">0.1 (0.1 <0.1 >0.0 (0.0 <0.0 "
            ")0.1 )0.0 ");
  EXPECT_EQ(text(zero_bubble_h1(1, 1, 0), {2}, 2),
            ">0.0 <0.0 >0.1 <0.1 "
            ">0.0 >0.1 (0.1 <0.1 (0.0 <0.0 "
            ")0.1 )0.0 ");
}

TEST(Touches, AndSoDoLateReleases) {
  EXPECT_EQ(text(zero_bubble_h1(1, 1, 0), {2}, 0, true),
            ">0.0 <0.0 >0.1 <0.1 "
            ">0.1 (0.1 >0.0 (0.0 "
            "<0.1 )0.1 <0.0 )0.0 ");
}

TEST(Touches, UsesAndPassesAreNamed) {
  const std::vector<Touch> all = touches(flatten(zero_bubble_h1(1, 1, 0), {1}), {{}, false, 1});
  const std::vector<Touch> expected = {
      {Touch::Kind::kEnter, 0, 0, 0, false}, {Touch::Kind::kLeave, 0, 0, 0, false},
      {Touch::Kind::kEnter, 0, 0, 1, true},  {Touch::Kind::kBegin, 0, 0, 1, true},
      {Touch::Kind::kLeave, 0, 0, 1, true},  {Touch::Kind::kEnd, 0, 0, 2, true}};
  EXPECT_EQ(all, expected);
}

TEST(Touches, EveryUseEntersAndLeavesAndEveryGradientBeginsInsideItAndEndsLater) {
  for (const TouchCase& c : touch_cases()) {
    SCOPED_TRACE(c.name);
    struct Seen {
      int enters = 0, leaves = 0, begins = 0, ends = 0;
    };
    std::map<std::tuple<int, int, bool>, Seen> seen;  // micro-batch, entry, backward
    for (const Touch& touch : c.touches) {
      Seen& s = seen[{touch.micro, touch.entry, touch.backward}];
      const Use& use = c.order[static_cast<std::size_t>(touch.use)];
      EXPECT_EQ(use.entry, touch.entry);
      EXPECT_EQ(use.micro, touch.micro);
      switch (touch.kind) {
        case Touch::Kind::kEnter:
          EXPECT_EQ(s.enters++, 0);
          break;
        case Touch::Kind::kLeave:
          EXPECT_EQ(s.enters - s.leaves++, 1);
          EXPECT_EQ(s.begins, touch.backward ? 1 : 0);
          break;
        case Touch::Kind::kBegin:
          EXPECT_TRUE(touch.backward);
          EXPECT_EQ(s.enters - s.leaves, 1);
          EXPECT_EQ(s.begins++, 0);
          break;
        case Touch::Kind::kEnd:
          EXPECT_EQ(s.begins - s.ends++, 1);
          EXPECT_EQ(s.leaves, 1);
          break;
      }
    }
    std::size_t uses = 0;
    for (const Use& use : c.order) uses += use.kind != Use::Kind::kBackwardWeight;
    EXPECT_EQ(seen.size(), uses);
    for (const auto& [key, s] : seen) {
      EXPECT_EQ(s.leaves, 1);
      EXPECT_EQ(s.ends, std::get<bool>(key) ? 1 : 0);
    }
  }
}

TEST(Touches, WhatDoesNotFitIsRefused) {
  const std::vector<Use> order = flatten(gpipe(1, 1, 0), {2});
  EXPECT_THROW(touches(order, {{}, false, 1}), Error);
  EXPECT_THROW(touches(order, {{-1}, false, 2}), Error);
}

}  // namespace
}  // namespace trireme::test
