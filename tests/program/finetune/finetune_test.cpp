// Fine-tuning as a user does it: from a Hugging Face folder to one, which answers as it was taught
// and ends by itself.
#include <gtest/gtest.h>

#include "tests/program/finetune/chat_folder.h"

namespace trireme::testing {
namespace {

class FineTune : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = new ChatFolder; }
  static void TearDownTestSuite() { delete folder_; }
  static ChatFolder* folder_;
};
ChatFolder* FineTune::folder_ = nullptr;

TEST_F(FineTune, LearnsItsAnswersAndEndsByItselfInTheRunAndInTheFolderThatComesOut) {
  const ProgramEnd tuned = folder_->tune({"--train.steps=150", "--train.export=hf"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.err.find("[[We wait.<|im_end|>]]"), std::string::npos) << tuned.err;
  const auto expect_answers = [&](const std::string& place, const Words& layout) {
    for (const auto& [question, answer] : folder_->talks()) {
      const auto told = folder_->answer(place, question, layout);
      EXPECT_EQ(told["text"], answer) << place;
      EXPECT_EQ(told["ended"], true) << place;
      EXPECT_LT(told["tokens"].size(), 64u);
    }
  };
  expect_answers(folder_->run(), {});
  expect_answers(folder_->exported(), {"--parallel.tensor=2"});
  const auto config =
      nlohmann::json::parse(text_of_file(folder_->exported() + "/generation_config.json"));
  EXPECT_EQ(config["eos_token_id"],
            (nlohmann::json{folder_->end_of_text(), folder_->end_of_turn()}));
  EXPECT_EQ(config["temperature"], 0.6);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    EXPECT_EQ(text_of_file(folder_->exported() + "/" + name),
              text_of_file(folder_->base() + "/" + name));

  // What came out goes in again, and is the same model: every logit has a say in the loss.
  const auto loss = [&](const std::string& place) {
    const ProgramEnd end =
        run_to_end({program(), "evaluate", place, "--data.text=" + (*folder_ / "text.txt"),
                    "--batch.sequence=64", "--precision.compute=f32", "--json"});
    EXPECT_EQ(end.code, 0) << end.err;
    return nlohmann::json::parse(end.out)["loss"];
  };
  EXPECT_EQ(loss(folder_->run()), loss(folder_->exported()));
}

TEST_F(FineTune, ARunThatIsDoneExportsWhenAskedAndRemovesWhatAnEarlierOneMade) {
  ASSERT_EQ(folder_->tune({"--train.steps=1"}).code, 0);
  EXPECT_EQ(text_of_file(folder_->exported() + "/config.json"), "");
  const Words resume = {program(), "train", folder_->run() + "/recipe.cfg", "--resume"};
  const ProgramEnd done = run_to_end(resume + Words{"--train.export=hf"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("/model holds step 1 in f32"), std::string::npos) << done.err;
  write_file(folder_->exported() + "/stray", "x");
  const ProgramEnd longer = run_to_end(resume + Words{"--train.export=hf", "--train.steps=2"});
  EXPECT_NE(longer.err.find("/model holds step 2 in f32"), std::string::npos) << longer.err;
  EXPECT_EQ(text_of_file(folder_->exported() + "/stray"), "");

  ASSERT_EQ(folder_->tune({"--train.steps=1"}).code, 0);  // anew
  EXPECT_EQ(text_of_file(folder_->exported() + "/config.json"), "");
  ASSERT_EQ(folder_->tune({"--train.steps=1", "--train.export=hf"}).code, 0);
  const ProgramEnd onto_itself = folder_->tune({"--model.from=" + folder_->exported()});
  EXPECT_EQ(onto_itself.code, 2);
  EXPECT_NE(onto_itself.err.find("use another train.folder"), std::string::npos) << onto_itself.err;
  EXPECT_NE(text_of_file(folder_->exported() + "/config.json"), "");
  const ProgramEnd nothing = folder_->tune({"--train.export=hf", "--train.checkpoint_every=never"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("train.export = hf is made of the last checkpoint"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme::testing
