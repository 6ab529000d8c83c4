// R1: a rank killed at every communicator call of a step and of the save behind it, under three
// layouts. The others end with its name, and what lies on the disk goes on as the run that nobody
// disturbed.
#include <gtest/gtest.h>

#include <iostream>

#include "framework/base/error.h"
#include "framework/checkpoint/inspect.h"
#include "tests/faults/train/storm_train.h"
#include "tests/support/fault_count.h"

namespace trireme::test {
namespace {

using namespace parity;
using trireme::testing::SimulatedFiles;

constexpr int kSteps = 3;

const Layout kLayouts[] = {
    {.mesh = {.data = 2, .pipeline = 2, .tensor = 2}, .zero_stage = 1},
    {.mesh = {.data = 2, .tensor = 2}, .sequence_parallel = true, .zero_stage = 3},
    {.mesh = {.pipeline = 4}, .schedule = ScheduleKind::kZeroBubbleH1}};

std::unique_ptr<SimulatedFiles> copy_of(const SimulatedFiles& files) {
  return files.restart({.data = testing::KeptData::kAll, .names = testing::KeptNames::kAll}, 1);
}

// Steps first + 1 to last, each with its save, from the checkpoint of step `first` (0: from none).
// The calls of the first of these steps are what `baton` counts.
StormRun steps(const Layout& layout, Baton& baton, SimulatedFiles& files, int first, int last) {
  const Task task = tiny_task();
  const SampleSource source = random_samples(task.model, task.seed);
  SaveSession session(files, "run", 0, layout.mesh.ranks());
  return run_storm(task, layout, baton, [&](Rank& rank, StormRun& run) {
    const SaveRank place{&session, rank.engine, rank.mesh, rank.backend, rank.backend};
    const int me = rank.mesh.world().rank();
    if (first > 0) check(load(place, first).step == first, "another step was loaded");
    for (int step = first; step < last; ++step) {
      if (step == first) baton.mark(me);
      const double loss = rank.engine.train(step, source).loss;
      if (rank.first()) run.losses.push_back(loss);
      save(place, {.run = "storm", .step = step + 1, .recipe = "[train]\n"});
      baton.mark(me, false);
    }
  });
}

// All names and bytes of a disk.
std::string content_of(Files& files, const std::string& folder) {
  std::string all;
  for (const std::string& name : files.list(folder)) {
    const std::string path = folder + "/" + name;
    all += path + "\n";
    const FileStatus status = files.status(path);
    if (status.kind == FileKind::kDirectory) {
      all += content_of(files, path);
      continue;
    }
    std::string bytes(static_cast<std::size_t>(status.bytes), '\0');
    files.open(path, OpenMode::kRead)->read(bytes.data(), status.bytes, 0);
    all += bytes;
  }
  return all;
}

class Kill : public ::testing::TestWithParam<int> {
 protected:
  StormRun steps(Baton& baton, SimulatedFiles& files, int first, int last) {
    return test::steps(layout, baton, files, first, last);
  }
  void SetUp() override {
    Baton calm(ranks, StormPlan{.switch_percent = 10});
    SimulatedFiles whole;
    quiet_ = steps(calm, whole, 0, kSteps);
    ASSERT_EQ(quiet_.thrown, "");
    steps(calm_1_, after_1_, 0, 1);
    Baton second(ranks, StormPlan{.switch_percent = 10});
    const auto files = copy_of(after_1_);
    ASSERT_EQ(steps(second, *files, 1, 2).losses[0], quiet_.losses[1]);
    for (int rank = 0; rank < ranks; ++rank) calls_.push_back(second.calls(rank));
  }

  // Kills in step 2, and goes on from what is left.
  void kill(const StormPlan& plan) {
    SCOPED_TRACE(text_of(plan));
    const auto files = copy_of(after_1_);
    Baton baton(ranks, plan);
    const StormRun run = steps(baton, *files, 1, 2);
    ++told_.runs;
    told_.injected += run.count.faults();
    const bool right = named(run, plan) && run.bytes_left == 0 && goes_on(*files);
    EXPECT_TRUE(right) << run.thrown << "\n" << run.bytes_left << " bytes left";
    told_.lost += right ? 0 : 1;
  }

  // One error on all that had not ended: the rank, its call and the step.
  bool named(const StormRun& run, const StormPlan& plan) const {
    const std::string begin = join("rank ", plan.victim, " failed: killed ");
    std::string told;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string& error = run.errors[static_cast<std::size_t>(rank)];
      if (rank == plan.victim || error.empty()) continue;
      if (error.find(begin + run.thrown.substr(7)) != 0 ||
          error.find(" at step 2, ") == std::string::npos || (!told.empty() && told != error)) {
        ADD_FAILURE() << "rank " << rank << ": " << error;
        return false;
      }
      told = error;
    }
    return run.thrown.find("killed ") == 0 && !told.empty();
  }

  // Equal disks go on alike: once for each content.
  bool goes_on(SimulatedFiles& files) {
    const auto [it, is_new] = tried_.try_emplace(content_of(files, "run"), false);
    if (!is_new) return it->second;
    std::vector<std::string> refused;
    const auto newest = CheckpointFolder(files, "run").newest_good(refused);
    if (!newest || *newest < 1 || *newest > 2 || !refused.empty()) return false;
    Baton baton(ranks, StormPlan{.seed = tried_.size(), .switch_percent = 10});
    const StormRun run = steps(baton, files, static_cast<int>(*newest), kSteps);
    const std::vector<double> expected(quiet_.losses.begin() + *newest, quiet_.losses.end());
    it->second = run.thrown.empty() && run.losses == expected;
    found_[*newest]++;
    return it->second;
  }

  const Layout& layout = kLayouts[GetParam()];
  const int ranks = layout.mesh.ranks();
  StormRun quiet_;
  Baton calm_1_{ranks, StormPlan{.switch_percent = 10}};
  SimulatedFiles after_1_;
  std::vector<std::int64_t> calls_;  // of step 2 with its save, by rank
  std::map<std::string, bool> tried_;
  std::map<std::int64_t, int> found_;  // how many disks had this step as the newest
  FaultCount told_{.row = "R1"};
};

TEST_P(Kill, BeforeEveryCallOfAStepAndItsSave) {
  told_.what = "ranks killed before each call of a step and its save";
  const std::int64_t threads = threads_now();
  std::int64_t all = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    all += calls_[static_cast<std::size_t>(rank)];
    for (std::int64_t k = 1; k <= calls_[static_cast<std::size_t>(rank)]; ++k)
      kill({.seed = static_cast<std::uint64_t>(1000 * rank + k),
            .switch_percent = 10,
            .victim = rank,
            .at = k,
            .from_mark = true});
  }
  std::cout << "kills: " << told_.runs << " of " << all << " (" << ranks
            << " ranks x their calls), " << tried_.size() << " different disks gone on from\n";
  EXPECT_EQ(told_.runs, told_.injected);
  EXPECT_EQ(threads_now(), threads);
  EXPECT_GT(found_[1], 0);
  tell(told_);
}

TEST_P(Kill, AfterContributingAndWhenSomeHaveCompleted) {
  told_.what = "ranks killed after a call or their part of it, seeded";
  for (int i = 0; i < 40; ++i) {
    const RngKey key = key_from_seed(static_cast<std::uint64_t>(i)).child("kill");
    const int rank = i % ranks;
    const std::int64_t k = 1 + random_word(key, 0) % calls_[static_cast<std::size_t>(rank)];
    kill({.seed = static_cast<std::uint64_t>(i),
          .switch_percent = 30,
          .victim = rank,
          .at = k,
          .point = i % 16 < 8 ? CallPoint::kStarted : CallPoint::kDone,
          .from_mark = true});
  }
  EXPECT_EQ(told_.runs, told_.injected);
  tell(told_);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Kill, ::testing::Range(0, 3),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace trireme::test
