// What a run gives again, and gives the same under other layouts.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

using Words = std::vector<std::string>;

struct Curve {
  Words losses, norms;
  bool operator==(const Curve&) const = default;
};

Curve curve_of(const std::vector<std::string>& argv, const std::string& folder) {
  const ProgramEnd end = run_to_end(argv);
  EXPECT_EQ(end.code, 0) << end.err;
  return {column(folder, "loss"), column(folder, "grad_norm")};
}

double gap(const Words& a, const Words& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(std::stod(a[i]) - std::stod(b[i])) / std::stod(a[i]));
  return worst;
}

TEST(Runs, AgainGivesTheSameBits) {
  const TinyRun run;
  const Words flags = {"--parallel.data=2", "--parallel.tensor=2"};
  const Curve first = curve_of(run.train(flags), run.folder());
  EXPECT_EQ(first.losses.size(), 3u);
  EXPECT_EQ(curve_of(run.train(flags), run.folder()), first);
}

// The identical-loss rule: looking at a run changes no bit of it.
TEST(Runs, WatchingChangesNoBit) {
  const TinyRun run;
  const Words steps = {"--train.steps=6", "--parallel.data=2", "--parallel.pipeline=2"};
  const auto watched = [&](Words flags) {
    flags.insert(flags.begin(), steps.begin(), steps.end());
    return curve_of(run.train(flags), run.folder());
  };
  const Curve quiet = watched({"--train.evaluate_every=never", "--train.log_every=100"});
  EXPECT_EQ(quiet.losses.size(), 6u);
  EXPECT_EQ(watched({"--train.trace=2:4"}), quiet) << "trace";
  EXPECT_EQ(watched({"--train.evaluate_every=2"}), quiet) << "evaluate_every";
  EXPECT_EQ(watched({"--train.sample_every=2"}), quiet) << "sample_every";
  EXPECT_EQ(watched({"--train.log_every=1", "--train.evaluate_every=1", "--train.sample_every=3",
                     "--train.trace=1:6"}),
            quiet)
      << "all";
}

TEST(Runs, LeavePlainTextWhateverTheModelSays) {
  const TinyRun run;
  const ProgramEnd end = run_to_end(run.train({"--train.sample_every=1"}));  // untrained: any byte
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("Sample (it begins with held-out text)"), std::string::npos) << end.out;
  for (const std::string& text : {end.out, end.err, text_of_file(run.folder() + "/log.txt")})
    for (const unsigned char c : text) EXPECT_TRUE(c == '\n' || c == '\t' || c >= 0x20) << int{c};
}

// Evaluation has more samples than a step: it must not take them in larger bites than training.
TEST(Runs, AMicroBatchLargerThanTheShareIsTheShare) {
  const TinyRun run;
  const auto memory = [&](const std::string& micro) {
    EXPECT_EQ(run_to_end(run.train({"--batch.micro=" + micro})).code, 0);
    return nlohmann::json::parse(text_of_file(run.folder() + "/report.json"))["memory"];
  };
  EXPECT_EQ(memory("8"), memory("100"));
}

// A model whose weights ran away has no next token; the run still ends with its report.
TEST(Runs, ASampleOfADivergedModelIsShort) {
  const TinyRun run;
  for (const char* stages : {"--parallel.pipeline=1", "--parallel.pipeline=2"}) {
    const ProgramEnd end = run_to_end(
        run.train({stages, "--model.norm=layer", "--precision.compute=f32", "--optimizer.name=sgd",
                   "--optimizer.lr=1e6", "--optimizer.clip=0", "--optimizer.schedule=constant",
                   "--train.steps=9", "--train.sample_every=1"}));
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_NE(end.err.find("the gradient is not finite"), std::string::npos) << end.err;
    EXPECT_NE(text_of_file(run.folder() + "/report.json"), "");
  }
}

// The losses of the format on the reference, which every device must have too; and what a run on
// the CPU says of 16 bits that it only stores.
TEST(Runs, SixteenBitsThatAreStoredTrainAndSaySo) {
  const TinyRun run;
  for (const std::string compute : {"f16", "bf16"}) {
    const std::string precision = "--precision.compute=" + compute;
    const Curve exact = curve_of(run.train({precision}), run.folder());
    EXPECT_EQ(column(run.folder(), "loss_scale"), Words(3, compute == "f16" ? "65536" : "1"));
    const ProgramEnd end = run_to_end(run.train({precision, "--device.kind=cpu"}),
                                      {.environment = {{"ONEDNN_MAX_CPU_ISA", "AVX2"}}});
    if (end.err.find("this build has no cpu backend") != std::string::npos) GTEST_SKIP();
    ASSERT_EQ(end.code, 0) << end.err;
    EXPECT_LE(gap(exact.losses, column(run.folder(), "loss")), 1e-2);
    EXPECT_NE(end.err.find("precision.compute = " + compute +
                           " is stored in 16 bits and computed in f32 on this CPU"),
              std::string::npos)
        << end.err;
  }
}

// Every step writes all states once and reads them once; the moments of before step 1 are zeros,
// which nobody reads. Evaluation and samples in between add nothing.
TEST(Runs, SayWhatTheDiskMoved) {
  const TinyRun run;
  const ProgramEnd end =
      run_to_end(run.train({"--parallel.data=2", "--zero.stage=1", "--offload.optimizer=disk",
                            "--train.evaluate_every=1", "--train.sample_every=1"}));
  ASSERT_EQ(end.code, 0) << end.err;
  const auto report = nlohmann::json::parse(text_of_file(run.folder() + "/report.json"));
  std::int64_t states = 0;
  for (const auto& rank : report["memory"])
    states += rank["disk"]["optimizer"]["resident"].get<std::int64_t>();
  const auto& disk = report["disk"];
  ASSERT_EQ(disk.size(), 1u);
  EXPECT_GT(states, 0);
  EXPECT_EQ(disk["optimizer"]["bytes_written"], 3 * states);
  EXPECT_EQ(disk["optimizer"]["bytes_read"], 2 * states);
  const auto seconds = [&](const char* key) { return disk["optimizer"][key].get<double>(); };
  EXPECT_GT(seconds("computing"), 0);
  EXPECT_LE(seconds("computing") + seconds("waiting_reads") + seconds("waiting_writes"),
            seconds("seconds") * (1 + 1e-9));
  EXPECT_GE(seconds("overlap"), 0);
  EXPECT_LE(seconds("overlap"), 1);
  EXPECT_NE(end.out.find("on disk, a step"), std::string::npos) << end.out;
}

TEST(Runs, JsonInsteadOfTables) {
  const TinyRun run;
  const ProgramEnd end = run_to_end(run.train({"--json"}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(nlohmann::json::parse(end.out),
            nlohmann::json::parse(text_of_file(run.folder() + "/report.json")));
}

TEST(Runs, NextStepsCanBePasted) {
  const TinyRun run;
  const std::string folder = run / "a run's folder";
  const ProgramEnd end = run_to_end(run.train({"--train.folder=" + folder}));
  ASSERT_EQ(end.code, 0) << end.err;
  const std::string quoted = run / "a run'\\''s folder";
  EXPECT_NE(end.out.find("cat '" + quoted + "/report.json'"), std::string::npos) << end.out;
  // Flags were given, so the resolved recipe is what goes on.
  EXPECT_NE(end.out.find("train '" + quoted + "/recipe.cfg' --train.folder='" + quoted +
                         "-longer' --train.steps=12"),
            std::string::npos)
      << end.out;
  const ProgramEnd again = run_to_end({program(), "train", folder + "/recipe.cfg",
                                       "--train.folder=" + folder + "-longer", "--train.steps=4",
                                       "--train.checkpoint_every=4"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(end.out.find("./trireme serve"), std::string::npos) << "nothing was saved";
  for (const char* command : {"generate", "serve"})
    EXPECT_NE(again.out.find(std::string("./trireme ") + command + " '" + quoted + "-longer'"),
              std::string::npos)
        << again.out;
}

TEST(Runs, ThreeAxesGiveTheSerialNumbers) {
  const TinyRun run;
  const Curve serial = curve_of(run.train(), run.folder());
  const Curve cube =
      curve_of(run.train({"--parallel.data=2", "--parallel.pipeline=2", "--parallel.tensor=2"}),
               run.folder());
  EXPECT_LT(gap(serial.losses, cube.losses), 1e-10);
  EXPECT_LT(gap(serial.norms, cube.norms), 1e-10);
}

TEST(Runs, ResolvedRecipeGivesTheRunAgain) {
  const TinyRun run;
  const Curve first = curve_of(
      run.train({"--parallel.pipeline=2", "--optimizer.lr=2e-3", "--train.seed=9"}), run.folder());
  const std::string resolved = run / "again.cfg";
  write_file(resolved, text_of_file(run.folder() + "/recipe.cfg"));
  const std::string folder = run / "again";
  EXPECT_EQ(curve_of({program(), "train", resolved, "--train.folder=" + folder}, folder), first);
}

TEST(Runs, LeaveAReportWhoseTrafficIsTheFormulas) {
  const TinyRun run;
  const ProgramEnd end = run_to_end(
      run.train({"--parallel.data=2", "--parallel.pipeline=2", "--parallel.tensor=2",
                 "--parallel.sequence=true", "--recompute.mode=full", "--train.trace=2:3"}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(end.out.find("differs from its formula"), std::string::npos) << end.out;
  EXPECT_EQ(end.out.find("pipeline/recv"), std::string::npos) << "moves no bytes";
  const auto report = nlohmann::json::parse(text_of_file(run.folder() + "/report.json"));
  ASSERT_EQ(report["traffic"].size(), 8u);
  for (const auto& rank : report["traffic"])
    for (const auto& [operation, cell] : rank.items()) {
      if (cell["bytes"] != 0) {
        EXPECT_EQ(cell["bytes"], cell["formula"]) << operation;
      }
    }
  EXPECT_GT(text_of_file(run.folder() + "/trace.json.gz").size(), 500u);
}

TEST(Runs, TokenizeThenTrainIsTheSame) {
  const TinyRun run;
  const Curve text = curve_of(run.train(), run.folder());
  const std::string tokens = run / "tokens.h5";
  const ProgramEnd end = run_to_end({program(), "tokenize", run.text(), tokens, "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(nlohmann::json::parse(end.out)["vocabulary"], 256);
  EXPECT_EQ(curve_of(run.train({"--data.text=", "--data.tokens=" + tokens}), run.folder()), text);
}

}  // namespace
}  // namespace trireme::testing
