// Runs side by side: reading their folders, the table, and whether losses agree.
#include "recipes/report/run_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

StepRecord step(std::int64_t number, double loss) {
  return {.step = number, .loss = loss, .tokens = 100, .seconds = number == 1 ? 9.0 : 0.5};
}

RunReport report_of(int ranks) {
  RunReport report;
  for (int rank = 0; rank < ranks; ++rank) {
    RankReport one{.name = "rank " + std::to_string(rank)};
    one.memory_total["device"] = {1 << 20, (2 + rank) << 20};
    one.memory_total["host"] = {0, 0};
    if (ranks > 1) one.traffic["data/all_gather"] = {1000, 2, {}};
    if (ranks > 1) one.traffic["world/all_reduce"] = {24, 1, {}};
    report.ranks.push_back(one);
  }
  report.steps = 2;
  return report;
}

RunFolder run(const std::string& folder, int data, const std::vector<double>& losses,
              const std::string& precision = "f64") {
  RunFolder run{.folder = folder,
                .recipe = {{"parallel.data", std::to_string(data)},
                           {"parallel.pipeline", "1"},
                           {"parallel.tensor", "1"},
                           {"pipeline.schedule", "1f1b"},
                           {"pipeline.chunks", "1"},
                           {"zero.stage", "2"},
                           {"offload.optimizer", "none"},
                           {"precision.compute", precision},
                           {"train.seed", "1"}},
                .report = report_of(data)};
  for (double loss : losses) run.steps.push_back(step(std::ssize(run.steps) + 1, loss));
  return run;
}

TEST(RunTable, OneRun) {
  EXPECT_EQ(runs_text({run("a", 1, {3, 2.5})}),
            "run    layout  zero  steps      loss  device peak  resident  tokens/s  s a step\n"
            "a    d1 p1 t1     2      2  2.500000     2.00 MiB  1.00 MiB       200       0.5\n");
}

TEST(RunTable, ColumnsThatAreUsedAreShown) {
  RunFolder other = run("b", 2, {3, 2.5});
  other.recipe["parallel.pipeline"] = "2";
  other.recipe["pipeline.schedule"] = "interleaved";
  other.recipe["pipeline.chunks"] = "3";
  other.recipe["offload.optimizer"] = "disk";
  other.recipe["offload.parameters"] = "host";
  other.report->ranks[0].memory_total["host"] = {10, 3072};
  other.report->ranks[1].memory_total["disk"] = {4096, 4096};
  other.steps[0].validation_loss = 2.75;
  EXPECT_EQ(runs_text({run("a", 1, {3, 2.5}), other}),
            "run    layout       schedule  zero                         offload  steps      loss  "
            "val loss"
            "  device peak  resident  host peak  disk peak  sent a step  tokens/s  s a step\n"
            "a    d1 p1 t1              -     2                               -      2  2.500000   "
            "      -"
            "     2.00 MiB  1.00 MiB          -          -            -       200       0.5\n"
            "b    d2 p2 t1  interleaved/3     2  optimizer:disk,parameters:host      2  2.500000  "
            "2.750000"
            "     3.00 MiB  1.00 MiB   3.00 KiB   4.00 KiB     1.00 KiB       200       0.5\n"
            "losses agree over the first 2 common steps: the same bits\n");
}

TEST(RunTable, ARunWithoutEndIsShownAsFarAsItWent) {
  RunFolder open = run("open", 2, {3});
  open.report.reset();
  const std::string text = runs_text({open});
  EXPECT_EQ(text,
            "run     layout  zero  steps      loss  tokens/s  s a step\n"
            "open  d2 p1 t1     2      1  3.000000      11.1         9\n"
            "open has no report.json: it still runs or was killed; what metrics.jsonl tells is "
            "shown\n");
}

TEST(CompareLosses, FindsTheLargestRelativeDifference) {
  const std::vector<RunFolder> runs = {run("a", 1, {4, 2, 1}), run("b", 2, {4, 2 - 2e-12, 1}),
                                       run("c", 2, {4 + 4e-13, 2})};
  const LossComparison losses = compare_losses(runs);
  EXPECT_EQ(losses.all.steps, 2);  // c has no third
  EXPECT_EQ(losses.all.step, 2);
  EXPECT_NEAR(losses.all.difference, 1e-12, 1e-15);
  EXPECT_EQ(losses.all.low, 1U);
  EXPECT_TRUE(losses.all.high == 0 || losses.all.high == 2);
  EXPECT_TRUE(losses.different_keys.empty());
  EXPECT_EQ(losses.tolerance, 1e-12);
}

TEST(CompareLosses, JudgesTheFirstStepsByTheLeastPreciseRun) {
  const std::vector<double> straight(8, 2.0);
  std::vector<double> bent = straight;
  bent[6] = 2.1;
  EXPECT_TRUE(compare_losses({run("a", 1, straight), run("b", 1, bent)}).agree());
  const std::string text = runs_text({run("a", 1, straight), run("b", 1, bent)});
  EXPECT_NE(text.find("losses agree over the first 5 common steps: the same bits\n"
                      "over all 8 common steps: relative difference at most 0.048 at step 7: a "
                      "and b\n"),
            std::string::npos)
      << text;
  bent[4] = 2 + 1e-5;
  EXPECT_FALSE(compare_losses({run("a", 1, straight), run("b", 1, bent)}).agree());
  EXPECT_TRUE(compare_losses({run("a", 1, straight, "f32"), run("b", 1, bent)}).agree());
  const LossComparison sixteen =
      compare_losses({run("a", 1, straight, "f32"), run("b", 1, bent, "bf16")});
  EXPECT_FALSE(sixteen.agree());  // 50 steps are looked at, and step 7 is among them
  EXPECT_EQ(sixteen.judged.steps, 8);
  EXPECT_EQ(sixteen.precision, "bf16");
}

TEST(CompareLosses, ADifferenceIsSaidWithItsPlace) {
  const std::string text = runs_text({run("a", 1, {3, 2}), run("b", 1, {3, 2.02})});
  EXPECT_NE(text.find("losses DIFFER over the first 2 common steps: relative difference at most "
                      "0.0099 at step 2: a and b (f64 may differ by 1e-12)\n"),
            std::string::npos)
      << text;
}

TEST(CompareLosses, WhatIsNoNumberOnOneSideOnlyIsADifference) {
  EXPECT_TRUE(compare_losses({run("a", 1, {3, NAN}), run("b", 1, {3, NAN})}).agree());
  const std::vector<RunFolder> runs = {run("a", 1, {3, NAN}, "bf16"), run("b", 1, {3, 2}, "bf16")};
  const LossComparison losses = compare_losses(runs);
  EXPECT_FALSE(losses.agree());
  EXPECT_EQ(losses.judged.step, 2);
  EXPECT_NE(runs_text(runs).find("only some are numbers at step 2: b and a"), std::string::npos)
      << runs_text(runs);
  EXPECT_TRUE(nlohmann::json::parse(runs_json(runs))["losses"]["judged"]["difference"].is_null());
}

TEST(CompareLosses, RecipesOfOtherTrainingsAreNamed) {
  RunFolder other = run("b", 2, {3, 2});
  other.recipe["train.seed"] = "2";
  other.recipe["model.layers"] = "5";
  other.recipe["train.folder"] = "b";
  const std::string text = runs_text({run("a", 1, {3, 2}), other});
  EXPECT_NE(text.find("not one training: the recipes differ in model.layers, train.seed\n"),
            std::string::npos)
      << text;
}

TEST(CompareLosses, WithoutCommonStepsNothingIsClaimed) {
  RunFolder late = run("b", 1, {});
  late.steps.push_back(step(7, 2));
  const std::vector<RunFolder> runs = {run("a", 1, {3, 2}), late};
  EXPECT_NE(runs_text(runs).find("losses: the runs have no step in common\n"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(runs_json(runs))["losses"]["agree"].is_null());
}

TEST(RunTable, JsonSaysTheSameInNumbers) {
  RunFolder second = run("b", 2, {3, 2.5 + 1e-13});
  second.recipe["offload.optimizer"] = "host";
  const auto json = nlohmann::json::parse(runs_json({run("a", 1, {3, 2.5}), second}));
  const auto& b = json.at("runs").at(1);
  EXPECT_EQ(b.at("folder"), "b");
  EXPECT_EQ(b.at("ended"), true);
  EXPECT_EQ(b.at("layout").at("data"), 2);
  EXPECT_EQ(b.at("layout").at("schedule"), "1f1b");
  EXPECT_EQ(b.at("layout").at("zero_stage"), 2);
  EXPECT_EQ(b.at("layout").at("offload"), nlohmann::json({{"optimizer", "host"}}));
  EXPECT_EQ(b.at("steps"), 2);
  EXPECT_EQ(b.at("loss"), 2.5 + 1e-13);
  EXPECT_TRUE(b.at("validation_loss").is_null());
  EXPECT_EQ(b.at("memory").at("device"),
            nlohmann::json({{"resident", 1 << 20}, {"peak", 3 << 20}, {"rank", 1}}));
  EXPECT_FALSE(b.at("memory").contains("host"));
  EXPECT_EQ(b.at("sent_bytes_per_step"), 1024);
  EXPECT_EQ(b.at("tokens_per_s"), 200);
  EXPECT_EQ(b.at("seconds_per_step"), 0.5);
  EXPECT_EQ(json.at("losses").at("agree"), true);
  EXPECT_EQ(json.at("losses").at("all").at("step"), 2);
  EXPECT_EQ(json.at("losses").at("all").at("folders"), nlohmann::json({"a", "b"}));
  EXPECT_EQ(json.at("losses").at("tolerance"), 1e-12);
  EXPECT_TRUE(nlohmann::json::parse(runs_json({second}))["losses"].is_null());
}

// A folder with what a run leaves in it.
class RunFolderFiles : public ::testing::Test {
 protected:
  RunFolderFiles() {
    put("recipe.cfg", "[train]\nseed = 1\n");
    put("metrics.jsonl", metrics_line(step(1, 3.1)) + "\n" + metrics_line(step(2, NAN)) + "\n");
    put("report.json", report_json(report_of(2)));
  }
  void put(const std::string& name, const std::string& text) {
    write_whole_atomically(*files_, folder_ / name, text);
  }
  RunFolder read() { return read_run_folder(*files_, path()); }
  std::string path() const { return folder_ / ""; }
  std::string sentence() {
    return sentence_of([&] { read(); });
  }

  std::unique_ptr<Files> files_ = real_files();
  TemporaryFolder folder_;
};

TEST_F(RunFolderFiles, AreReadBack) {
  const RunFolder run = read();
  ASSERT_EQ(run.steps.size(), 2U);
  EXPECT_EQ(run.steps[0].loss, 3.1);
  EXPECT_EQ(run.steps[0].tokens, 100);
  EXPECT_TRUE(std::isnan(run.steps[1].loss));
  ASSERT_TRUE(run.report);
  EXPECT_EQ(run.report->ranks.size(), 2U);
  EXPECT_EQ(run.report->ranks[1].traffic.at("data/all_gather").bytes, 1000);
}

TEST_F(RunFolderFiles, HalfALineIsLeftOutWhileTheRunGoesOn) {
  const std::string line = metrics_line(step(1, 3));
  put("metrics.jsonl", line + "\n" + line.substr(0, 20));
  EXPECT_NE(sentence().find("metrics.jsonl line 2 is damaged: "), std::string::npos) << sentence();
  files_->remove(folder_ / "report.json");
  EXPECT_EQ(read().steps.size(), 1U);
  EXPECT_FALSE(read().report);
}

TEST_F(RunFolderFiles, DamageIsAnErrorThatNamesTheFile) {
  put("metrics.jsonl", "{\"step\": 1}\n");
  EXPECT_NE(sentence().find("metrics.jsonl line 1 is damaged: key 'loss' not found"),
            std::string::npos)
      << sentence();
  put("metrics.jsonl", "");
  EXPECT_EQ(sentence(), "");
  put("report.json", "{\"memory\": [");
  EXPECT_NE(sentence().find("report.json is damaged: parse error"), std::string::npos)
      << sentence();
}

TEST_F(RunFolderFiles, OtherFoldersAreNoRuns) {
  files_->remove(folder_ / "metrics.jsonl");
  EXPECT_EQ(sentence(), path() + " is not a run folder: it has no metrics.jsonl");
  EXPECT_EQ(sentence_of([&] { read_run_folder(*files_, folder_ / "none"); }),
            (folder_ / "none") + ": there is no such folder");
  EXPECT_EQ(sentence_of([&] { read_run_folder(*files_, folder_ / "recipe.cfg"); }),
            (folder_ / "recipe.cfg") + " is not a run folder but a file");
}

}  // namespace
}  // namespace trireme::testing
