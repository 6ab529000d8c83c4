// What is gathered when: small passes written by hand, and properties of all schedules.
#include "zero/gather_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/base/error.h"
#include "tests/zero/touch_text.h"

namespace trireme::test {
namespace {

using Units = std::vector<std::vector<int>>;

constexpr Reshard kModes[] = {Reshard::kForward, Reshard::kBackward, Reshard::kStep};

std::vector<Touch> touches_of(const ActionList& actions, int entries, int every = 0) {
  return touches(flatten(actions, {entries}), {segments_of({entries}, every), false, entries});
}

// Unit u for entry u, of 10^u elements: the digits of a sum say which are live.
GatherPlanOptions one_each(int entries, Reshard reshard, bool prefetch = false) {
  GatherPlanOptions options{.reshard = reshard, .prefetch = prefetch};
  std::int64_t elements = 1;
  for (int u = 0; u < entries; ++u, elements *= 10) {
    options.users.push_back({u});
    options.elements.push_back(elements);
  }
  return options;
}

// "+u" a start before, "-u" an end after each enter and leave of an entry.
std::string text_of(const GatherPlan& plan) {
  std::string text;
  for (std::size_t i = 0; i < plan.touches().size(); ++i) {
    const Touch& touch = plan.touches()[i];
    if (touch.kind == Touch::Kind::kEnter) {
      for (int u : plan.starts(i)) text += "+" + std::to_string(u) + " ";
      text += (touch.backward ? "b" : "f") + std::to_string(touch.entry) + " ";
    }
    for (int u : plan.ends(i)) text += "-" + std::to_string(u) + " ";
  }
  return text;
}

std::vector<std::int64_t> gathers_of(const GatherPlan& plan, int units) {
  std::vector<std::int64_t> gathers;
  for (int u = 0; u < units; ++u) gathers.push_back(plan.gathers(u));
  return gathers;
}

TEST(GatherPlan, ForwardReleasesAfterEachUseButAtTheTurn) {
  const std::vector<Touch> touches = touches_of(gpipe(1, 1, 0), 3);
  const GatherPlan plan(touches, one_each(3, Reshard::kForward));
  EXPECT_EQ(text_of(plan), "+0 f0 -0 +1 f1 -1 +2 f2 b2 -2 +1 b1 -1 +0 b0 -0 ");
  EXPECT_EQ(plan.peak_live(), 100);
  EXPECT_EQ(gathers_of(plan, 3), (std::vector<std::int64_t>{2, 2, 1}));
  EXPECT_EQ(plan.touches(), touches);
}

TEST(GatherPlan, PrefetchIsOneEntryAhead) {
  const GatherPlan plan(touches_of(gpipe(1, 1, 0), 3), one_each(3, Reshard::kForward, true));
  EXPECT_EQ(text_of(plan), "+0 +1 f0 -0 +2 f1 -1 f2 +1 b2 -2 +0 b1 -1 b0 -0 ");
  EXPECT_EQ(plan.peak_live(), 110);
  EXPECT_EQ(plan.live_after(0), 11);
  EXPECT_EQ(plan.live_after(1), 10);
  EXPECT_EQ(plan.live_after(plan.touches().size() - 1), 0);
}

TEST(GatherPlan, APrefetchOverTheBoundIsLeftOut) {
  GatherPlanOptions options = one_each(3, Reshard::kForward, true);
  options.max_live = 109;  // unit 2 beside unit 1 does not fit
  const GatherPlan plan(touches_of(gpipe(1, 1, 0), 3), options);
  EXPECT_EQ(text_of(plan), "+0 +1 f0 -0 f1 -1 +2 f2 b2 -2 +1 +0 b1 -1 b0 -0 ");
  EXPECT_EQ(plan.peak_live(), 100);
  EXPECT_EQ(plan.gathers(2), 1);
}

TEST(GatherPlan, BackwardKeepsToTheMicroBatchesBackward) {
  EXPECT_EQ(text_of(GatherPlan(touches_of(gpipe(1, 2, 0), 2), one_each(2, Reshard::kBackward))),
            "+0 f0 +1 f1 f0 f1 b1 b0 b1 -1 b0 -0 ");
  // One after the other: kept within each micro-batch only.
  EXPECT_EQ(
      text_of(GatherPlan(touches_of(one_f_one_b(1, 2, 0), 3), one_each(3, Reshard::kBackward))),
      "+0 f0 +1 f1 +2 f2 b2 -2 b1 -1 b0 f0 +1 f1 +2 f2 b2 -2 b1 -1 b0 -0 ");
}

TEST(GatherPlan, StepKeepsFromFirstToLastUse) {
  EXPECT_EQ(text_of(GatherPlan(touches_of(one_f_one_b(1, 2, 0), 3), one_each(3, Reshard::kStep))),
            "+0 f0 +1 f1 +2 f2 b2 b1 b0 f0 f1 f2 b2 -2 b1 -1 b0 -0 ");
}

TEST(GatherPlan, WithoutBackwardNothingWaitsForIt) {
  const std::vector<Touch> touches = touches_of(forward_only(1, 2, 1, 0), 2);
  for (Reshard reshard : {Reshard::kForward, Reshard::kBackward})
    EXPECT_EQ(text_of(GatherPlan(touches, one_each(2, reshard))),
              "+0 f0 -0 +1 f1 -1 +0 f0 -0 +1 f1 -1 ");
  EXPECT_EQ(text_of(GatherPlan(touches, one_each(2, Reshard::kStep))), "+0 f0 +1 f1 f0 -0 f1 -1 ");
}

TEST(GatherPlan, ARecomputedSegmentHoldsAllItsUnits) {
  const std::vector<Touch> touches = touches_of(gpipe(1, 1, 0), 3, 3);
  const GatherPlan plan(touches, one_each(3, Reshard::kForward));
  EXPECT_EQ(text_of(plan), "+0 f0 -0 +1 f1 -1 +2 f2 -2 +0 b0 +1 b1 +2 b2 -2 -1 -0 ");
  EXPECT_EQ(plan.peak_live(), 111);
  EXPECT_EQ(text_of(GatherPlan(touches, one_each(3, Reshard::kForward, true))),
            "+0 +1 f0 -0 +2 f1 -1 +0 f2 -2 +1 b0 +2 b1 b2 -2 -1 -0 ");
}

TEST(GatherPlan, UnitsOfOneEntryAreFetchedByThemselves) {
  GatherPlanOptions options{.users = {{0, 1}, {1}}, .elements = {1, 10}, .max_live = 11};
  const std::vector<Touch> touches = touches_of(forward_only(1, 2, 1, 0), 2);
  // The shared one stays between its two users, and from one micro-batch to the next.
  EXPECT_EQ(text_of(GatherPlan(touches, options)), "+0 +1 f0 f1 -1 +1 f0 f1 -0 -1 ");
  options.users = {{1}, {1}};  // both absent, but only one fits beside entry 0's
  options.users.push_back({0});
  options.elements.push_back(5);
  EXPECT_EQ(text_of(GatherPlan(touches, options)),
            "+2 +0 f0 -2 +1 f1 -0 -1 +2 +0 f0 -2 +1 f1 -0 -1 ");
}

TEST(GatherPlan, ATiedUnitIsHeldOverNestedUses) {
  // A table used by the first and the last entry, which has a unit of its own as well.
  const GatherPlanOptions options{
      .users = {{0, 2}, {1}, {2}}, .elements = {1, 10, 100}, .prefetch = false};
  const GatherPlan plan(touches_of(gpipe(1, 1, 0), 3), options);
  EXPECT_EQ(text_of(plan), "+0 f0 -0 +1 f1 -1 +0 +2 f2 b2 -0 -2 +1 b1 -1 +0 b0 -0 ");
  EXPECT_EQ(plan.peak_live(), 101);
  GatherPlanOptions kept = options;
  kept.reshard = Reshard::kBackward;  // between the head's backward and the embedding's, too
  EXPECT_EQ(text_of(GatherPlan(touches_of(gpipe(1, 1, 0), 3), kept)),
            "+0 f0 +1 f1 +2 f2 b2 -2 b1 -1 b0 -0 ");
}

TEST(GatherPlan, CountsAsTheModesPromise) {
  constexpr int kBlocks = 6;
  const auto gathers = [](const ActionList& actions, Reshard reshard) {
    return gathers_of(GatherPlan(touches_of(actions, kBlocks), one_each(kBlocks, reshard)),
                      kBlocks);
  };
  EXPECT_EQ(gathers(gpipe(1, 1, 0), Reshard::kForward),
            (std::vector<std::int64_t>{2, 2, 2, 2, 2, 1}));
  for (int micros : {1, 2, 5}) {
    const std::vector<std::int64_t> once(kBlocks, 1);
    EXPECT_EQ(gathers(gpipe(1, micros, 0), Reshard::kBackward), once);
    EXPECT_EQ(gathers(gpipe(1, micros, 0), Reshard::kStep), once);
    EXPECT_EQ(gathers(one_f_one_b(2, micros, 0), Reshard::kStep), once);
    // Forward and backward of each micro-batch, less the turns: at the last entry once, at the
    // first between backwards and forwards (here: never, all forwards come first).
    std::vector<std::int64_t> each(kBlocks, 2 * micros);
    each.back() -= 1;
    EXPECT_EQ(gathers(gpipe(1, micros, 0), Reshard::kForward), each);
  }
  EXPECT_EQ(gathers(one_f_one_b(1, 3, 0), Reshard::kForward),
            (std::vector<std::int64_t>{4, 6, 6, 6, 6, 3}));
}

TEST(GatherPlan, TheErrorNamesBoundAndPlace) {
  GatherPlanOptions options = one_each(3, Reshard::kBackward);
  options.max_live = 50;
  try {
    GatherPlan(touches_of(gpipe(1, 2, 0), 3), options);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "zero.max_live_parameters = 50 is too small for zero.reshard = backward: the "
                 "smallest that would do here is 111, reached in the forward of list entry 2, "
                 "micro-batch 0");
  }
}

TEST(GatherPlan, WhatDoesNotFitIsRefused) {
  const std::vector<Touch> touches = touches_of(gpipe(1, 1, 0), 2);
  EXPECT_THROW(GatherPlan(touches, {.users = {{0}}, .elements = {}}), Error);
  EXPECT_THROW(GatherPlan(touches, {.users = {{-1}}, .elements = {1}}), Error);
  EXPECT_THROW(GatherPlan(touches, {.users = {{0}}, .elements = {1}, .max_live = -1}), Error);
  EXPECT_THROW(GatherPlan({{Touch::Kind::kEnter}}, {.users = {{0}}, .elements = {1}}), Error);
  EXPECT_THROW(GatherPlan({{Touch::Kind::kLeave}}, {.users = {{0}}, .elements = {1}}), Error);
}

TEST(GatherPlan, NothingAtAll) {
  EXPECT_EQ(GatherPlan({}, {}).peak_live(), 0);
  const GatherPlan unused(touches_of(gpipe(1, 1, 0), 1), {.users = {{}, {7}}, .elements = {5, 6}});
  EXPECT_EQ(gathers_of(unused, 2), (std::vector<std::int64_t>{0, 0}));
}

// Every entry its unit; entry 0 and the last one share another; unit sizes differ.
GatherPlanOptions with_tied(int entries) {
  GatherPlanOptions options;
  for (int e = 0; e < entries; ++e) {
    options.users.push_back({e});
    options.elements.push_back(16 * (1 + (e * 7) % 5));
  }
  options.users.push_back({0, entries - 1});
  options.elements.push_back(96);
  return options;
}

// Replays the plan: uses lie inside what is held, nothing is started twice or left over, and the
// counts are what happened.
void expect_sound(const GatherPlan& plan, const GatherPlanOptions& options) {
  std::vector<bool> held(options.users.size(), false);
  std::vector<std::int64_t> started(options.users.size(), 0);
  std::int64_t live = 0, peak = 0;
  const auto uses = [&](std::size_t unit, const Touch& touch) {
    const auto& users = options.users[unit];
    return std::find(users.begin(), users.end(), touch.entry) != users.end();
  };
  for (std::size_t i = 0; i < plan.touches().size(); ++i) {
    const Touch& touch = plan.touches()[i];
    EXPECT_TRUE(plan.starts(i).empty() || touch.kind == Touch::Kind::kEnter);
    EXPECT_TRUE(plan.ends(i).empty() || touch.kind == Touch::Kind::kLeave);
    bool ahead = false;  // own ones come first
    for (int u : plan.starts(i)) {
      const auto unit = static_cast<std::size_t>(u);
      EXPECT_FALSE(held[unit]);
      const bool own = uses(unit, touch);
      EXPECT_FALSE(own && ahead);
      ahead = !own;
      held[unit] = true;
      ++started[unit];
      live += options.elements[unit];
    }
    peak = std::max(peak, live);
    const bool needs = touch.kind == Touch::Kind::kEnter || touch.kind == Touch::Kind::kBegin;
    for (std::size_t u = 0; needs && u < options.users.size(); ++u)
      EXPECT_TRUE(held[u] || !uses(u, touch)) << "touch " << i << " unit " << u;
    for (int u : plan.ends(i)) {
      const auto unit = static_cast<std::size_t>(u);
      EXPECT_TRUE(held[unit]);
      held[unit] = false;
      live -= options.elements[unit];
    }
    EXPECT_EQ(plan.live_after(i), live);
  }
  EXPECT_EQ(live, 0);
  EXPECT_EQ(plan.peak_live(), peak);
  for (std::size_t u = 0; u < started.size(); ++u)
    EXPECT_EQ(plan.gathers(static_cast<int>(u)), started[u]);
}

TEST(GatherPlan, IsSoundForAllSchedulesAndModes) {
  for (const TouchCase& c : touch_cases()) {
    SCOPED_TRACE(c.name);
    GatherPlanOptions options = with_tied(c.entries);
    std::vector<std::int64_t> total;
    for (Reshard reshard : kModes) {
      options.reshard = reshard;
      options.max_live = 0;
      options.prefetch = false;
      const GatherPlan plain(c.touches, options);
      expect_sound(plain, options);
      options.prefetch = true;
      const GatherPlan ahead(c.touches, options);
      expect_sound(ahead, options);
      // The smallest bound does, with the same gathers; one less does not.
      options.max_live = plain.peak_live();
      const GatherPlan tight(c.touches, options);
      expect_sound(tight, options);
      EXPECT_EQ(tight.peak_live(), options.max_live);
      total.push_back(0);
      for (int u = 0; u < static_cast<int>(options.users.size()); ++u) {
        EXPECT_EQ(ahead.gathers(u), plain.gathers(u));
        EXPECT_EQ(tight.gathers(u), plain.gathers(u));
        total.back() += plain.gathers(u);
      }
      --options.max_live;
      EXPECT_THROW(GatherPlan(c.touches, options), Error);
      for (std::int64_t bound : {plain.peak_live() + 32, plain.peak_live() + 64}) {
        options.max_live = bound;
        EXPECT_LE(GatherPlan(c.touches, options).peak_live(), bound);
      }
    }
    EXPECT_GE(total[0], total[1]);
    EXPECT_GE(total[1], total[2]);
    EXPECT_EQ(total[2], std::ssize(options.users));
  }
}

}  // namespace
}  // namespace trireme::test
