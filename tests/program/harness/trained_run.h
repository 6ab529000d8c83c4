// A run that all tests of a suite share: three steps and a checkpoint, made once.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {

class TrainedRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    run_ = std::make_unique<TinyRun>();
    const ProgramEnd end =
        run_to_end(run_->train({"--train.steps=3", "--train.checkpoint_every=3"}));
    ASSERT_EQ(end.code, 0) << end.err;
  }
  static void TearDownTestSuite() { run_.reset(); }

  // `bench` of far more tests than anybody waits for; each is a line when it is done.
  static std::vector<std::string> endless_bench() {
    std::string prompts = "1";
    for (int i = 1; i < kBenchTests; ++i) prompts += ",8";
    return {program(), "bench",         run_->folder(), "--pp=" + prompts,
            "--tg=0",  "--repeat=1000", "-o",           "jsonl"};
  }
  // It was sent a signal after its first line.
  static void expect_rows_that_were_done(const ProgramEnd& end) {
    EXPECT_EQ(end.code, 130) << end.err;
    const std::vector<std::string> rows = lines_of(end.out);
    EXPECT_GE(rows.size(), 1u);
    for (const std::string& row : rows)
      EXPECT_TRUE(row.starts_with("{") && row.ends_with("}")) << row;
    const std::string said = "bench: ended by a signal after " + std::to_string(rows.size()) +
                             " of " + std::to_string(kBenchTests) + " tests\n";
    EXPECT_NE(end.err.find(said), std::string::npos) << said << end.err;
  }

  static constexpr int kBenchTests = 1000;
  static inline std::unique_ptr<TinyRun> run_;
};

}  // namespace trireme::testing
