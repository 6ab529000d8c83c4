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
