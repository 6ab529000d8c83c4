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

  static inline std::unique_ptr<TinyRun> run_;
};

}  // namespace trireme::testing
