#include "pipeline/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "framework/base/error.h"
#include "tests/pipeline/support.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

ActionList computations(const ActionList& list) {
  ActionList result;
  for (const Action& action : list)
    if (!is_communication(action.kind)) result.push_back(action);
  return result;
}

TEST(Schedule, OneFOneBOfThreeStagesIsWrittenOut) {
  const ActionList middle = {
      {Kind::kRecvForward, 0},  {Kind::kForward, 0},  {Kind::kRecvForward, 1},
      {Kind::kSendForward, 0},  {Kind::kForward, 1},  {Kind::kSendForward, 1},
      {Kind::kRecvBackward, 0}, {Kind::kBackward, 0}, {Kind::kRecvForward, 2},
      {Kind::kSendBackward, 0}, {Kind::kForward, 2},  {Kind::kSendForward, 2},
      {Kind::kRecvBackward, 1}, {Kind::kBackward, 1}, {Kind::kSendBackward, 1},
      {Kind::kRecvBackward, 2}, {Kind::kBackward, 2}, {Kind::kSendBackward, 2}};
  EXPECT_EQ(one_f_one_b(3, 3, 1), middle);
}

TEST(Schedule, SteadyStateFusesSendAndReceive) {
  const ActionList list = one_f_one_b(4, 8, 1);
  for (int i = 2; i < 8; ++i) {
    const ActionList forward = {{Kind::kSendForward, i}, {Kind::kRecvBackward, i - 2}};
    EXPECT_NE(std::search(list.begin(), list.end(), forward.begin(), forward.end()), list.end());
  }
  for (int i = 3; i < 8; ++i) {
    const ActionList backward = {{Kind::kRecvForward, i}, {Kind::kSendBackward, i - 3}};
    EXPECT_NE(std::search(list.begin(), list.end(), backward.begin(), backward.end()), list.end())
        << i;
  }
}

// One buffer per direction: a stage never holds a second message that it has not used.
TEST(Schedule, ReceivesJustInTime) {
  for (int p = 2; p <= 8; ++p)
    for (ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::kOneFOneB})
      for (const ActionList& list : make_schedule(kind, p, 12, 1)) {
        int forward = 0, backward = 0;
        for (const Action& action : list) {
          forward += action.kind == Kind::kRecvForward;
          backward += action.kind == Kind::kRecvBackward;
          EXPECT_LE(std::max(forward, backward), 1);
          if (action.kind == Kind::kForward) forward = 0;
          if (action.kind == Kind::kBackward) backward = 0;
        }
      }
}

TEST(Schedule, GPipeRunsBackwardInReverse) {
  const ActionList order = computations(gpipe(2, 3, 0));
  const ActionList expected = {{Kind::kForward, 0},  {Kind::kForward, 1},  {Kind::kForward, 2},
                               {Kind::kBackward, 2}, {Kind::kBackward, 1}, {Kind::kBackward, 0}};
  EXPECT_EQ(order, expected);
}

TEST(Schedule, InterleavedGoesInGroupsOfStages) {
  const ActionList order = computations(interleaved(2, 4, 2, 1));
  const ActionList expected = {
      {Kind::kForward, 0, 0},  {Kind::kForward, 1, 0},  {Kind::kForward, 0, 1},
      {Kind::kBackward, 0, 1}, {Kind::kForward, 1, 1},  {Kind::kBackward, 1, 1},
      {Kind::kForward, 2, 0},  {Kind::kBackward, 0, 0}, {Kind::kForward, 3, 0},
      {Kind::kBackward, 1, 0}, {Kind::kForward, 2, 1},  {Kind::kBackward, 2, 1},
      {Kind::kForward, 3, 1},  {Kind::kBackward, 3, 1}, {Kind::kBackward, 2, 0},
      {Kind::kBackward, 3, 0}};
  EXPECT_EQ(order, expected);
}

TEST(Schedule, InterleavedRunsAllForwardsFirstWhenMicroBatchesEqualStages) {
  for (int stage = 0; stage < 4; ++stage) {
    const ActionList order = computations(interleaved(4, 4, 2, stage));
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(order[i].kind, Kind::kForward);
  }
}

TEST(Schedule, ZeroBubbleSplitsBackward) {
  const ActionList order = computations(zero_bubble_h1(2, 3, 1));
  const ActionList expected = {
      {Kind::kForward, 0},       {Kind::kBackwardInput, 0},  {Kind::kForward, 1},
      {Kind::kBackwardInput, 1}, {Kind::kBackwardWeight, 0}, {Kind::kForward, 2},
      {Kind::kBackwardInput, 2}, {Kind::kBackwardWeight, 1}, {Kind::kBackwardWeight, 2}};
  EXPECT_EQ(order, expected);
}

TEST(Schedule, OneStageHasNoMessages) {
  for (const auto& list : {gpipe(1, 3, 0), one_f_one_b(1, 3, 0), interleaved(1, 3, 2, 0),
                           zero_bubble_h1(1, 3, 0), forward_only(1, 3, 2, 0)})
    for (const Action& action : list) EXPECT_FALSE(is_communication(action.kind));
}

TEST(Schedule, EdgesSendNothingOutward) {
  for (const Action& action : forward_only(3, 4, 2, 0))
    EXPECT_FALSE(action.kind == Kind::kRecvForward && action.chunk == 0);
  for (const Action& action : forward_only(3, 4, 2, 2))
    EXPECT_FALSE(action.kind == Kind::kSendForward && action.chunk == 1);
  EXPECT_EQ(peer_of({Kind::kSendForward, 0, 0}, 2, 3), 0);
  EXPECT_EQ(peer_of({Kind::kRecvForward, 0, 1}, 0, 3), 2);
  EXPECT_EQ(peer_of({Kind::kSendBackward, 0, 1}, 0, 3), 2);
  EXPECT_EQ(peer_of({Kind::kRecvBackward, 0, 0}, 2, 3), 0);
}

// With two stages and chunks both directions share a pair of ranks: forward first in each group.
TEST(Schedule, TwoStagesPostForwardBeforeBackwardInAGroup) {
  int mixed = 0;
  for (int stage = 0; stage < 2; ++stage) {
    const ActionList list = interleaved(2, 16, 3, stage);
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      if (!is_communication(list[i].kind) || !is_communication(list[i + 1].kind)) continue;
      EXPECT_FALSE(list[i].kind == Kind::kSendBackward && list[i + 1].kind == Kind::kSendForward);
      EXPECT_FALSE(list[i].kind == Kind::kRecvBackward && list[i + 1].kind == Kind::kRecvForward);
      mixed += list[i].kind != list[i + 1].kind;
    }
  }
  EXPECT_GT(mixed, 0);
}

TEST(Schedule, NamesRoundTrip) {
  for (ScheduleKind kind :
       {ScheduleKind::kGPipe, ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved,
        ScheduleKind::kZeroBubbleH1, ScheduleKind::kForwardOnly})
    EXPECT_EQ(schedule_from_name(name_of(kind)), kind);
  EXPECT_EQ(error_of([] { schedule_from_name("zb"); }),
            "there is no schedule \"zb\": use gpipe, 1f1b, interleaved, zb-h1 or forward-only");
}

TEST(Schedule, RefusesWhatDoesNotExist) {
  EXPECT_EQ(
      error_of([] { interleaved(4, 6, 2, 0); }),
      "schedule interleaved with 2 chunks on 4 stages needs a number of micro-batches that is "
      "a multiple of 4, not 6: use 4 or 8");
  EXPECT_EQ(
      error_of([] { interleaved(4, 3, 2, 0); }),
      "schedule interleaved with 2 chunks on 4 stages needs a number of micro-batches that is "
      "a multiple of 4, not 3: use 4 or 8");
  EXPECT_EQ(error_of([] { make_schedule(ScheduleKind::kOneFOneB, 2, 2, 2); }),
            "schedule 1f1b has one chunk per stage, not 2: use schedule interleaved");
  EXPECT_EQ(error_of([] { gpipe(2, 0, 0); }), "a pipeline with 0 micro-batches: use 1 or more");
  EXPECT_EQ(error_of([] { gpipe(0, 1, 0); }), "a pipeline of 0 stages: use 1 or more");
  EXPECT_EQ(error_of([] { gpipe(2, 1, 2); }), "stage 2 of a pipeline of 2 stages: use 0 to 1");
}

}  // namespace
}  // namespace trireme
