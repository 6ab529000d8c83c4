// Killed at any moment, a run goes on as if nothing had been; asked to end or to save, it does.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <random>

#include "tests/program/checkpoints/run_columns.h"

namespace trireme::testing {
namespace {

namespace fs = std::filesystem;

const Words kLayout = {"--parallel.data=2", "--zero.stage=2", "--train.evaluate_every=never"};

std::size_t steps_of(const std::string& folder) { return column(folder, "loss").size(); }

// Kills at seeded moments, a seeded number of looks after a seeded number of new lines.
void expect_the_quiet_run(const TinyRun& run, int kills, unsigned seed, const Words& flags) {
  const Words all = kLayout + Words{"--train.steps=150"};
  ASSERT_EQ(run_to_end(run.train(all)).code, 0);
  const std::string folder = run / "killed";
  const Words hunted =
      all + flags + Words{"--train.folder=" + folder, "--train.checkpoint_every=2", "--resume"};
  std::mt19937 random(seed);
  for (int kill = 0; kill < kills; ++kill) {
    StartedProgram program(run.train(hunted));
    const std::size_t lines = steps_of(folder) + random() % 4;
    int looks = static_cast<int>(random() % 12);
    ASSERT_TRUE(program.wait_until(
        [&] { return fs::exists(folder) && steps_of(folder) >= lines && looks-- <= 0; }));
    program.signal(SIGKILL);
    ASSERT_EQ(program.end().code, 128 + SIGKILL) << "it had ended: kill " << kill;
  }
  const ProgramEnd end = run_to_end(run.train(hunted));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(columns(folder), columns(run.folder()));
  EXPECT_EQ(run_to_end({program(), "checkpoint", "verify", folder}).code, 0);
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
}

TEST(Kill, TwentyTimesAndTheRunIsTheQuietOne) { expect_the_quiet_run(TinyRun(), 20, 20, {}); }

TEST(Kill, AlsoWhileCheckpointsAreWrittenInTheBackground) {
  expect_the_quiet_run(TinyRun(), 10, 21, {"--train.async_checkpoint=true"});
}

// Killed with a save in flight for certain: its folder is there, the disk holds it up.
TEST(Kill, InTheMiddleOfABackgroundWriteTheOlderOneIsFound) {
  const TinyRun run;
  const Words all = kLayout + Words{"--train.steps=1000000", "--train.checkpoint_every=2",
                                    "--train.async_checkpoint=true", "--train.log_every=100000"};
  const std::string checkpoints = run.folder() + "/checkpoints";
  int caught = 0;
  for (int tries = 0; tries < 40 && caught < 3; ++tries) {
    StartedProgram program(run.train(all + Words{"--resume"}));
    const std::size_t lines = steps_of(run.folder()) + 2;
    const auto saving = [&] {
      if (!fs::exists(checkpoints)) return false;
      for (const auto& entry : fs::directory_iterator(checkpoints))
        if (entry.path().filename().string().ends_with(".tmp-saving")) return true;
      return false;
    };
    ASSERT_TRUE(program.wait_until([&] {
      return steps_of(run.folder()) >= lines && fs::exists(checkpoints + "/latest") && saving();
    }));
    program.signal(SIGKILL);
    ASSERT_EQ(program.end().code, 128 + SIGKILL);
    caught += saving() ? 1 : 0;
    // Half of it is no checkpoint; the one before is whole.
    ASSERT_EQ(run_to_end({testing::program(), "checkpoint", "verify", run.folder()}).code, 0);
  }
  EXPECT_EQ(caught, 3);
  const std::size_t done = steps_of(run.folder());
  const ProgramEnd end = run_to_end(run.train(
      kLayout + Words{"--train.steps=" + std::to_string(done + 3), "--train.checkpoint_every=2",
                      "--train.async_checkpoint=true", "--resume"}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.err.find("resumed from "), std::string::npos) << end.err;
  for (const auto& entry : fs::directory_iterator(checkpoints))
    EXPECT_FALSE(entry.path().filename().string().ends_with(".tmp-saving")) << entry.path();
}

TEST(Kill, StatesOnDiskAreSavedWhileTrainingWaitsAndThatIsSaid) {
  const TinyRun run;
  const ProgramEnd end = run_to_end(run.train(
      {"--parallel.data=2", "--zero.stage=1", "--offload.optimizer=disk", "--train.steps=4",
       "--train.checkpoint_every=2", "--train.async_checkpoint=true"}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.err.find("training waits for every checkpoint all the same: offload.optimizer = "
                         "disk"),
            std::string::npos)
      << end.err;
  const ProgramEnd without = run_to_end(run.train({"--train.async_checkpoint=true"}));
  EXPECT_EQ(without.code, 2);
  EXPECT_NE(without.err.find("needs train.checkpoint_every"), std::string::npos) << without.err;
}

// Step after step is skipped while a save is being written: the run ends with its sentence, and
// what was saved, before or meanwhile, is whole.
TEST(Kill, ARunThatEndsByItselfEndsItsSaveInTheBackground) {
  const TinyRun run;
  const ProgramEnd end =
      run_to_end(run.train({"--precision.compute=f32", "--optimizer.name=sgd", "--optimizer.lr=1e6",
                            "--optimizer.clip=0", "--train.steps=100", "--train.max_skipped=1",
                            "--train.checkpoint_every=1", "--train.async_checkpoint=true"}));
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find("train.max_skipped = 1 ends the run"), std::string::npos) << end.err;
  const std::string checkpoints = run.folder() + "/checkpoints";
  for (const auto& entry : fs::directory_iterator(checkpoints))
    EXPECT_FALSE(entry.path().filename().string().ends_with(".tmp-saving")) << entry.path();
  const ProgramEnd verified = run_to_end({program(), "checkpoint", "verify", run.folder()});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
}

TEST(Kill, ASignalEndsWithACheckpointThatGoesOn) {
  const TinyRun run;
  const Words all = kLayout + Words{"--train.checkpoint_every=100000"};
  for (const int signal : {SIGTERM, SIGINT}) {
    fs::remove_all(run.folder());
    StartedProgram program(
        run.train(all + Words{"--train.steps=1000000", "--train.log_every=100000"}));
    ASSERT_TRUE(program.wait_until([&] { return steps_of(run.folder()) >= 2; }));
    program.signal(signal);
    const ProgramEnd end = program.end();
    ASSERT_EQ(end.code, 0) << end.err;
    const std::size_t done = steps_of(run.folder());
    const std::string name = std::to_string(done);
    EXPECT_NE(end.out.find("Stopped by a signal after step " + name + ". --resume goes on"),
              std::string::npos)
        << end.out;
    const ProgramEnd more =
        run_to_end(run.train(all + Words{"--train.steps=" + std::to_string(done + 2), "--resume"}));
    ASSERT_EQ(more.code, 0) << more.err;
    EXPECT_NE(more.err.find("resumed from "), std::string::npos) << more.err;
    EXPECT_EQ(steps_of(run.folder()), done + 2);
  }
}

// SIGUSR1 saves now, also in a run that makes no checkpoints by itself.
TEST(Kill, AnAskedCheckpointComesAfterTheStep) {
  const TinyRun run;
  StartedProgram program(
      run.train(kLayout + Words{"--train.steps=1000000", "--train.log_every=100000"}));
  ASSERT_TRUE(program.wait_until([&] { return steps_of(run.folder()) >= 2; }));
  EXPECT_FALSE(fs::exists(run.folder() + "/checkpoints"));
  program.signal(SIGUSR1);
  const std::string latest = run.folder() + "/checkpoints/latest";
  ASSERT_TRUE(program.wait_until([&] { return fs::exists(latest); }));
  const std::size_t at_least = steps_of(run.folder()) + 2;
  ASSERT_TRUE(program.wait_until([&] { return steps_of(run.folder()) >= at_least; }))
      << "it goes on";
  program.signal(SIGTERM);
  EXPECT_EQ(program.end().code, 0);
  EXPECT_EQ(run_to_end({testing::program(), "checkpoint", "verify", run.folder()}).code, 0);
  int saved = 0;
  for (const auto& entry : fs::directory_iterator(run.folder() + "/checkpoints"))
    saved += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(saved, 1) << "one was asked for";
}

}  // namespace
}  // namespace trireme::testing
