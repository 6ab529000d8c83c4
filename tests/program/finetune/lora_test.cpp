// Adapters as a user trains them: what a run leaves behind, PEFT's folder, the merged model, and
// that all of them say the same.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/program/finetune/chat_folder.h"

namespace trireme::testing {
namespace {

class Lora : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = new ChatFolder; }
  static void TearDownTestSuite() { delete folder_; }

  static ProgramEnd tune(const Words& flags = {}) {
    return folder_->tune(Words{"--lora.rank=4", "--lora.alpha=8"} + flags);
  }
  static double loss(const std::string& place, const Words& flags = {}) {
    const ProgramEnd end =
        run_to_end(Words{program(), "evaluate", place, "--data.text=" + (*folder_ / "text.txt"),
                         "--batch.sequence=64", "--precision.compute=f32", "--json"} +
                   flags);
    EXPECT_EQ(end.code, 0) << end.err;
    return end.code == 0 ? nlohmann::json::parse(end.out)["loss"].get<double>() : NAN;
  }
  static ProgramEnd merge(const std::string& from, const std::string& to, const Words& flags = {}) {
    return run_to_end(Words{program(), "checkpoint", "merge", from, to} + flags);
  }
  static ChatFolder* folder_;
};
ChatFolder* Lora::folder_ = nullptr;

TEST_F(Lora, RunAdapterFolderAndMergedModelSayTheSame) {
  const ProgramEnd tuned = tune({"--train.export=hf", "--parallel.tensor=2", "--parallel.data=2",
                                 "--zero.stage=3", "--train.steps=6"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.err.find("of them; the others are frozen"), std::string::npos) << tuned.err;
  const auto config =
      nlohmann::json::parse(text_of_file(folder_->exported() + "/adapter_config.json"));
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["lora_alpha"], 8);
  EXPECT_EQ(config["base_model_name_or_path"], folder_->base());
  EXPECT_EQ(config["target_modules"], (nlohmann::json{"down_proj", "gate_proj", "k_proj", "o_proj",
                                                      "q_proj", "up_proj", "v_proj"}));
  const std::string by_run = *folder_ / "by_run", by_peft = *folder_ / "by_peft";
  ASSERT_EQ(merge(folder_->run(), by_run).code, 0);
  const ProgramEnd merged = merge(folder_->exported(), by_peft);
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_EQ(text_of_file(by_run + "/model.safetensors"),
            text_of_file(by_peft + "/model.safetensors"));
  const double expected = loss(folder_->run());
  EXPECT_NEAR(loss(by_run), expected, 1e-5);
  EXPECT_NEAR(loss(by_run, {"--parallel.tensor=2"}), expected, 1e-5);
  EXPECT_GT(std::abs(loss(folder_->base()) - expected), 1e-3);
}

TEST_F(Lora, GoesOnExactlyUnderAnotherLayout) {
  ASSERT_EQ(tune({"--train.steps=2", "--optimizer.schedule=constant"}).code, 0);
  ASSERT_EQ(tune({"--train.steps=4", "--optimizer.schedule=constant"}).code, 0);
  const auto expected = column(folder_->run(), "loss");
  ASSERT_EQ(tune({"--train.steps=2", "--optimizer.schedule=constant"}).code, 0);
  const ProgramEnd on = run_to_end({program(), "train", folder_->run() + "/recipe.cfg", "--resume",
                                    "--train.steps=4", "--parallel.data=2", "--zero.stage=2"});
  ASSERT_EQ(on.code, 0) << on.err;
  const auto resumed = column(folder_->run(), "loss");
  ASSERT_EQ(resumed.size(), expected.size());
  for (std::size_t i = 0; i < resumed.size(); ++i)
    EXPECT_NEAR(std::stod(resumed[i]), std::stod(expected[i]), 1e-5) << i;
  const ProgramEnd changed = run_to_end(
      {program(), "train", folder_->run() + "/recipe.cfg", "--resume", "--lora.alpha=9"});
  EXPECT_EQ(changed.code, 2);
  EXPECT_NE(changed.err.find("lora.alpha = 9, the checkpoint has 8"), std::string::npos)
      << changed.err;
}

TEST_F(Lora, MergingRefusesWhatItDoesNotUnderstand) {
  ASSERT_EQ(tune({"--train.export=hf", "--train.steps=1"}).code, 0);
  const std::string path = folder_->exported() + "/adapter_config.json", out = *folder_ / "o";
  const ProgramEnd bare = run_to_end({program(), "generate", folder_->exported()});
  EXPECT_EQ(bare.code, 1);
  EXPECT_NE(bare.err.find("trireme checkpoint merge"), std::string::npos) << bare.err;
  const std::string whole = text_of_file(path);
  const auto refused = [&](const char* field, const nlohmann::json& value,
                           const std::string& part) {
    auto config = nlohmann::json::parse(whole);
    config[field] = value;
    write_file(path, config.dump());
    const ProgramEnd end = merge(folder_->exported(), out);
    EXPECT_EQ(end.code, 1);
    EXPECT_NE(end.err.find(part), std::string::npos) << end.err;
  };
  refused("use_dora", true, "use_dora = true is not supported");
  refused("bias", "all", "bias = the string \"all\" is not supported");
  refused("peft_type", "IA3", "peft_type = IA3 is not supported; LORA is");
  refused("r", 8, "but r = 8");
  refused("base_model_name_or_path", nullptr, "use --base FOLDER");
  write_file(path, whole);
  EXPECT_EQ(run_to_end({program(), "generate", folder_->exported(), "--prompt", "a"}).code, 1);
  const ProgramEnd full = folder_->tune({"--train.steps=1"});
  ASSERT_EQ(full.code, 0) << full.err;
  EXPECT_NE(merge(folder_->run(), out).err.find("it has no adapters"), std::string::npos);
}

TEST_F(Lora, FrozenParametersComeOutAsTheyWere) {
  const ProgramEnd none = folder_->tune({"--train.freeze=layer.*"});
  EXPECT_EQ(none.code, 2) << none.err;
  EXPECT_NE(none.err.find("no parameter of this model matches \"layer.*\""), std::string::npos)
      << none.err;
  const ProgramEnd tuned = folder_->tune({"--train.train_only=*norm*", "--train.steps=2"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const ProgramEnd told =
      run_to_end({program(), "checkpoint", "inspect", folder_->run(), "--json"});
  const auto inspected = nlohmann::json::parse(told.out);
  int moments = 0;
  for (const auto& array : inspected["arrays"]) {
    if (array["array"] == "value") continue;
    EXPECT_NE(array["tensor"].get<std::string>().find("norm"), std::string::npos) << array;
    ++moments;
  }
  EXPECT_GT(moments, 4);
}

}  // namespace
}  // namespace trireme::testing
