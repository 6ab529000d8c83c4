#include "pipeline/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/base/error.h"
#include "pipeline/lowering.h"
#include "tests/pipeline/support.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

// Receive, compute, send, each a call that blocks: what a stage would do without thinking.
ActionList plain_order(const ActionList& list, int stage, int p) {
  ActionList result;
  for (const Action& action : list) {
    if (is_communication(action.kind)) continue;
    const bool forward = action.kind == Kind::kForward;
    const bool from = forward ? stage > 0 : stage < p - 1, to = forward ? stage < p - 1 : stage > 0;
    if (from) result.push_back({forward ? Kind::kRecvForward : Kind::kRecvBackward, action.micro});
    result.push_back(action);
    if (to) result.push_back({forward ? Kind::kSendForward : Kind::kSendBackward, action.micro});
  }
  return result;
}

Schedule plain_schedule(ScheduleKind kind, int p, int m) {
  Schedule schedule = make_schedule(kind, p, m, 1);
  for (int stage = 0; stage < p; ++stage) {
    ActionList& list = schedule[static_cast<std::size_t>(stage)];
    list = plain_order(list, stage, p);
  }
  return schedule;
}

std::string error_of(const Schedule& schedule, Waiting waiting = Waiting::kGroup) {
  try {
    simulate(schedule, PassCosts{}, {waiting});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// P21: nothing hangs, however an executor waits and whatever the passes cost.
TEST(Simulator, EveryScheduleCompletes) {
  for (const auto& [kind, p, m, v] : all_cases()) {
    const Schedule schedule = make_schedule(kind, p, m, v);
    for (Waiting waiting : {Waiting::kEachMessage, Waiting::kGroup, Waiting::kWhenNeeded})
      ASSERT_NO_THROW(simulate(schedule, PassCosts{1, 1, 1}, {waiting}))
          << name_of(kind) << " p " << p << " m " << m << " v " << v;
    auto uneven = [](int stage, const Action& action) {
      return 1 + (stage * 7 + action.micro * 3 + action.chunk * 5 + static_cast<int>(action.kind)) %
                     4 / 3.0;
    };
    ASSERT_NO_THROW(simulate(schedule, uneven))
        << name_of(kind) << " " << p << " " << m << " " << v;
  }
}

// The simulator can fail: plain blocking calls deadlock for 1F1B whenever there is something to
// exchange both ways, and never for GPipe.
TEST(Simulator, PlainBlockingOrderDeadlocks) {
  int deadlocks = 0;
  for (int p = 2; p <= 8; ++p)
    for (int m = 2; m <= 16; ++m) {
      const std::string error =
          error_of(plain_schedule(ScheduleKind::kOneFOneB, p, m), Waiting::kEachMessage);
      deadlocks += error.starts_with("the schedule deadlocks: ");
      EXPECT_EQ(error_of(plain_schedule(ScheduleKind::kGPipe, p, m), Waiting::kEachMessage), "");
    }
  EXPECT_EQ(deadlocks, 105);
  EXPECT_EQ(error_of(plain_schedule(ScheduleKind::kOneFOneB, 2, 2), Waiting::kEachMessage),
            "the schedule deadlocks: stage 0 waits in send forward of micro-batch 1, chunk 0 to "
            "stage 1; stage 1 waits in send backward of micro-batch 0, chunk 0 to stage 0");
}

TEST(Simulator, GPipeAndOneFOneBTakeTheSameTime) {
  const PassCosts costs{1, 1, 1};
  const auto gpipe_run = simulate(make_schedule(ScheduleKind::kGPipe, 4, 8, 1), costs);
  EXPECT_EQ(gpipe_run.makespan, 33);
  EXPECT_EQ(peaks(gpipe_run), (std::vector<int>{8, 8, 8, 8}));
  const auto run = simulate(make_schedule(ScheduleKind::kOneFOneB, 4, 8, 1), costs);
  EXPECT_EQ(run.makespan, 33);
  EXPECT_EQ(peaks(run), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_NEAR(run.bubble_fraction(), 9.0 / 33, 1e-15);
}

TEST(Simulator, InterleavedShrinksTheBubble) {
  const auto run =
      simulate(make_schedule(ScheduleKind::kInterleaved, 4, 8, 2), PassCosts{.5, .5, .5});
  EXPECT_EQ(run.makespan, 28.5);
  EXPECT_EQ(peaks(run), (std::vector<int>{11, 9, 7, 5}));
  const auto longer = simulate(make_schedule(ScheduleKind::kInterleaved, 4, 12, 3),
                               PassCosts{1 / 3., 1 / 3., 1 / 3.});
  EXPECT_NEAR(longer.makespan, 39, 1e-12);
}

TEST(Simulator, ZeroBubbleFillsTheEnd) {
  const auto run = simulate(make_schedule(ScheduleKind::kZeroBubbleH1, 4, 8, 1), PassCosts{});
  for (int stage = 0; stage < 4; ++stage) {
    const StageTimeline& timeline = run.stages[static_cast<std::size_t>(stage)];
    EXPECT_EQ(timeline.end(), 27);
    EXPECT_EQ(timeline.bubble, 3 - stage);
    EXPECT_EQ(timeline.busy, 24);
  }
  EXPECT_EQ(peaks(run), (std::vector<int>{4, 4, 4, 4}));
  EXPECT_EQ(simulate(make_schedule(ScheduleKind::kZeroBubbleH1, 8, 24, 1), PassCosts{}).makespan,
            79);
}

// P22: fewer micro-batches than stages.
TEST(Simulator, FewMicroBatches) {
  for (ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::kOneFOneB}) {
    EXPECT_EQ(simulate(make_schedule(kind, 4, 1, 1), PassCosts{}).makespan, 12);
    EXPECT_EQ(simulate(make_schedule(kind, 4, 2, 1), PassCosts{}).makespan, 15);
  }
  EXPECT_EQ(simulate(make_schedule(ScheduleKind::kZeroBubbleH1, 4, 1, 1), PassCosts{}).makespan, 9);
}

TEST(Simulator, PeaksFollowTheFormulas) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 16; ++m) {
      const auto run = simulate(make_schedule(ScheduleKind::kOneFOneB, p, m, 1), PassCosts{});
      const auto zero = simulate(make_schedule(ScheduleKind::kZeroBubbleH1, p, m, 1), PassCosts{});
      for (int stage = 0; stage < p; ++stage) {
        EXPECT_EQ(peaks(run)[static_cast<std::size_t>(stage)], std::min(m, p - stage));
        EXPECT_LE(peaks(zero)[static_cast<std::size_t>(stage)], p);
      }
      EXPECT_EQ(peaks(simulate(make_schedule(ScheduleKind::kForwardOnly, p, m, 1), PassCosts{}))[0],
                0);
    }
}

TEST(Simulator, AgreesWithThePredictedBubble) {
  for (const auto& [kind, p, m, v] : all_cases()) {
    if (kind == ScheduleKind::kForwardOnly && v > 1 && m % p != 0) continue;
    if (kind == ScheduleKind::kZeroBubbleH1 && m < p) continue;
    // Small whole numbers per chunk, so that sums are exact.
    const PassCosts chunk{1, 1, 1}, whole{1.0 * v, 1.0 * v, 1.0 * v};
    const auto run = simulate(make_schedule(kind, p, m, v), chunk, {Waiting::kWhenNeeded});
    const Bubble bubble = predicted_bubble(kind, p, m, v, whole);
    EXPECT_NEAR(run.makespan - run.stages[0].busy, bubble.time, 1e-12)
        << name_of(kind) << " p " << p << " m " << m << " v " << v;
    EXPECT_NEAR(run.bubble_fraction(), bubble.of_total, 1e-12);
    EXPECT_NEAR(bubble.of_ideal, bubble.time / run.stages[0].busy, 1e-12);
  }
}

TEST(Simulator, SlowStageSetsThePace) {
  const auto run = simulate(make_schedule(ScheduleKind::kOneFOneB, 2, 6, 1),
                            [](int stage, const Action& action) {
                              return PassCosts{}.of(action) * (stage == 1 ? 2 : 1);
                            });
  EXPECT_EQ(run.stages[1].bubble, 0);
  EXPECT_EQ(run.makespan, 1 + 6 * 6 + 2);
}

// Each rule of the check, broken once.
class BrokenSchedule : public ::testing::Test {
 protected:
  Schedule schedule_ = make_schedule(ScheduleKind::kOneFOneB, 2, 3, 1);
  ActionList& stage(std::size_t index) { return schedule_[index]; }
  static void erase(ActionList& list, const Action& action) {
    ASSERT_EQ(std::erase(list, action), 1u);
  }
  static void swap(ActionList& list, const Action& a, const Action& b) {
    std::iter_swap(std::find(list.begin(), list.end(), a), std::find(list.begin(), list.end(), b));
  }
};

TEST_F(BrokenSchedule, MissingComputation) {
  erase(stage(1), {Kind::kBackward, 2});
  EXPECT_EQ(error_of(schedule_),
            "schedule: stage 1 does send backward of micro-batch 2, chunk 0 before it is computed");
  erase(stage(1), {Kind::kSendBackward, 2});
  EXPECT_EQ(error_of(schedule_), "schedule: stage 1 never does backward of micro-batch 2, chunk 0");
}

TEST_F(BrokenSchedule, Twice) {
  stage(0).push_back({Kind::kBackward, 2});
  EXPECT_EQ(error_of(schedule_), "schedule: stage 0 does backward of micro-batch 2, chunk 0 twice");
}

TEST_F(BrokenSchedule, BackwardBeforeForward) {
  swap(stage(1), {Kind::kForward, 0}, {Kind::kBackward, 0});
  EXPECT_EQ(error_of(schedule_),
            "schedule: stage 1 does backward of micro-batch 0, chunk 0 before its forward");
}

TEST_F(BrokenSchedule, WeightBeforeInput) {
  schedule_ = make_schedule(ScheduleKind::kZeroBubbleH1, 2, 3, 1);
  swap(stage(1), {Kind::kBackwardInput, 0}, {Kind::kBackwardWeight, 0});
  EXPECT_EQ(error_of(schedule_),
            "schedule: stage 1 does weight backward of micro-batch 0, chunk 0 before its input "
            "backward");
}

TEST_F(BrokenSchedule, SplitAndWholeBackward) {
  auto& list = stage(1);
  const auto at = std::find(list.begin(), list.end(), Action{Kind::kBackward, 0});
  list.insert(at, {Kind::kBackwardInput, 0});
  EXPECT_EQ(error_of(schedule_),
            "schedule: stage 1 does backward of micro-batch 0, chunk 0 after another backward of "
            "it");
}

TEST_F(BrokenSchedule, MissingSend) {
  erase(stage(0), {Kind::kSendForward, 1});
  EXPECT_EQ(error_of(schedule_),
            "schedule: stage 0 never does send forward of micro-batch 1, chunk 0");
}

TEST_F(BrokenSchedule, SwappedReceives) {
  swap(stage(0), {Kind::kSendForward, 0}, {Kind::kSendForward, 1});
  EXPECT_EQ(error_of(schedule_),
            "schedule: stage 0 does send forward of micro-batch 1, chunk 0 before it is computed");
  schedule_ = make_schedule(ScheduleKind::kForwardOnly, 2, 2, 1);
  schedule_[1] = {
      {Kind::kRecvForward, 1}, {Kind::kForward, 1}, {Kind::kRecvForward, 0}, {Kind::kForward, 0}};
  EXPECT_EQ(error_of(schedule_),
            "schedule: message 0 from stage 0 to stage 1 is the send forward of micro-batch 0, "
            "chunk 0, but the receiver does receive forward of micro-batch 1, chunk 0");
}

// Two stages with two chunks: both directions share a pair of ranks, order counts across them.
TEST_F(BrokenSchedule, BackwardBeforeForwardOnOneSide) {
  schedule_ = make_schedule(ScheduleKind::kInterleaved, 2, 4, 2);
  check_schedule(schedule_);
  ActionList& list = stage(0);
  const auto backward = std::find(list.begin(), list.end(), Action{Kind::kSendBackward, 0, 1});
  const auto forward = std::find_if(std::make_reverse_iterator(backward), list.rend(),
                                    [](const Action& a) { return is_send(a.kind); });
  ASSERT_EQ(forward->kind, Kind::kSendForward);
  std::rotate(forward.base() - 1, forward.base(), backward + 1);
  EXPECT_TRUE(error_of(schedule_).starts_with("schedule: message ")) << error_of(schedule_);
}

TEST_F(BrokenSchedule, MessageToNobody) {
  stage(1).push_back({Kind::kSendForward, 0});
  EXPECT_EQ(error_of(schedule_),
            "schedule: stage 1 does send forward of micro-batch 0, chunk 0 but nobody is next");
}

TEST_F(BrokenSchedule, ReceiveThatNobodySends) {
  stage(0).push_back({Kind::kRecvBackward, 3});
  EXPECT_NE(error_of(schedule_), "");
}

TEST(Lowering, RefusesAnOrderAgainstTheDataFlow) {
  const Schedule order = {{{Kind::kForward, 0}, {Kind::kBackward, 0}},
                          {{Kind::kBackward, 0}, {Kind::kForward, 0}}};
  EXPECT_THROW(add_communication(order), Error);
}

// Any order that respects the data gets messages: here stage 0 runs micro-batches backwards.
TEST(Lowering, ServesCustomOrders) {
  const Schedule order = {
      {{Kind::kForward, 1}, {Kind::kForward, 0}, {Kind::kBackward, 1}, {Kind::kBackward, 0}},
      {{Kind::kForward, 1}, {Kind::kBackward, 1}, {Kind::kForward, 0}, {Kind::kBackward, 0}}};
  EXPECT_NO_THROW(check_schedule(add_communication(order)));
}

}  // namespace
}  // namespace trireme
