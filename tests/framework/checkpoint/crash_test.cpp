// Saves on a simulated disk: the power goes at every call, everything unsynced survives or not in
// 24 ways, and the newest good checkpoint is step n or n - 1, whole; n once its save had returned.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "tests/framework/checkpoint/toy_saves.h"
#include "tests/support/fault_count.h"

namespace trireme {
namespace {

using testing::crash_toy_saves;
using testing::CrashCount;
using testing::done_before_the_crash;
using testing::every_persistence;
using testing::Fault;
using testing::find_toy;
using testing::FoundToy;
using testing::is_tidy;
using testing::kToyFolder;
using testing::Persistence;
using testing::save_toy;
using testing::SimulatedFiles;
using testing::Troubles;

class SaveUnderPowerCuts : public ::testing::TestWithParam<int> {};

TEST_P(SaveUnderPowerCuts, TheNewestIsStepNOrTheOneBefore) {
  const CrashCount count = crash_toy_saves({.processes = GetParam()});
  EXPECT_EQ(count.lost, 0) << count.first;
  EXPECT_GT(count.crashes, 50);
  EXPECT_EQ(count.restarts, (count.crashes + 1) * 24);
  test::tell({.row = "R6",
              .what = "power cuts at every call of two saves",
              .runs = count.restarts,
              .injected = count.crashes * 24,
              .lost = count.lost});
}

INSTANTIATE_TEST_SUITE_P(Processes, SaveUnderPowerCuts, ::testing::Values(1, 2),
                         ::testing::PrintToStringParamName());

// R8, beside the suite above: the first save makes its folders, and they last.
TEST(SavedCheckpoint, TheFirstEverIsThereOnceItReturned) {
  SimulatedFiles files;
  save_toy(files, 1, 2);
  test::FaultCount count{.row = "R8", .what = "power cuts right behind the first save"};
  for (const Persistence& kept : every_persistence())
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const auto restarted = files.restart(kept, seed);
      const FoundToy found = find_toy(*restarted);
      EXPECT_EQ(found.step, 1) << text_of(kept) << ": " << text_of(found);
      EXPECT_TRUE(found.complaints.empty()) << text_of(found);
      EXPECT_EQ(found.latest, 1) << text_of(kept);
      ++count.runs;
      ++count.injected;
      count.lost += found.step == 1 && found.complaints.empty() && found.latest == 1 ? 0 : 1;
    }
  test::tell(count);
}

TEST(SavedCheckpoint, RanksThatWriteSideBySideSurviveACrashToo) {
  std::int64_t crashes = 0;
  bool done = false;
  for (std::int64_t k = 1; !done; k += 7) {
    SimulatedFiles files;
    save_toy(files, 1, 2, true);
    files.trouble({.plan = {.fault = Fault::kCrash, .at = k}});
    done = done_before_the_crash(files, [&] { save_toy(files, 2, 2, true); });
    if (!done) ++crashes;
    for (const Persistence& kept : every_persistence()) {
      const FoundToy found = find_toy(*files.restart(kept, static_cast<std::uint64_t>(k)));
      EXPECT_TRUE(found.step == 2 || (!done && found.step == 1)) << text_of(found);
      EXPECT_TRUE(found.complaints.empty()) << text_of(found);
    }
  }
  EXPECT_GT(crashes, 5);
}

// R14: what a crash left over is ignored, and gone after the next save.
TEST(SavedCheckpoint, TheNextSaveAfterACrashWorksAndClearsUp) {
  bool done = false;
  std::int64_t untidy = 0;
  test::FaultCount count{.row = "R14", .what = "left-overs of a crash before the next save"};
  for (std::int64_t k = 1; !done; ++k) {
    SimulatedFiles files;
    save_toy(files, 1, 2);
    files.trouble({.plan = {.fault = Fault::kCrash, .at = k}});
    done = done_before_the_crash(files, [&] { save_toy(files, 2, 2); });
    const auto choices = every_persistence();
    for (std::size_t i = static_cast<std::size_t>(k) % 6; i < choices.size(); i += 6) {
      const auto restarted = files.restart(choices[i], static_cast<std::uint64_t>(k));
      if (!is_tidy(*restarted)) ++untidy;
      const std::int64_t next = find_toy(*restarted).step + 1;
      save_toy(*restarted, next, 1);
      const FoundToy found = find_toy(*restarted);
      EXPECT_EQ(found.step, next) << text_of(choices[i]) << ", call " << k;
      EXPECT_TRUE(found.complaints.empty()) << text_of(found);
      EXPECT_TRUE(is_tidy(*restarted)) << text_of(choices[i]) << ", call " << k;
      ++count.runs;
      const bool sound = found.step == next && found.complaints.empty() && is_tidy(*restarted);
      count.lost += sound ? 0 : 1;
    }
  }
  count.injected = untidy;
  test::tell(count);
}

// Skips sync number `skipped` of the run, which is its call number `call`. Most such bugs show when
// the power goes right after that save has returned; else every later call is tried.
CrashCount crash_without_sync(const testing::ToyTrace& trace, std::int64_t call,
                              std::int64_t skipped) {
  const auto ignores = [skipped, seen = std::int64_t{0}](const std::string&) mutable {
    return seen++ == skipped;
  };
  const auto returned = std::find_if(trace.returned.begin(), trace.returned.end(),
                                     [&](std::int64_t calls) { return calls >= call; });
  testing::CrashPlan plan{.troubles = {.ignores_sync = ignores}, .until_lost = true};
  if (returned != trace.returned.end()) {
    plan.from = plan.to = *returned + 1;
    const CrashCount count = crash_toy_saves(plan);
    if (count.lost > 0) return count;
  }
  plan.from = call + 1;
  plan.to = 0;
  plan.seeds = 3;
  return crash_toy_saves(plan);
}

// The suite can fail: each single sync that is skipped loses something. Only nothing depends on the
// second save's sync of the folder above, whose names have not changed since the first.
TEST(PlantedBug, ASkippedSyncIsFound) {
  const testing::ToyTrace trace = testing::trace_of_toy_saves(1);
  std::int64_t planted = 0;
  std::int64_t found = 0;
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    if (!trace.calls[i].starts_with("sync ")) continue;
    const auto call = static_cast<std::int64_t>(i) + 1;
    const CrashCount count = crash_without_sync(trace, call, planted++);
    found += count.lost;
    const bool needless = trace.calls[i] == "sync directory run" && call > trace.returned[0];
    EXPECT_EQ(count.lost, needless ? 0 : 1) << "call " << call << ": " << trace.calls[i];
  }
  EXPECT_GT(found, 12);
  std::cout << "faults: planted bugs: " << found << " of " << planted
            << " skipped syncs found, the others are needless\n";
}

}  // namespace
}  // namespace trireme
