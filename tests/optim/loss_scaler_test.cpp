// The dynamic loss scale rule by rule.
#include "optim/loss_scaler.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "framework/base/error.h"

namespace trireme::test {
namespace {

// The scale of the backward after each step: '.' is a good one, 'x' an overflow.
std::vector<double> scales(const LossScaleOptions& options, std::string_view steps) {
  LossScaler scaler(options);
  std::vector<double> all{scaler.scale()};
  for (const char step : steps) {
    scaler.update(step == 'x');
    all.push_back(scaler.scale());
  }
  return all;
}

using Scales = std::vector<double>;

TEST(LossScaler, AFixedScaleNeverChanges) {
  EXPECT_EQ(scales({.initial = 128, .window = 1, .hysteresis = 1}, ".x.x"), Scales(5, 128));
  EXPECT_EQ(scales({}, "xx.."), Scales(5, 1));
}

TEST(LossScaler, ItIsDoubledAfterAWindowOfGoodSteps) {
  EXPECT_EQ(scales({.dynamic = true, .initial = 65536, .window = 3}, "......"),
            (Scales{65536, 65536, 65536, 131072, 131072, 131072, 262144}));
}

TEST(LossScaler, TheWindowBeginsAnewAfterAnOverflow) {
  const LossScaleOptions options{.dynamic = true, .initial = 8, .window = 3, .hysteresis = 9};
  EXPECT_EQ(scales(options, "..x...."), (Scales{8, 8, 8, 8, 8, 8, 16, 16}));
}

TEST(LossScaler, HysteresisForgivesTheFirstOverflowOnly) {
  EXPECT_EQ(scales({.dynamic = true, .initial = 64, .hysteresis = 2}, "xx.x"),
            (Scales{64, 64, 32, 32, 16}));
  EXPECT_EQ(scales({.dynamic = true, .initial = 64, .hysteresis = 1}, "xx"), (Scales{64, 32, 16}));
  EXPECT_EQ(scales({.dynamic = true, .initial = 64, .hysteresis = 3}, "xxx"),
            (Scales{64, 64, 64, 32}));
}

TEST(LossScaler, OnlyADoublingRestoresHysteresis) {
  const LossScaleOptions options{.dynamic = true, .initial = 64, .window = 3, .hysteresis = 2};
  EXPECT_EQ(scales(options, "x..x"), (Scales{64, 64, 64, 64, 32}));  // good steps do not
  EXPECT_EQ(scales(options, "x...xx"), (Scales{64, 64, 64, 64, 128, 128, 64}));
}

TEST(LossScaler, ItIsNotHalvedBelowTheMinimum) {
  EXPECT_EQ(scales({.dynamic = true, .initial = 10, .hysteresis = 1, .minimum = 3}, "xxx"),
            (Scales{10, 5, 3, 3}));
}

TEST(LossScaler, NumbersWithoutMeaningAreRefused) {
  EXPECT_THROW(LossScaler({.initial = 0}), Error);
  EXPECT_THROW(LossScaler({.dynamic = true, .window = 0}), Error);
  EXPECT_THROW(LossScaler({.dynamic = true, .hysteresis = 0}), Error);
  EXPECT_THROW(LossScaler({.dynamic = true, .initial = 2, .minimum = 4}), Error);
}

}  // namespace
}  // namespace trireme::test
