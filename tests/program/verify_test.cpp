// Verifying steps changes nothing but time and the memory that is told for it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

using Words = std::vector<std::string>;

const Words kLayout = {"--train.steps=6", "--parallel.data=2",   "--parallel.pipeline=2",
                       "--zero.stage=1",  "--model.dropout=0.1", "--train.evaluate_every=2"};

Words with(Words flags) {
  flags.insert(flags.begin(), kLayout.begin(), kLayout.end());
  return flags;
}

TEST(Verify, ChangesNoBitAndNoFormula) {
  const TinyRun run;
  const ProgramEnd quiet = run_to_end(run.train(kLayout));
  ASSERT_EQ(quiet.code, 0) << quiet.err;
  const Words losses = column(run.folder(), "loss"), norms = column(run.folder(), "grad_norm");
  for (const char* every : {"1", "4"}) {
    SCOPED_TRACE(every);
    const ProgramEnd end =
        run_to_end(run.train(with({std::string("--train.verify_every=") + every,
                                   "--train.checkpoint_every=3", "--train.trace=2:3"})));
    ASSERT_EQ(end.code, 0) << end.err;
    EXPECT_EQ(column(run.folder(), "loss"), losses);
    EXPECT_EQ(column(run.folder(), "grad_norm"), norms);
    EXPECT_EQ(end.out.find("differs from its formula"), std::string::npos) << end.out;
    const auto report = nlohmann::json::parse(text_of_file(run.folder() + "/report.json"));
    EXPECT_EQ(report["summary"]["verified"], std::string(every) == "1" ? 6 : 1);
    EXPECT_EQ(report["summary"]["incidents"], 0);
    EXPECT_GT(report["time"]["verification"], 0.0);
    for (const auto& rank : report["traffic"])
      for (const auto& [operation, cell] : rank.items())
        if (cell["bytes"] != 0) {
          EXPECT_EQ(cell["bytes"], cell["formula"]) << operation;
        }
    for (const auto& rank : report["memory"]) {
      EXPECT_GT(rank["host"]["communication"]["resident"], 0);
      for (const char* kind : {"parameters", "gradients", "optimizer", "communication"})
        for (const char* tier : {"device", "host"}) {
          const auto& cell = rank[tier][kind];
          if (!cell["formula_resident"].is_null()) {
            EXPECT_EQ(cell["resident"], cell["formula_resident"]) << tier << " " << kind;
          }
          if (!cell["formula_peak"].is_null()) {
            EXPECT_EQ(cell["peak"], cell["formula_peak"]) << tier << " " << kind;
          }
        }
    }
  }
}

TEST(Verify, GoesOnBitForBitAfterAResume) {
  const TinyRun run;
  const Words verified = {"--train.verify_every=1", "--train.checkpoint_every=3",
                          "--optimizer.schedule=constant"};
  ASSERT_EQ(run_to_end(run.train(with({"--optimizer.schedule=constant"}))).code, 0);
  const Words constant = column(run.folder(), "loss");
  Words first = with(verified);
  first[0] = "--train.steps=3";
  ASSERT_EQ(run_to_end(run.train(first)).code, 0);
  Words second = with(verified);
  second.push_back("--resume");
  const ProgramEnd end = run_to_end(run.train(second));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(column(run.folder(), "loss"), constant);
}

TEST(Verify, ItsCopyIsToldBefore) {
  const TinyRun run;
  const ProgramEnd end =
      run_to_end({program(), "memory", run.recipe(), "--explain", "--train.verify_every=2"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("copy of weights, for train.verify_every"), std::string::npos) << end.out;
}

TEST(Verify, StatesOnDiskAreRefused) {
  const TinyRun run;
  const ProgramEnd end = run_to_end(
      run.train({"--train.verify_every=2", "--zero.stage=3", "--offload.optimizer=disk"}));
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.err.find("offload.optimizer = disk: train.verify_every = 2 keeps a copy"),
            std::string::npos)
      << end.err;
}

}  // namespace
}  // namespace trireme::testing
