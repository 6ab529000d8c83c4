// Update rules against hand-computed steps, schedules against closed forms, the clip factor.
#include "optim/optimizer.h"

#include <cmath>
#include <numbers>

#include "optim/lr_schedule.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

class Rules : public ::testing::Test {
 protected:
  Tensor f64(double v) { return tensor(*backend_, {1}, DType::kF64, {v}); }
  double value(const Tensor& x) { return values(*backend_, x)[0]; }
  std::unique_ptr<Backend> backend_ = make_reference_backend(std::make_shared<MemoryLedger>());
};

TEST_F(Rules, AdamWDecaysBeforeTheUpdate) {
  const OptimizerOptions options{.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1};
  ASSERT_EQ(moments(options), 2);
  OptimizerRange range{.master = f64(2), .states = {f64(0), f64(0)}, .gradient = f64(4)};
  apply(*backend_, options, {.number = 1, .lr = 0.5, .gradient_factor = 0.5}, range);
  // g = 2; m_hat = 2, v_hat = 4: one step of lr * 2 / (2 + eps) after w (1 - lr * decay).
  EXPECT_NEAR(value(range.master), 2 * (1 - 0.05) - 0.5 * 2 / (2 + 1e-8), 1e-15);
  EXPECT_NEAR(value(range.states[0]), 0.2, 1e-16);
  EXPECT_NEAR(value(range.states[1]), 0.04, 1e-16);
  range.decay = false;
  const double before = value(range.master);
  apply(*backend_, options, {.number = 2, .lr = 0.5, .gradient_factor = 0.5}, range);
  EXPECT_NEAR(value(range.master), before - 0.5 * 2 / (2 + 1e-8), 1e-12);
}

TEST_F(Rules, AdamCouplesDecayToTheGradient) {
  const OptimizerOptions options{.kind = OptimizerKind::kAdam, .weight_decay = 0.5};
  OptimizerRange range{.master = f64(2), .states = {f64(0), f64(0)}, .gradient = f64(3)};
  apply(*backend_, options, {.number = 1, .lr = 0.25}, range);
  EXPECT_NEAR(value(range.states[0]), 0.1 * 4, 1e-15);  // g + 0.5 * 2
  EXPECT_NEAR(value(range.master), 2 - 0.25, 1e-8);
}

TEST_F(Rules, SgdWithMomentumAsTorch) {
  const OptimizerOptions options{
      .kind = OptimizerKind::kSgd, .momentum = 0.5, .weight_decay = 0.25};
  ASSERT_EQ(moments(options), 1);
  OptimizerRange range{.master = f64(4), .states = {f64(77)}, .gradient = f64(1)};
  apply(*backend_, options, {.number = 1, .lr = 1}, range);  // buffer = g = 1 + 0.25 * 4
  EXPECT_EQ(value(range.states[0]), 2);
  EXPECT_EQ(value(range.master), 2);
  apply(*backend_, options, {.number = 2, .lr = 1}, range);  // 0.5 * 2 + (1 + 0.25 * 2)
  EXPECT_EQ(value(range.states[0]), 2.5);
  EXPECT_EQ(value(range.master), -0.5);
  EXPECT_EQ(moments({.kind = OptimizerKind::kSgd}), 0);
}

TEST(Clip, IsMinOfOneAndTheRatio) {
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(100, 0), 1);  // off
  EXPECT_EQ(clip_factor(4, 1), 1 / (4 + 1e-6));
  EXPECT_EQ(clip_factor(1, 1), 1 / (1 + 1e-6));
  EXPECT_EQ(clip_factor(0, 1), 1);
}

TEST(LrSchedules, WarmUpThenTheirShape) {
  LrSchedule s{.lr = 8, .min_lr = 2, .warmup = 4, .steps = 11};
  for (LrShape shape : {LrShape::kConstant, LrShape::kLinear, LrShape::kCosine, LrShape::kWsd}) {
    s.shape = shape;
    for (int k = 0; k < 4; ++k) EXPECT_EQ(s.at(k), 8.0 * (k + 1) / 4) << k;
    EXPECT_EQ(s.at(4), 8);
    EXPECT_DOUBLE_EQ(s.at(11), shape == LrShape::kConstant ? 8 : 2);
    EXPECT_EQ(s.at(1000), s.at(11));
    EXPECT_GT(s.at(10), 2);  // no step is wasted on the lowest rate
  }
}

TEST(LrSchedules, ClosedForms) {
  const LrSchedule linear{.shape = LrShape::kLinear, .lr = 10, .min_lr = 0, .steps = 10};
  const LrSchedule cosine{.shape = LrShape::kCosine, .lr = 10, .min_lr = 2, .steps = 10};
  for (int k = 0; k <= 10; ++k) {
    EXPECT_DOUBLE_EQ(linear.at(k), 10.0 - k);
    EXPECT_DOUBLE_EQ(cosine.at(k), 2 + 4 * (1 + std::cos(std::numbers::pi * k / 10)));
  }
  const LrSchedule wsd{.shape = LrShape::kWsd, .lr = 6, .min_lr = 0, .steps = 20, .decay = 3};
  EXPECT_EQ(wsd.at(16), 6);
  EXPECT_EQ(wsd.at(17), 6);
  EXPECT_EQ(wsd.at(18), 4);
  EXPECT_EQ(wsd.at(19), 2);
  EXPECT_EQ(wsd.at(20), 0);
}

TEST(LrSchedules, DegenerateLengths) {
  for (LrShape shape : {LrShape::kConstant, LrShape::kLinear, LrShape::kCosine, LrShape::kWsd}) {
    const LrSchedule one{.shape = shape, .lr = 3, .min_lr = 1, .steps = 1};
    EXPECT_EQ(one.at(0), 3);
    const LrSchedule all_warmup{.shape = shape, .lr = 3, .min_lr = 1, .warmup = 5, .steps = 5};
    EXPECT_EQ(all_warmup.at(4), 3);
  }
}

}  // namespace
}  // namespace trireme::test
