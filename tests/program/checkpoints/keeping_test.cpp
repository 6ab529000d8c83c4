// Which checkpoints stay, what is told of the room they take, and what a spike of the gradient
// leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/error.h"
#include "tests/program/checkpoints/run_columns.h"

namespace trireme::testing {
namespace {

namespace fs = std::filesystem;

const Words kConstantRate = {"--optimizer.schedule=constant", "--train.evaluate_every=never"};

Words names_in(const std::string& run_folder) {
  Words names;
  for (const auto& entry : fs::directory_iterator(run_folder + "/checkpoints"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Keeping, MultiplesStayAndWhatGoesIsTold) {
  const TinyRun run;
  const Words all = kConstantRate + Words{"--train.steps=7", "--train.checkpoint_every=1",
                                          "--train.keep=1", "--train.keep_every=3"};
  for (const char* async : {"false", "true"}) {
    const ProgramEnd end =
        run_to_end(run.train(all + Words{std::string("--train.async_checkpoint=") + async}));
    ASSERT_EQ(end.code, 0) << end.err;
    EXPECT_EQ(names_in(run.folder()),
              (Words{"latest", "step-000003", "step-000006", "step-000007"}));
    for (const char* gone : {"1", "2", "4", "5"})
      expect_says(end.err, "removed: " + run.folder() + "/checkpoints/step-00000" + gone + ", ");
    EXPECT_EQ(end.err.find("removed: " + run.folder() + "/checkpoints/step-000003"),
              std::string::npos);
  }
  const ProgramEnd odd =
      run_to_end(run.train({"--train.checkpoint_every=4", "--train.keep_every=6"}));
  EXPECT_EQ(odd.code, 2);
  expect_says(odd.err,
              "train.keep_every = 6 is not a multiple of train.checkpoint_every = 4; use 4 "
              "or 8, or never");
  const ProgramEnd none = run_to_end(run.train({"--train.keep_every=6"}));
  EXPECT_EQ(none.code, 2);
  expect_says(none.err, "train.keep_every = 6 is about checkpoints");
}

// Before the first step; a disk that has not even that room ends the run there
// (full_disk_test.cpp).
TEST(Keeping, RoomIsToldBeforeTheFirstStep) {
  const TinyRun run;
  const ProgramEnd end = run_to_end(run.train({"--train.checkpoint_every=3"}));
  ASSERT_EQ(end.code, 0) << end.err;
  const std::size_t told = end.err.find("checkpoints: "), step = end.err.find("step 1/");
  ASSERT_NE(told, std::string::npos) << end.err;
  EXPECT_LT(told, step) << end.err;
  expect_says(end.err.substr(told, end.err.find('\n', told) - told), " free");
  const ProgramEnd never = run_to_end(run.train());
  EXPECT_EQ(never.err.find("checkpoints: "), std::string::npos) << never.err;
}

// A step (from 1) whose gradient is larger than those of the step before and, where there is one,
// two before: a limit just below it lets these pass.
std::size_t spike_in(const Words& norms) {
  const auto norm = [&](std::size_t step) { return std::stod(norms[step - 1]); };
  for (std::size_t step = 3; step <= norms.size(); ++step)
    if (norm(step) * 0.99 > norm(step - 1)) return step;
  return 0;
}

// The spike's update is not made: what lies on the disk is the state before it, bit by bit, however
// the run saves; the same again ends a loop of restarts; without the limit it goes on as the quiet
// run, without the batch on another way.
TEST(Keeping, ASpikeEndsTheRunBeforeItsUpdate) {
  const Words wild =
      kConstantRate + Words{"--optimizer.lr=0.5", "--train.steps=8", "--train.keep=20"};
  const std::vector<Words> layouts = {
      {"--train.checkpoint_every=1", "--parallel.data=2", "--zero.stage=2"},
      {"--train.checkpoint_every=2", "--train.async_checkpoint=true", "--parallel.tensor=2"},
      {"--train.checkpoint_every=100", "--parallel.data=2", "--zero.stage=3",
       "--offload.optimizer=disk", "--precision.compute=f16", "--precision.loss_scale_window=2"},
      {"--train.checkpoint_every=3", "--train.verify_every=1"}};
  for (const Words& layout : layouts) {
    SCOPED_TRACE(layout[0]);
    const TinyRun run;
    const std::string quiet = run / "quiet";
    ASSERT_EQ(run_to_end(run.train(wild + layout +
                                   Words{"--train.folder=" + quiet, "--train.checkpoint_every=1",
                                         "--train.async_checkpoint=false"}))
                  .code,
              0);
    const Words norms = column(quiet, "grad_norm");
    const std::size_t spike = spike_in(norms);
    ASSERT_GT(spike, 2u) << "no norm rises";
    const std::string before = join("step-00000", spike - 1);
    // The run until the step before, without a limit, then on with one.
    const Words first = wild + layout + Words{join("--train.steps=", spike - 2)};
    ASSERT_EQ(run_to_end(run.train(first)).code, 0);
    const Words limit =
        wild + layout +
        Words{"--resume", join("--train.stop_on_norm=", std::stod(norms[spike - 1]) * 0.995)};
    const ProgramEnd end = run_to_end(run.train(limit));
    EXPECT_EQ(end.code, 1) << end.err;
    expect_says(end.err, join("step ", spike, ": the gradient's norm is "));
    expect_says(end.err, join("The newest checkpoint is of step ", spike - 1,
                              ". --data.skip=", spike, " leaves its batch out"));
    EXPECT_EQ(column(run.folder(), "loss").size(), spike - 1);
    const ProgramEnd diff =
        run_to_end({program(), "checkpoint", "diff", run.folder() + "/checkpoints/" + before,
                    quiet + "/checkpoints/" + before});
    EXPECT_EQ(diff.code, 0) << diff.out << diff.err;
    const ProgramEnd again = run_to_end(run.train(limit));
    EXPECT_EQ(again.code, 3) << again.err;
    const Words on = wild + layout + Words{"--resume"};
    const std::string copy = run / "copy";
    fs::copy(run.folder(), copy, fs::copy_options::recursive);
    const ProgramEnd skips =
        run_to_end(run.train(on + Words{join("--data.skip=", spike), "--train.folder=" + copy}));
    EXPECT_EQ(skips.code, 0) << skips.err;
    EXPECT_NE(column(copy, "loss")[spike - 1], column(quiet, "loss")[spike - 1]);
    const ProgramEnd free = run_to_end(run.train(on));
    EXPECT_EQ(free.code, 0) << free.err;
    EXPECT_EQ(columns(run.folder()), columns(quiet));
  }
}

TEST(Keeping, ASpikeOfTheFirstStepLeavesNothing) {
  const TinyRun run;
  const Words all = {"--train.checkpoint_every=1", "--train.stop_on_norm=1e-9"};
  const ProgramEnd end = run_to_end(run.train(all));
  EXPECT_EQ(end.code, 1);
  expect_says(end.err, "step 1: the gradient's norm is ");
  EXPECT_FALSE(fs::exists(run.folder() + "/checkpoints")) << "there is nothing to save";
  const ProgramEnd never = run_to_end(run.train({"--train.stop_on_norm=0"}));
  EXPECT_EQ(never.code, 2);
}

}  // namespace
}  // namespace trireme::testing
