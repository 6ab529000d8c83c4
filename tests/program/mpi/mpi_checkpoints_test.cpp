// Checkpoints of rank processes: each writes a file of its own.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/program/checkpoints/run_columns.h"

namespace trireme::testing {
namespace {

namespace fs = std::filesystem;

std::size_t steps_of(const std::string& folder) { return column(folder, "loss").size(); }

void expect_no_rank(const TinyRun& run) {
  StartedProgram clock({"sleep", "10"});
  ASSERT_TRUE(clock.wait_until([&] { return ranks_with(run.recipe()).empty(); }));
}

const Words kAll = {"--optimizer.schedule=constant", "--train.evaluate_every=never",
                    "--train.checkpoint_every=2"};

TEST(MpiCheckpoints, ThreeAndThreeAreSixAcrossLaunches) {
  const TinyRun run;
  const Words layout = {"--parallel.data=2", "--parallel.tensor=2", "--zero.stage=2"};
  ASSERT_EQ(run_to_end(run.train(kAll + layout + Words{"--train.steps=6"})).code, 0);
  const std::string folder = run / "halves";
  const Words in = kAll + layout + Words{"--train.folder=" + folder};
  ASSERT_EQ(run_to_end(run.train_mpi(4, in + Words{"--train.steps=3"})).code, 0);
  for (const char* name : {"ranks-0.h5", "ranks-1.h5", "ranks-2.h5", "ranks-3.h5"})
    EXPECT_TRUE(fs::exists(folder + "/checkpoints/step-000003/" + name)) << name;
  const ProgramEnd end = run_to_end(run.train_mpi(4, in + Words{"--train.steps=5", "--resume"}));
  ASSERT_EQ(end.code, 0) << end.err;
  ASSERT_EQ(run_to_end(run.train(in + Words{"--train.steps=6", "--resume"})).code, 0);
  EXPECT_EQ(columns(folder), columns(run.folder()));
  // The same content, whatever the files.
  EXPECT_EQ(run_to_end({program(), "checkpoint", "diff", folder, run.folder()}).code, 0);
}

TEST(MpiCheckpoints, KilledJobsGoOn) {
  const TinyRun run;
  const Words layout = {"--parallel.data=2", "--zero.stage=1", "--train.steps=20"};
  ASSERT_EQ(run_to_end(run.train(kAll + layout)).code, 0);
  const std::string folder = run / "killed";
  const Words hunted = kAll + layout + Words{"--train.folder=" + folder, "--resume"};
  std::mt19937 random(4);
  for (int kills = 0; kills < 4; ++kills) {
    StartedProgram job(run.train_mpi(2, hunted));
    const std::size_t lines = steps_of(folder) + random() % 3;
    int looks = static_cast<int>(random() % 10);
    ASSERT_TRUE(job.wait_until([&] {
      return ranks_with(run.recipe()).size() == 2 && steps_of(folder) >= lines && looks-- <= 0;
    }));
    const std::vector<pid_t> ranks = ranks_with(run.recipe());
    ASSERT_EQ(ranks.size(), 2u);
    kill(ranks[random() % 2], SIGKILL);
    EXPECT_NE(job.end().code, 0);
    expect_no_rank(run);
  }
  const ProgramEnd end = run_to_end(run.train_mpi(2, hunted));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(columns(folder), columns(run.folder()));
}

// Four processes, each with a thread that writes: the same files as when training waits.
TEST(MpiCheckpoints, InTheBackgroundTheyAreTheSame) {
  const TinyRun run;
  const Words all = kAll + Words{"--parallel.data=2", "--parallel.tensor=2", "--zero.stage=2",
                                 "--train.steps=7", "--train.keep=10"};
  const ProgramEnd waited = run_to_end(run.train_mpi(4, all));
  ASSERT_EQ(waited.code, 0) << waited.err;
  const std::string flown = run / "flown";
  const ProgramEnd end = run_to_end(
      run.train_mpi(4, all + Words{"--train.async_checkpoint=true", "--train.folder=" + flown}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(columns(flown), columns(run.folder()));
  int files = 0;
  for (const char* step : {"2", "4", "6", "7"})
    for (const char* rank : {"0", "1", "2", "3"}) {
      const std::string name =
          std::string("/checkpoints/step-00000") + step + "/ranks-" + rank + ".h5";
      EXPECT_EQ(text_of_file(flown + name), text_of_file(run.folder() + name)) << name;
      files += text_of_file(flown + name).empty() ? 0 : 1;
    }
  EXPECT_EQ(files, 16);
  EXPECT_EQ(run_to_end({program(), "checkpoint", "verify", flown}).code, 0);
}

TEST(MpiCheckpoints, OneRankIsAskedAndAllSave) {
  const TinyRun run;
  StartedProgram job(run.train_mpi(
      2, {"--parallel.pipeline=2", "--train.steps=1000000", "--train.log_every=100000"}));
  ASSERT_TRUE(job.wait_until([&] { return steps_of(run.folder()) >= 2; }));
  const std::vector<pid_t> ranks = ranks_with(run.recipe());
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGUSR1);
  ASSERT_TRUE(job.wait_until([&] { return fs::exists(run.folder() + "/checkpoints/latest"); }));
  kill(ranks[0], SIGTERM);
  EXPECT_EQ(job.end().code, 0);
  EXPECT_EQ(run_to_end({program(), "checkpoint", "verify", run.folder()}).code, 0);
}

// The newest one is damaged in a file that one process alone reads: all take the older one.
TEST(MpiCheckpoints, ADamagedOneIsNamedAndAllTakeTheOlder) {
  const TinyRun run;
  const Words two = kAll + Words{"--parallel.data=2", "--zero.stage=3"};
  ASSERT_EQ(run_to_end(run.train(two + Words{"--train.steps=6"})).code, 0);
  const std::string folder = run / "damaged";
  const Words in = two + Words{"--train.folder=" + folder};
  ASSERT_EQ(run_to_end(run.train_mpi(2, in + Words{"--train.steps=4"})).code, 0);
  const std::string file = folder + "/checkpoints/step-000004/ranks-1.h5";
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(-100, std::ios::end);
    const char old = static_cast<char>(bytes.get());
    bytes.seekp(-100, std::ios::end);
    bytes.put(static_cast<char>(old ^ 1));
  }
  const ProgramEnd end = run_to_end(run.train_mpi(2, in + Words{"--train.steps=6", "--resume"}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_NE((end.out + end.err).find("ranks-1.h5"), std::string::npos) << end.out << end.err;
  EXPECT_NE(end.err.find("step-000002"), std::string::npos) << end.err;
  EXPECT_EQ(columns(folder), columns(run.folder()));
  expect_no_rank(run);
}

TEST(MpiCheckpoints, RefusalsEndTheJobWithTheirCode) {
  const TinyRun run;
  const Words two = kAll + Words{"--parallel.data=2", "--train.steps=2"};
  ASSERT_EQ(run_to_end(run.train_mpi(2, two)).code, 0);
  const ProgramEnd word = run_to_end(run.train_mpi(2, two + Words{"--train.restart=false"}));
  EXPECT_EQ(word.code, 2);
  EXPECT_NE(word.err.find("use --resume to go on with it"), std::string::npos) << word.err;
  const ProgramEnd complete = run_to_end(run.train_mpi(2, two + Words{"--resume"}));
  EXPECT_EQ(complete.code, 0) << complete.err;
  EXPECT_NE(complete.out.find("has its 2 steps already"), std::string::npos) << complete.out;
  expect_no_rank(run);
}

// The first tensors that one rank asks for behind the first checkpoint, and later ones: its error
// is a sentence, the job ends, and what is on the disk goes on as if nothing had been.
TEST(MpiCheckpoints, ARankWithoutMemoryIsNamedAndTheRunGoesOn) {
  const TinyRun run;
  const Words all = kAll + Words{"--parallel.data=2", "--zero.stage=3", "--train.steps=4"};
  ASSERT_EQ(run_to_end(run.train(all)).code, 0);
  const std::string folder = run / "scarce";
  const Words in = all + Words{"--train.folder=" + folder, "--resume"};
  for (const char* request : {"1", "40"}) {
    const ProgramEnd end = run_to_end(
        run.train_mpi(2, in), {.environment = {{"LD_PRELOAD", TRIREME_SCARCE_MEMORY},
                                               {"SCARCE_RANK", "1"},
                                               {"SCARCE_BEHIND", folder + "/checkpoints/latest"},
                                               {"SCARCE_AT", request}}});
    EXPECT_EQ(end.code, 1) << end.err;
    EXPECT_NE(end.err.find("[rank 1: data 1, pipeline 0, tensor 0] "), std::string::npos)
        << end.err;
    EXPECT_NE(end.err.find("memory"), std::string::npos) << end.err;
    EXPECT_EQ(end.err.find("signal"), std::string::npos) << end.err;
    expect_no_rank(run);
  }
  EXPECT_EQ(run_to_end({program(), "checkpoint", "verify", folder}).code, 0);
  const ProgramEnd end = run_to_end(run.train_mpi(2, in));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(columns(folder), columns(run.folder()));
}

}  // namespace
}  // namespace trireme::testing
