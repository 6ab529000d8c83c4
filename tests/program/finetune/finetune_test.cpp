// Fine-tuning as a user does it: from a Hugging Face folder to one, which answers as it was taught
// and ends by itself.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

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
  const ProgramEnd tuned = folder_->tune({"--train.steps=250", "--train.export=hf"});
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

  const auto history =
      nlohmann::json::parse(text_of_file(folder_->exported() + "/trainer_state.json"));
  EXPECT_EQ(history["global_step"], 250);
  ASSERT_EQ(history["log_history"].size(), 250u);
  EXPECT_EQ(history["log_history"][249]["loss"].get<double>(),
            std::stod(column(folder_->run(), "loss")[249]));

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

// In a folder without a run, `model` is somebody else's.
TEST_F(FineTune, AFolderCalledModelThatNoRunHasMadeStays) {
  const std::string folder = *folder_ / "other", note = folder + "/model/note";
  std::filesystem::create_directories(folder + "/model");
  write_file(note, "mine");
  const Words into = {"--train.folder=" + folder, "--train.steps=1"};
  const ProgramEnd refused = folder_->tune(into + Words{"--train.export=hf"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("where something is that no run has left"), std::string::npos)
      << refused.err;
  const ProgramEnd plain = folder_->tune(into);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(text_of_file(note), "mine");
}

// The numbers of the training, of a run that is asked and of one that is not.
TEST_F(FineTune, AskingBeforeAndMeanwhileChangesNoNumber) {
  const std::string prompts = *folder_ / "prompts.txt";
  write_file(prompts, "Who rows?\n\nAnd then?\r\n");
  const Words plain = {"--train.steps=4", "--data.validation=0.2", "--model.dropout=0.1",
                       "--device.kind=reference"};
  for (const Words& layout :
       std::vector<Words>{{},
                          {"--parallel.data=2", "--zero.stage=3"},
                          {"--parallel.tensor=2", "--parallel.pipeline=2"},
                          {"--parallel.data=2", "--zero.stage=2", "--offload.optimizer=host"}}) {
    const Words quiet = Words{"--train.evaluate_every=never"} + plain + layout;
    ASSERT_EQ(folder_->tune(quiet).code, 0);
    const auto expected = columns(folder_->run());
    EXPECT_EQ(text_of_file(folder_->run() + "/before.json"), "");
    const ProgramEnd asked =
        folder_->tune(Words{"--train.evaluate_every=1", "--train.sample_every=2",
                            "--train.sample_tokens=3", "--train.sample_prompts=" + prompts} +
                      plain + layout);
    ASSERT_EQ(asked.code, 0) << asked.err;
    EXPECT_EQ(columns(folder_->run()), expected) << ::testing::PrintToString(layout);
    // Two prompts before, after step 2 and after the last one.
    EXPECT_EQ(lines_of(text_of_file(folder_->run() + "/samples.jsonl")).size(), 6u);
  }
}

nlohmann::json tuning_of(const std::string& run) {
  return nlohmann::json::parse(text_of_file(run + "/report.json"))["fine_tuning"];
}

TEST_F(FineTune, ComparesBeforeAndAfterAlsoWhenItWasResumed) {
  // By default it asks what was held out.
  const Words flags = {"--data.validation=0.2", "--train.sample_every=1000",
                       "--train.evaluate_every=1000", "--train.sample_tokens=40"};
  const ProgramEnd whole = folder_->tune(flags + Words{"--train.steps=250"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const auto tuning = tuning_of(folder_->run());
  EXPECT_GT(tuning["loss"]["before"], 3.0);
  EXPECT_LT(tuning["loss"]["after"], tuning["loss"]["before"]);
  EXPECT_NEAR(tuning["perplexity"]["after"].get<double>(),
              std::exp(tuning["loss"]["after"].get<double>()), 1e-9);
  ASSERT_EQ(tuning["answers"].size(), 3u);
  for (const auto& told : tuning["answers"]) {
    EXPECT_NE(told["before"], told["after"]);
    int found = 0;
    for (const auto& [question, answer] : folder_->talks())
      if (told["prompt"] == "user\n" + question + "\nassistant" && told["after"] == answer) ++found;
    EXPECT_EQ(found, 1) << told;
  }
  const ProgramEnd report = run_to_end({program(), "report", folder_->run()});
  for (const std::string& text : {whole.out, report.out}) {
    EXPECT_NE(text.find("validation loss"), std::string::npos) << text;
    EXPECT_NE(text.find("  after:  We wait."), std::string::npos) << text;
  }

  const Words short_run = {"--train.steps=2", "--train.checkpoint_every=1",
                           "--train.sample_every=1", "--optimizer.schedule=constant"};
  ASSERT_EQ(folder_->tune(flags + short_run).code, 0);
  const auto before = tuning_of(folder_->run());
  const ProgramEnd longer = folder_->tune(
      flags + short_run + Words{"--train.steps=3", "--train.restart=false", "--train.resume=true"});
  ASSERT_EQ(longer.code, 0) << longer.err;
  EXPECT_EQ(tuning_of(folder_->run())["loss"]["before"], before["loss"]["before"]);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(tuning_of(folder_->run())["answers"][i]["before"], before["answers"][i]["before"]);
  // Before, and after each of the three steps.
  EXPECT_EQ(lines_of(text_of_file(folder_->run() + "/samples.jsonl")).size(), 12u);
}

TEST_F(FineTune, PromptsThatCannotBeAskedAreRefusedBeforeAnythingIsTouched) {
  ASSERT_EQ(folder_->tune({"--train.steps=1"}).code, 0);
  const std::string prompts = *folder_ / "bad.txt";
  const auto refused = [&](const Words& flags, const std::string& part) {
    const ProgramEnd end = folder_->tune(flags + Words{"--train.sample_prompts=" + prompts});
    EXPECT_EQ(end.code, 2) << end.err;
    EXPECT_NE(end.err.find(part), std::string::npos) << end.err;
  };
  const Words on = {"--train.sample_every=1"};
  refused(on, "there is no such file");
  write_file(prompts, "\n \n");
  refused(on, "has 0 lines with text; use 1 to 64");
  write_file(prompts, "Hi\n" + std::string(70, 'x') + "\n");
  refused(on, "tokens, but batch.sequence = 64");
  write_file(prompts, "Hi\n");
  refused({}, "is about samples, which train.sample_every = N makes");
  EXPECT_EQ(column(folder_->run(), "loss").size(), 1u);
}

}  // namespace
}  // namespace trireme::testing
