// Patterns of names and adapters: what they choose, and what is refused in which words.
#include "recipes/train/freezing.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "recipes/train/plan.h"
#include "tests/recipes/cli/recipe_helpers.h"

namespace trireme {
namespace {

Recipe small(std::vector<std::string> flags, const std::string& family = "llama") {
  for (const char* flag : {"--model.layers=2", "--model.hidden=16", "--model.heads=4",
                           "--model.ffn=32", "--batch.sequence=8", "--precision.compute=f32"})
    flags.emplace_back(flag);
  flags.push_back("--model.family=" + family);
  Recipe r = testing::parse("", std::move(flags));
  resolve_for_machine(r, {}, 64);
  return r;
}

std::string refusal(std::vector<std::string> flags, const std::string& family = "llama") {
  try {
    engine_options(small(std::move(flags), family));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(Freezing, PatternsChooseLogicalTensors) {
  EXPECT_FALSE(engine_options(small({})).stage.plan.frozen);
  const auto frozen =
      engine_options(small({"--train.freeze=embedding.*, layers.0.*"})).stage.plan.frozen;
  EXPECT_TRUE(frozen("embedding.table"));
  EXPECT_TRUE(frozen("layers.0.attention.qkv.weight"));
  EXPECT_TRUE(frozen("layers.0.norm1.weight"));
  EXPECT_FALSE(frozen("layers.1.attention.qkv.weight"));
  EXPECT_FALSE(frozen("norm.weight"));
  const auto only = engine_options(small({"--train.train_only=*norm*"})).stage.plan.frozen;
  EXPECT_TRUE(only("layers.1.mlp.up.weight"));
  EXPECT_FALSE(only("layers.1.norm2.weight"));
}

TEST(Freezing, RefusalsSayWhatThereIs) {
  EXPECT_EQ(refusal({"--train.freeze=layers.0.attention.query.weight"}),
            "train.freeze = layers.0.attention.query.weight: no parameter of this model matches "
            "\"layers.0.attention.query.weight\"; did you mean layers.0.attention.q.weight?");
  EXPECT_NE(refusal({"--train.train_only=xyz*"}).find("it has embedding.table, "),
            std::string::npos);
  EXPECT_EQ(refusal({"--train.freeze=layers.0.attention.k.weight"}),
            "train.freeze = layers.0.attention.k.weight: layers.0.attention.q.weight, "
            "layers.0.attention.k.weight and layers.0.attention.v.weight are one matrix here; "
            "freeze all of them, or none");
  EXPECT_EQ(refusal({"--train.freeze=*"}),
            "train.freeze = * leaves nothing to train; let a parameter be trained");
  EXPECT_EQ(refusal({"--lora.rank=4", "--lora.targets=q_proj,query"}),
            "lora.targets = q_proj,query: model.family = llama has no linear \"query\"; use "
            "all-linear, or some of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and "
            "down_proj, with commas between them");
  EXPECT_NE(
      refusal({"--lora.rank=4", "--lora.targets=q_proj"}, "gpt2")
          .find("use all-linear, or some of c_attn, c_proj, c_fc, attn.c_proj and mlp.c_proj"),
      std::string::npos);
  EXPECT_NE(refusal({"--lora.rank=4", "--train.freeze=*lora*"}).find("leaves nothing to train"),
            std::string::npos);
}

// Row 38 of the inference list: alpha / r, or alpha / sqrt(r).
TEST(Lora, ScaleIsAlphaOverRankOrItsRoot) {
  EXPECT_EQ(lora_scale({.rank = 4, .alpha = 8}), 2.0);
  EXPECT_EQ(lora_scale({.rank = 4, .alpha = 8, .rslora = true}), 4.0);
}

// The toy has 16 columns and a feed-forward layer of 32.
TEST(Lora, ARankThatNoTargetCanHaveIsRefused) {
  EXPECT_EQ(refusal({"--lora.rank=16"}), "none");
  EXPECT_EQ(refusal({"--lora.rank=17"}),
            "lora.rank = 17: no linear of lora.targets = all-linear has more than 16 inputs and "
            "outputs, so a rank above 16 learns nothing more; use 1 to 16");
  const std::vector<std::string> two_heads = {"--model.kv_heads=2", "--lora.rank=9"};
  EXPECT_EQ(refusal(two_heads), "none");
  std::vector<std::string> keys = two_heads;
  keys.emplace_back("--lora.targets=k_proj,v_proj");
  EXPECT_NE(refusal(keys).find("use 1 to 8"), std::string::npos);
  EXPECT_EQ(refusal({"--lora.rank=16", "--lora.targets=c_attn"}, "gpt2"), "none");
  EXPECT_NE(refusal({"--lora.rank=4096"}, "gpt2").find("use 1 to 16"), std::string::npos);
}

TEST(Lora, TargetsAreThoseOfPeft) {
  const LoraOptions all = engine_options(small({"--lora.rank=4"})).model.lora;
  EXPECT_EQ(all.targets,
            (std::vector<std::string>{"attention.q", "attention.k", "attention.v",
                                      "attention.output", "mlp.gate", "mlp.up", "mlp.down"}));
  const LoraOptions two =
      engine_options(small({"--lora.rank=4", "--lora.targets=q_proj, v_proj"})).model.lora;
  EXPECT_TRUE(two.adapts("layers.0.attention.v"));
  EXPECT_FALSE(two.adapts("layers.0.attention.k"));
  const EngineOptions gpt2 = engine_options(small({"--lora.rank=4"}, "gpt2"));
  EXPECT_EQ(gpt2.model.lora.targets,
            (std::vector<std::string>{"attention.qkv", "attention.output", "mlp.down", "mlp.up"}));
  EXPECT_TRUE(gpt2.stage.plan.frozen("layers.0.mlp.up.weight"));
  EXPECT_FALSE(gpt2.stage.plan.frozen("layers.0.attention.qkv.lora_A.weight"));
}

TEST(Lora, KeysOfARecipe) {
  const auto problem = [](std::vector<std::string> flags) {
    try {
      testing::parse("", std::move(flags));
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_NE(problem({"--lora.alpha=8"}).find("lora.rank = off"), std::string::npos);
  EXPECT_NE(problem({"--lora.rank=4", "--lora.dropout=0.1"}).find("lora.dropout"),
            std::string::npos);
  EXPECT_NE(problem({"--lora.rank=4", "--model.family=mlp"}).find("mlp has no adapters"),
            std::string::npos);
  EXPECT_NE(problem({"--lora.rank=4", "--train.train_only=*"}).find("only adapters are trained"),
            std::string::npos);
  EXPECT_NE(problem({"--train.freeze=a*", "--train.train_only=b*"}).find("use one"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
