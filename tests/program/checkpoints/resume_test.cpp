// Stopped and gone on with is the quiet run; and what a folder with a run in it needs.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "tests/program/checkpoints/run_columns.h"

namespace trireme::testing {
namespace {

namespace fs = std::filesystem;

void expect_done(const ProgramEnd& end) { ASSERT_EQ(end.code, 0) << end.err; }

const Words kSteady = {"--optimizer.schedule=constant", "--train.checkpoint_every=2",
                       "--train.evaluate_every=never"};

// 6 steps at once without checkpoints, and 3 + 3: the same bytes.
void expect_three_and_three(const Words& flags) {
  const TinyRun run;
  const Words all = kSteady + flags;
  const std::string folder = run / "halves", in = "--train.folder=" + folder;
  expect_done(
      run_to_end(run.train(all + Words{"--train.steps=6", "--train.checkpoint_every=never"})));
  expect_done(run_to_end(run.train(all + Words{"--train.steps=3", in})));
  EXPECT_EQ(column(folder, "loss").size(), 3u);
  expect_done(run_to_end(run.train(all + Words{"--train.steps=6", in, "--resume"})));
  EXPECT_EQ(columns(folder), columns(run.folder())) << nlohmann::json(flags).dump();
}

TEST(Resume, ThreeAndThreeAreSix) {
  expect_three_and_three({});
  expect_three_and_three({"--precision.compute=f32", "--parallel.data=2", "--zero.stage=1"});
  expect_three_and_three({"--precision.compute=bf16", "--parallel.data=2", "--zero.stage=2",
                          "--precision.gradients=compute"});
  expect_three_and_three({"--precision.compute=f16", "--precision.loss_scale_window=2",
                          "--parallel.data=2", "--zero.stage=3", "--offload.optimizer=disk",
                          "--offload.parameters=host"});
  expect_three_and_three(
      {"--parallel.data=2", "--parallel.tensor=2", "--parallel.pipeline=2", "--data.skip=4"});
}

TEST(Resume, UnderAnotherLayoutTheLossesGoOn) {
  const TinyRun run;
  const Words all = kSteady + Words{"--train.steps=8"};
  expect_done(run_to_end(run.train(all)));
  const std::vector<Words> second = {
      {"--parallel.pipeline=2"},
      {"--parallel.data=4", "--zero.stage=3"},
      {"--parallel.tensor=4"},
      {"--parallel.data=2", "--zero.stage=3", "--offload.optimizer=host"}};
  const std::string folder = run / "moved";
  for (const Words& layout : second) {
    fs::remove_all(folder);
    const Words in = kSteady + Words{"--train.folder=" + folder};
    expect_done(run_to_end(
        run.train(in + Words{"--train.steps=3", "--parallel.data=2", "--parallel.tensor=2"})));
    expect_done(run_to_end(run.train(in + layout + Words{"--train.steps=8", "--resume"})));
    const Words losses = column(folder, "loss"), quiet = column(run.folder(), "loss");
    ASSERT_EQ(losses.size(), 8u);
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_NEAR(std::stod(losses[i]), std::stod(quiet[i]), 1e-12 * std::stod(quiet[i]))
          << layout[0];
  }
}

TEST(Resume, TotalsGoOnAndTheReportSaysSo) {
  const TinyRun run;
  expect_done(run_to_end(run.train(kSteady + Words{"--train.steps=3", "--parallel.data=2"})));
  const ProgramEnd end =
      run_to_end(run.train(kSteady + Words{"--train.steps=5", "--parallel.data=2", "--resume"}));
  expect_done(end);
  expect_says(end.err, "resumed from " + run.folder() +
                           "/checkpoints/step-000003, saved under data "
                           "2 x pipeline 1 x tensor 1, ZeRO 0, f64 by threads");
  expect_says(end.out, "5 steps, 640 tokens; of them 2 steps, 256 tokens in ");
  EXPECT_EQ(end.out.find("differs from its formula"), std::string::npos) << end.out;
  const auto report = nlohmann::json::parse(text_of_file(run.folder() + "/report.json"));
  EXPECT_EQ(report["summary"]["steps"], 5);
  EXPECT_EQ(report["summary"]["earlier_steps"], 3);
  EXPECT_EQ(report["summary"]["tokens"], 640);
  const Words log = lines_of(text_of_file(run.folder() + "/log.txt"));
  int starts = 0, events = 0;
  for (const std::string& line : log) starts += line.starts_with("model: ") ? 1 : 0;
  EXPECT_EQ(starts, 2) << "log.txt goes on";
  for (const auto& entry : fs::directory_iterator(run.folder()))
    events += entry.path().filename().string().starts_with("events.out.tfevents.") ? 1 : 0;
  EXPECT_EQ(events, 2);
}

TEST(Resume, ARunThatIsCompleteIsLeftAlone) {
  const TinyRun run;
  expect_done(run_to_end(run.train(kSteady)));
  const std::string report = text_of_file(run.folder() + "/report.json");
  const ProgramEnd end = run_to_end(run.train(kSteady + Words{"--resume"}));
  expect_done(end);
  expect_says(end.out, "has its 3 steps already; --train.steps=6 would go on with it");
  const ProgramEnd fewer = run_to_end(run.train(kSteady + Words{"--resume", "--train.steps=2"}));
  expect_done(fewer);
  expect_says(fewer.out, "has 3 steps, more than train.steps = 2; --train.steps=6 would go on");
  EXPECT_EQ(text_of_file(run.folder() + "/report.json"), report);
}

TEST(Resume, AFolderWithARunNeedsAWord) {
  const TinyRun run;
  expect_done(run_to_end(run.train(kSteady)));
  const std::string metrics = text_of_file(run.folder() + "/metrics.jsonl");
  write_file(run.folder() + "/notes.txt", "mine");
  const ProgramEnd end = run_to_end(run.train(kSteady + Words{"--train.restart=false"}));
  EXPECT_EQ(end.code, 2);
  expect_says(end.err,
              "holds a run of 3 steps and 2 checkpoints; use --resume to go on with it, "
              "--restart to remove it and begin anew, or another train.folder");
  EXPECT_EQ(text_of_file(run.folder() + "/metrics.jsonl"), metrics);
  const ProgramEnd both = run_to_end(run.train({"--resume", "--restart"}));
  EXPECT_EQ(both.code, 2);
  expect_says(both.err, "train.resume and train.restart are both true");
  const ProgramEnd restarted = run_to_end(run.train({"--restart", "--train.steps=1"}));
  expect_done(restarted);
  expect_says(restarted.err, "train.restart: removed 3 steps and 2 checkpoints of an earlier run");
  EXPECT_EQ(column(run.folder(), "loss").size(), 1u);
  EXPECT_FALSE(fs::exists(run.folder() + "/checkpoints"));
  EXPECT_EQ(text_of_file(run.folder() + "/notes.txt"), "mine");
}

// One command serves a loop of restarts.
TEST(Resume, WithoutACheckpointItBeginsOrSaysWhyNot) {
  const TinyRun run;
  const ProgramEnd first = run_to_end(run.train({"--resume"}));
  expect_done(first);
  expect_says(first.err, "yet; it begins from the start");
  const ProgramEnd second = run_to_end(run.train({"--resume"}));
  EXPECT_EQ(second.code, 1);
  expect_says(second.err, "has 3 steps but no checkpoint to go on from");
  EXPECT_EQ(column(run.folder(), "loss").size(), 3u);
  // A run that was to make its first checkpoint later than it was ended.
  const Words later = {"--train.checkpoint_every=3"};
  expect_done(run_to_end(run.train(later)));
  const Words quiet = column(run.folder(), "loss");
  fs::remove_all(run.folder() + "/checkpoints");
  const ProgramEnd again = run_to_end(run.train(later + Words{"--resume"}));
  expect_done(again);
  expect_says(again.err, "ended before its first checkpoint; it begins from the start");
  EXPECT_EQ(column(run.folder(), "loss"), quiet);
  // One whose first checkpoint was still being written a step after it was due.
  const Words beside = {"--train.checkpoint_every=2", "--train.async_checkpoint=true"};
  expect_done(run_to_end(run.train(beside + Words{"--restart"})));
  fs::remove_all(run.folder() + "/checkpoints");
  expect_done(run_to_end(run.train(beside + Words{"--resume"})));
  EXPECT_EQ(column(run.folder(), "loss"), quiet);
}

// R10, R14: damaged ones are named and passed over; what a killed save left is ignored.
TEST(Resume, ADamagedCheckpointIsNeverUsed) {
  const TinyRun run;
  const Words all = kSteady + Words{"--train.steps=6"};
  expect_done(run_to_end(run.train(all)));
  const auto quiet = columns(run.folder());
  const std::string newest = run.folder() + "/checkpoints/step-000006",
                    older = run.folder() + "/checkpoints/step-000004";
  const auto damage = [](const std::string& folder) {
    std::string bytes = text_of_file(folder + "/ranks-0.h5");
    bytes[bytes.size() / 2] ^= 1;
    write_file(folder + "/ranks-0.h5", bytes);
  };
  damage(newest);
  fs::create_directory(run.folder() + "/checkpoints/step-000009.tmp-saving");
  const ProgramEnd end = run_to_end(run.train(all + Words{"--resume"}));
  expect_done(end);
  expect_says(end.err, "passed over: checkpoint " + newest + "/ranks-0.h5 is damaged");
  expect_says(end.err, "resumed from " + older);
  EXPECT_EQ(columns(run.folder()), quiet);
  EXPECT_FALSE(fs::exists(run.folder() + "/checkpoints/step-000009.tmp-saving"));
  EXPECT_EQ(run_to_end({program(), "checkpoint", "verify", run.folder()}).code, 0);

  damage(newest);
  fs::remove(older + "/ranks-0.h5");
  const ProgramEnd none = run_to_end(run.train(all + Words{"--resume"}));
  EXPECT_EQ(none.code, 1);
  expect_says(none.err, "train.resume: no checkpoint is good:");
  for (const std::string& folder : {newest, older}) expect_says(none.err, folder + "/ranks-0.h5");
  EXPECT_EQ(columns(run.folder()), quiet) << "nothing was touched";
  EXPECT_EQ(run_to_end(run.train(all + Words{"--resume"})).code, 3) << "a loop of restarts";
}

// What a glance at the start does not see, loading does, on whichever rank: an older one is taken,
// by all. Without one nothing of the run is touched.
TEST(Resume, DamageFoundWhileLoadingTakesAnOlderCheckpoint) {
  const TinyRun run;
  for (const Words& layout : {Words{"--parallel.data=1"}, Words{"--parallel.data=2"},
                              Words{"--parallel.tensor=2", "--parallel.pipeline=2"}}) {
    const Words all = kSteady + layout;
    expect_done(run_to_end(run.train(all + Words{"--train.steps=8", "--restart"})));
    const auto quiet = columns(run.folder());
    expect_done(run_to_end(run.train(all + Words{"--train.steps=6", "--restart"})));
    const std::string checkpoints = run.folder() + "/checkpoints/";
    const auto damage = [&](const std::string& step, std::size_t place) {
      std::string bytes = text_of_file(checkpoints + step + "/ranks-0.h5");
      bytes[bytes.size() * place / 4] ^= 1;
      write_file(checkpoints + step + "/ranks-0.h5", bytes);
    };
    damage("step-000006", 3);
    const ProgramEnd end = run_to_end(run.train(all + Words{"--train.steps=8", "--resume"}));
    expect_done(end);
    expect_says(end.err, "passed over: checkpoint " + checkpoints + "step-000006/ranks-0.h5");
    expect_says(end.err, "resumed from " + checkpoints + "step-000004");
    EXPECT_EQ(end.err.find("resumed from " + checkpoints + "step-000006"), std::string::npos);
    EXPECT_EQ(columns(run.folder()), quiet);

    damage("step-000006", 2);
    damage("step-000008", 2);
    const ProgramEnd none = run_to_end(run.train(all + Words{"--train.steps=10", "--resume"}));
    EXPECT_EQ(none.code, 1);
    expect_says(none.err, "train.resume: no checkpoint is good:");
    for (const char* step : {"step-000006", "step-000008"}) expect_says(none.err, step);
    EXPECT_EQ(columns(run.folder()), quiet) << "nothing was touched";
  }
}

// Bytes that are no UTF-8 could be in no checkpoint: told before anything is touched.
TEST(Resume, AFolderWithoutUtf8IsRefusedAtTheStart) {
  const TinyRun run;
  const std::string folder = run / "caf\xe9";
  const ProgramEnd end = run_to_end(run.train({"--train.steps=1", "--train.folder=" + folder}));
  EXPECT_EQ(end.code, 2);
  expect_says(end.err, "train.folder is not UTF-8");
  EXPECT_FALSE(fs::exists(folder));
  expect_done(run_to_end(run.train({"--train.steps=1", "--train.checkpoint_every=1",
                                    "--train.folder=" + (run / "caf\xc3\xa9")})));
}

TEST(Resume, KeysThatChangeTheNumbersAreRefused) {
  const TinyRun run;
  expect_done(run_to_end(run.train(kSteady)));
  const Words longer = kSteady + Words{"--resume", "--train.steps=4"};
  const ProgramEnd end =
      run_to_end(run.train(longer + Words{"--batch.global=4", "--model.layers=3"}));
  EXPECT_EQ(end.code, 2);
  expect_says(end.err, "model.layers = 3, the checkpoint has 4");
  expect_says(end.err, "batch.global = 4, the checkpoint has 8");
  write_file(run / "other.txt", text_of_file(run.text()) + "more");
  const ProgramEnd other =
      run_to_end(run.train(longer + Words{"--data.text=" + (run / "other.txt")}));
  EXPECT_EQ(other.code, 2);
  expect_says(other.err, "other.txt has other tokens than the checkpoint's data");
  write_file(run / "moved.txt", text_of_file(run.text()));
  const ProgramEnd moved = run_to_end(
      run.train(longer + Words{"--data.text=" + (run / "moved.txt"), "--optimizer.lr=1e-3"}));
  expect_done(moved);
  expect_says(moved.err, "changed: optimizer.lr = 0.001, the checkpoint has 3e-4");
}

TEST(Resume, TheNewestAndTheBestAreKept) {
  const TinyRun run;
  // Validation is worst when the learning rate has ruined the weights: the first is the best.
  expect_done(run_to_end(run.train({"--train.steps=6", "--train.checkpoint_every=1",
                                    "--train.keep=2", "--train.evaluate_every=1",
                                    "--optimizer.schedule=constant", "--optimizer.lr=1"})));
  const Words validation = column(run.folder(), "validation_loss");
  ASSERT_EQ(validation.size(), 6u);
  std::size_t best = 0;
  for (std::size_t i = 1; i < 6; ++i)
    if (std::stod(validation[i]) < std::stod(validation[best])) best = i;
  ASSERT_LT(best, 4u);
  Words names;
  for (const auto& entry : fs::directory_iterator(run.folder() + "/checkpoints"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (Words{"latest", join("step-00000", best + 1), "step-000005", "step-000006"}));
  EXPECT_EQ(text_of_file(run.folder() + "/checkpoints/latest"), "step-000006\n");
}

// R14: the second run into a folder is refused while the first lives, and not after.
TEST(Resume, TwoRunsInOneFolderAreRefused) {
  const TinyRun run;
  const Words endless = kSteady + Words{"--train.steps=1000000", "--train.checkpoint_every=1000",
                                        "--train.log_every=100000"};
  StartedProgram first(run.train(endless));
  ASSERT_TRUE(first.wait_until([&] { return column(run.folder(), "loss").size() >= 2; }));
  const ProgramEnd second = run_to_end(run.train(endless + Words{"--resume"}));
  EXPECT_EQ(second.code, 1);
  expect_says(second.err, join("process ", first.pid(), " of this machine trains into it now"));
  first.signal(SIGKILL);
  first.end();
  expect_done(run_to_end(run.train(kSteady + Words{"--train.steps=3", "--resume"})));
}

// R20, R22: a save that cannot be is a sentence, what was trained is not lost in silence, and the
// same failure twice in a row has an exit code of its own.
TEST(Resume, AFailureThatComesAgainEndsALoopOfRestarts) {
  const TinyRun run;
  const Words all = kSteady + Words{"--resume", "--train.steps=4"};
  const ProgramOptions small{.file_limit = 100000};  // bytes: less than a checkpoint
  const ProgramEnd first = run_to_end(run.train(all), small);
  EXPECT_EQ(first.code, 1);
  expect_says(first.err, "step-000002");
  expect_says(first.err, "File too large");
  EXPECT_EQ(column(run.folder(), "loss").size(), 2u);
  const ProgramEnd second = run_to_end(run.train(all), small);
  EXPECT_EQ(second.code, 3) << second.err;
  expect_says(second.err, "This is failure 2 in a row at step 2 for the same reason");
  for (const auto& entry : fs::directory_iterator(run.folder() + "/checkpoints"))
    ADD_FAILURE() << entry.path() << " was left";
  expect_done(run_to_end(run.train(all)));
  EXPECT_FALSE(fs::exists(run.folder() + "/last_failure"));
  EXPECT_EQ(column(run.folder(), "loss").size(), 4u);
}

}  // namespace
}  // namespace trireme::testing
