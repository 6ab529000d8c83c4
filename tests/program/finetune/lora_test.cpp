// Adapters as a user trains them: what a run leaves behind, PEFT's folder, the merged model, and
// that all of them say the same.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

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

// A base that is given another template: adapters and merged folders have the one of the training,
// and end where it ends.
TEST_F(Lora, TheTokenizerOfTheTrainingGoesAlong) {
  const std::string other = *folder_ / "other";
  std::filesystem::create_directories(other);
  write_file(other + "/tokenizer.json", text_of_file(folder_->base() + "/tokenizer.json"));
  auto settings = nlohmann::json::parse(text_of_file(folder_->base() + "/tokenizer_config.json"));
  std::string speaks = settings["chat_template"];
  const std::string line_end = " + '\n' }}{% endfor";
  ASSERT_NE(speaks.find(line_end), std::string::npos) << speaks;
  settings["chat_template"] = speaks.replace(speaks.find(line_end), line_end.size(), "}}{% endfor");
  write_file(other + "/tokenizer_config.json", settings.dump());
  const std::string for_tools = "/additional_chat_templates/tool_use.jinja";
  write_file(other + "/chat_template.jinja", speaks);
  std::filesystem::create_directories(other + "/additional_chat_templates");
  write_file(other + for_tools, "{{ tools }}");
  const ProgramEnd tuned =
      tune({"--train.export=hf", "--train.steps=2", "--data.tokenizer=" + other});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const std::string by_run = *folder_ / "other_by_run", by_peft = *folder_ / "other_by_peft";
  const ProgramEnd merged = merge(folder_->run(), by_run + "/", {"--json"});
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_GT(nlohmann::json::parse(merged.out)["peak_bytes"], 1 << 20);
  ASSERT_EQ(merge(folder_->exported(), by_peft).code, 0);
  const std::string config = text_of_file(other + "/tokenizer_config.json");
  EXPECT_NE(config, text_of_file(folder_->base() + "/tokenizer_config.json"));
  for (const std::string& place : {folder_->exported(), by_run, by_peft}) {
    EXPECT_EQ(text_of_file(place + "/tokenizer_config.json"), config) << place;
    EXPECT_EQ(text_of_file(place + for_tools), "{{ tools }}") << place;
  }
  for (const std::string& place : {by_run, by_peft})
    EXPECT_EQ(
        nlohmann::json::parse(text_of_file(place + "/generation_config.json"))["eos_token_id"],
        (nlohmann::json{folder_->end_of_text(), folder_->end_of_turn()}))
        << place;
  // A tokenizer that is the base's is not written a second time.
  ASSERT_EQ(tune({"--train.export=hf", "--train.steps=1"}).code, 0);
  EXPECT_EQ(text_of_file(folder_->exported() + "/tokenizer_config.json"), "");
}

// What a run leaves and what `peft` makes can be looked at like any model folder.
TEST_F(Lora, FoldersAreInspected) {
  ASSERT_EQ(tune({"--train.export=hf", "--train.steps=1"}).code, 0);
  const auto inspect = [](const std::string& place, const Words& more = {}) {
    const ProgramEnd end = run_to_end(Words{program(), "checkpoint", "inspect", place} + more);
    EXPECT_EQ(end.code, 0) << end.err;
    return end.out;
  };
  const std::string base = inspect(folder_->base());
  EXPECT_NE(base.find(": llama, "), std::string::npos) << base;
  EXPECT_NE(base.find("<|im_start|>"), std::string::npos) << base;
  EXPECT_NE(base.find("model.layers.1.mlp.down_proj.weight"), std::string::npos) << base;
  const auto told = nlohmann::json::parse(inspect(folder_->exported(), {"--json"}));
  EXPECT_EQ(told["model"], "adapters (PEFT)");
  EXPECT_EQ(told["settings"]["base"], folder_->base());
  EXPECT_EQ(told["tensors"].size(), 2u * 7 * 2);
  for (const auto& tensor : told["tensors"]) {
    EXPECT_EQ(tensor["nan"], 0);
    if (tensor["tensor"].get<std::string>().find("lora_A") != std::string::npos) {
      EXPECT_GT(tensor["norm"], 0.1);
    }
  }
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
  refused("alora_invocation_tokens", {1, 2}, "alora_invocation_tokens = an array is not supported");
  refused("of_a_later_version", 3, "of_a_later_version = 3 is not supported");
  refused("init_lora_weights", "pissa", "such adapters stand beside another base");
  refused("base_model_name_or_path", "owner/name", "\"owner/name\", which is no model folder here");
  refused("peft_type", "IA3", "peft_type = IA3 is not supported; LORA is");
  refused("r", 8, "but r = 8");
  refused("base_model_name_or_path", nullptr, "use --base FOLDER");
  write_file(path, whole);
  EXPECT_EQ(run_to_end({program(), "generate", folder_->exported(), "--prompt", "a"}).code, 1);
  const ProgramEnd full = folder_->tune({"--train.steps=1"});
  ASSERT_EQ(full.code, 0) << full.err;
  EXPECT_NE(merge(folder_->run(), out).err.find("it has no adapters"), std::string::npos);
  const ProgramEnd model = merge(folder_->base(), out);
  EXPECT_EQ(model.code, 1);
  EXPECT_NE(model.err.find("is a whole model; a run that trained adapters"), std::string::npos)
      << model.err;
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
