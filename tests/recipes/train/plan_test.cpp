// What a recipe's precision becomes on a machine.
#include "recipes/train/plan.h"

#include <gtest/gtest.h>

#include "tests/recipes/cli/recipe_helpers.h"

namespace trireme {
namespace {

Recipe recipe(const std::string& compute, const std::string& device, bool bf16) {
  Recipe r =
      testing::parse("[precision]\ncompute = " + compute + "\n", {"--device.kind=" + device});
  resolve_for_machine(r, {.bf16 = bf16}, 256);
  return r;
}

TEST(Plan, AutoIsBf16OnlyWhereTheCpuMultipliesIt) {
  EXPECT_EQ(recipe("auto", "cpu", true).precision.compute, "bf16");
  EXPECT_EQ(recipe("auto", "cpu", false).precision.compute, "f32");
  EXPECT_EQ(recipe("auto", "reference", true).precision.compute, "f32");
}

// P28 of our list of public reports: the ranks of a machine share its cores, none gets all or one.
TEST(Plan, P28_ThreadsOfARankAreCoresOverLocalRanks) {
  const auto threads = [](int cores, int local_ranks, std::vector<std::string> flags = {}) {
    Recipe r = testing::parse("", std::move(flags));
    resolve_for_machine(r, {.cores = cores, .local_ranks = local_ranks}, 256);
    return r.parallel.threads;
  };
  EXPECT_EQ(threads(16, 1), 16);
  EXPECT_EQ(threads(16, 8), 2);
  EXPECT_EQ(threads(16, 3), 5);
  EXPECT_EQ(threads(2, 8), 1);
  EXPECT_EQ(threads(16, 8, {"--parallel.threads=3"}), 3);
}

TEST(Plan, SixteenBitsThatAreOnlyStoredAreKnown) {
  const auto stored = [](const std::string& compute, const std::string& device, bool bf16) {
    return is_storage_only(recipe(compute, device, bf16), {.bf16 = bf16});
  };
  EXPECT_TRUE(stored("f16", "cpu", true));
  EXPECT_TRUE(stored("bf16", "cpu", false));
  EXPECT_FALSE(stored("bf16", "cpu", true));
  EXPECT_FALSE(stored("f32", "cpu", false));
  EXPECT_FALSE(stored("f16", "reference", false));  // slow in any format
}

TEST(Plan, SwitchesOfAModel) {
  const auto model = [](std::vector<std::string> flags) {
    flags.push_back("--precision.compute=f32");
    return engine_options(testing::parse("", flags)).model;
  };
  const ModelOptions gpt2 = model({"--model.positions=1024"});
  EXPECT_TRUE(gpt2.bias);
  EXPECT_FALSE(gpt2.qkv_bias || gpt2.qk_norm || gpt2.scale_embeddings);
  EXPECT_EQ(gpt2.norm_eps, 1e-5);
  EXPECT_EQ(gpt2.positions, 1024);
  const ModelOptions llama =
      model({"--model.family=llama", "--model.rope_scaling=llama3:32,1,4,8192"});
  EXPECT_FALSE(llama.bias || llama.qkv_bias);
  EXPECT_EQ(llama.activation, Activation::kSilu);
  EXPECT_EQ(llama.rope_scaling, (RopeScaling{.kind = RopeScaling::Kind::kLlama3,
                                             .factor = 32,
                                             .low = 1,
                                             .high = 4,
                                             .original = 8192}));
  const ModelOptions all =
      model({"--model.family=llama", "--model.bias=qkv", "--model.qk_norm", "--model.norm=rms1",
             "--model.norm_eps=1e-6", "--model.activation=geglu", "--model.rope_scaling=linear:2.5",
             "--model.window=7", "--model.scale_embeddings", "--model.ffn=auto"});
  EXPECT_TRUE(!all.bias && all.qkv_bias && all.qk_norm && all.gated && all.scale_embeddings);
  EXPECT_EQ(all.activation, Activation::kGeluTanh);
  EXPECT_EQ(all.norm, NormKind::kRmsNormPlusOne);
  EXPECT_EQ(all.norm_eps, 1e-6);
  EXPECT_EQ(all.rope_scaling.factor, 2.5);
  EXPECT_EQ(all.window, 7);
  EXPECT_EQ(all.ffn, 1024);  // 8/3 of 384, as every gated layer
}

TEST(Plan, OnlyF16HasADynamicLossScale) {
  Recipe r = recipe("f16", "cpu", true);
  r.precision.loss_scale_window = 7;
  r.precision.loss_scale_hysteresis = 3;
  r.precision.min_loss_scale = 2;
  const LossScaleOptions dynamic = engine_options(r).optimizer.loss_scale;
  EXPECT_TRUE(dynamic.dynamic);
  EXPECT_EQ(dynamic.initial, 65536);
  EXPECT_EQ(dynamic.window, 7);
  EXPECT_EQ(dynamic.hysteresis, 3);
  EXPECT_EQ(dynamic.minimum, 2);
  for (const char* compute : {"f32", "bf16"}) {
    const LossScaleOptions none = engine_options(recipe(compute, "cpu", true)).optimizer.loss_scale;
    EXPECT_FALSE(none.dynamic);
    EXPECT_EQ(none.initial, 1);
  }
}

TEST(Plan, AFixedLossScaleIsForEveryFormat) {
  for (const char* compute : {"f32", "bf16", "f16"}) {
    Recipe r = recipe(compute, "cpu", true);
    r.precision.loss_scale = 128;
    const LossScaleOptions fixed = engine_options(r).optimizer.loss_scale;
    EXPECT_FALSE(fixed.dynamic);
    EXPECT_EQ(fixed.initial, 128);
  }
}

TEST(Plan, GradientsAreWideOrOfTheComputeType) {
  Recipe r = recipe("f16", "cpu", true);
  EXPECT_EQ(engine_options(r).stage.gradients, DType::kF32);
  r.precision.gradients = "compute";
  EXPECT_EQ(engine_options(r).stage.gradients, DType::kF16);
}

}  // namespace
}  // namespace trireme
