// The program as ranks of mpirun.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

using Words = std::vector<std::string>;

// Every rank process of the run is gone soon after its launcher.
void expect_no_orphan(const TinyRun& run) {
  StartedProgram clock({"sleep", "10"});
  EXPECT_TRUE(clock.wait_until([&] { return ranks_with(run.recipe()).empty(); }));
}

TEST(MpiRuns, GiveTheBitsOfThreadRanks) {
  const TinyRun run;
  const Words flags = {"--parallel.data=2", "--parallel.tensor=2"};
  ASSERT_EQ(run_to_end(run.train(flags)).code, 0);
  const Words losses = column(run.folder(), "loss"), norms = column(run.folder(), "grad_norm");
  EXPECT_EQ(losses.size(), 3u);
  const ProgramEnd end = run_to_end(run.train_mpi(4, flags));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(column(run.folder(), "loss"), losses);
  EXPECT_EQ(column(run.folder(), "grad_norm"), norms);
}

// States, gradients, weights and kept inputs on disk; replicas of shard groups.
TEST(MpiRuns, GiveTheBitsOfThreadRanksFromADisk) {
  const TinyRun run;
  const Words flags = {"--parallel.data=4",         "--zero.stage=3",
                       "--zero.shard_ranks=2",      "--recompute.mode=full",
                       "--offload.optimizer=disk",  "--offload.gradients=host",
                       "--offload.parameters=disk", "--offload.activations=disk",
                       "--train.evaluate_every=1"};
  ASSERT_EQ(run_to_end(run.train(flags)).code, 0);
  const Words losses = column(run.folder(), "loss"), norms = column(run.folder(), "grad_norm"),
              validation = column(run.folder(), "validation_loss");
  EXPECT_EQ(validation.size(), 3u);
  const ProgramEnd end = run_to_end(run.train_mpi(4, flags));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(column(run.folder(), "loss"), losses);
  EXPECT_EQ(column(run.folder(), "grad_norm"), norms);
  EXPECT_EQ(column(run.folder(), "validation_loss"), validation);
  EXPECT_FALSE(std::filesystem::exists(run.folder() + "/offload"));
}

TEST(MpiRuns, AnOffloadFolderThatIsMissingIsRefused) {
  const TinyRun run;
  const ProgramEnd end = run_to_end(
      run.train_mpi(2, {"--parallel.data=2", "--zero.stage=1", "--offload.optimizer=disk",
                        "--offload.folder=" + (run / "nowhere")}));
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.err.find("nowhere does not exist; make it first"), std::string::npos) << end.err;
  expect_no_orphan(run);
}

TEST(MpiRuns, RanksMustMatchTheMesh) {
  const TinyRun run;
  const ProgramEnd end = run_to_end(run.train_mpi(3, {"--parallel.data=2"}));
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.err.find("parallel.data x parallel.pipeline x parallel.tensor = 2 x 1 x 1 = 2 "
                         "ranks, but the launcher started 3"),
            std::string::npos)
      << end.err;
  expect_no_orphan(run);
}

TEST(MpiRuns, ContradictingLaunchIsRefused) {
  const TinyRun run;
  const ProgramEnd end =
      run_to_end(run.train_mpi(2, {"--parallel.data=2", "--parallel.launch=threads"}));
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.err.find("parallel.launch"), std::string::npos) << end.err;
}

TEST(MpiRuns, KilledRankEndsTheJob) {
  const TinyRun run;
  StartedProgram job(
      run.train_mpi(2, {"--parallel.data=2", "--train.steps=1000000", "--train.log_every=100000"}));
  ASSERT_TRUE(job.wait_until([&] { return column(run.folder(), "loss").size() >= 2; }));
  const std::vector<pid_t> ranks = ranks_with(run.recipe());
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGKILL);
  const ProgramEnd end = job.end();
  EXPECT_NE(end.code, 0);
  EXPECT_NE(end.code, -1) << "it hung";
  expect_no_orphan(run);
}

TEST(MpiRuns, KilledLauncherLeavesNoOrphan) {
  const TinyRun run;
  StartedProgram job(
      run.train_mpi(2, {"--parallel.data=2", "--train.steps=1000000", "--train.log_every=100000"}));
  ASSERT_TRUE(job.wait_until([&] { return column(run.folder(), "loss").size() >= 2; }));
  job.signal(SIGKILL);
  EXPECT_EQ(job.end().code, 128 + SIGKILL);
  expect_no_orphan(run);
}

// A batch system signals ranks; one of them is enough.
TEST(MpiRuns, SignalToOneRankEndsAllAfterTheStep) {
  const TinyRun run;
  StartedProgram job(run.train_mpi(
      2, {"--parallel.pipeline=2", "--train.steps=1000000", "--train.log_every=100000"}));
  ASSERT_TRUE(job.wait_until([&] { return column(run.folder(), "loss").size() >= 2; }));
  const std::vector<pid_t> ranks = ranks_with(run.recipe());
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGTERM);
  const ProgramEnd end = job.end();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("Stopped by a signal after step "), std::string::npos) << end.out;
  EXPECT_NE(text_of_file(run.folder() + "/report.json"), "");
  expect_no_orphan(run);
}

}  // namespace
}  // namespace trireme::testing
