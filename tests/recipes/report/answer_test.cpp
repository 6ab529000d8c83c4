#include "recipes/report/answer.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "recipes/report/run_report.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

const TuningStart kBefore{.validation_loss = 0.1 + 0.2,
                          .answers = {{"Who?", "ü \"x\"\n\ty", true}, {"Why?", "", false}}};

TEST(Answers, OfASampleAreALine) {
  const std::string line = answer_line(12, kBefore.answers[0]);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(step_of_answer_line(line), 12);
  EXPECT_EQ(step_of_answer_line(line.substr(0, 20)), std::nullopt);
}

TEST(Answers, BeforeTheFirstStepAreReadBack) {
  const TuningStart again = tuning_start_from_json(tuning_start_json(kBefore), "before.json");
  EXPECT_EQ(again.validation_loss, kBefore.validation_loss);
  EXPECT_EQ(again.answers, kBefore.answers);
  EXPECT_EQ(tuning_start_from_json(tuning_start_json({}), "x").validation_loss, std::nullopt);
  EXPECT_NE(sentence_of([] { tuning_start_from_json("{}", "before.json"); }).find("before.json"),
            std::string::npos);
}

TEST(Answers, StandBesideThoseToTheSamePrompt) {
  const Tuning tuning = tuning_of(
      kBefore, {.validation_loss = 0.25, .answers = {{"New?", "n", true}, {"Who?", "z", true}}});
  EXPECT_EQ(tuning.loss_before, kBefore.validation_loss);
  EXPECT_EQ(tuning.answers,
            (std::vector<TunedAnswer>{{"New?", std::nullopt, "n"}, {"Who?", "ü \"x\"\n\ty", "z"}}));
  EXPECT_EQ(tuning_text(tuning),
            "fine-tuning      before   after   change\n"
            "validation loss  0.3000  0.2500  -0.0500\n"
            "perplexity         1.35    1.28  -0.0658\n"
            "\nprompt:   New?\n  after:  n\n"
            "\nprompt:   Who?\n  before: ü \"x\"\n          \ty\n  after:  z\n");
  EXPECT_EQ(tuning_text({}), "");
  RunReport report;
  report.tuning = tuning;
  const RunReport again = report_from_json(report_json(report));
  ASSERT_TRUE(again.tuning.has_value());
  EXPECT_EQ(again.tuning->loss_before, tuning.loss_before);
  EXPECT_EQ(again.tuning->loss_after, tuning.loss_after);
  EXPECT_EQ(again.tuning->answers, tuning.answers);
  EXPECT_FALSE(report_from_json(report_json({})).tuning.has_value());
}

}  // namespace
}  // namespace trireme::testing
