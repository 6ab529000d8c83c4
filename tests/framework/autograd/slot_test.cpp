// Gradient slots: what is shared is never written, what is owned is added to in place.
#include "framework/autograd/ops.h"
#include "framework/base/error.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

class Slots : public ::testing::Test {
 protected:
  Tensor f64(const std::vector<double>& v) {
    return tensor(*backend_, {1, static_cast<std::int64_t>(v.size())}, DType::kF64, v);
  }
  std::unique_ptr<Backend> backend_ = make_reference_backend(std::make_shared<MemoryLedger>());
  Tape tape_;
  Context ctx_{.backend = *backend_, .tape = &tape_, .compute = DType::kF64};
};

TEST_F(Slots, AddsInPlaceOnlyWhenAlone) {
  GradSlot slot;
  const Tensor shared = f64({1, 2});
  slot.add(*backend_, shared);
  slot.add(*backend_, f64({10, 10}));
  EXPECT_EQ(values(*backend_, shared), (std::vector<double>{1, 2}));
  Tensor sum = slot.take();
  EXPECT_EQ(values(*backend_, sum), (std::vector<double>{11, 12}));
  EXPECT_TRUE(slot.empty());

  const void* place = sum.data();
  slot.add(*backend_, std::move(sum));
  slot.add(*backend_, f64({1, 1}));
  EXPECT_EQ(slot.take().data(), place);
}

TEST_F(Slots, SumsOfMixedTypesAreWide) {
  GradSlot slot;
  slot.add(*backend_, tensor(*backend_, {1, 1}, DType::kBF16, {256}));
  slot.add(*backend_, tensor(*backend_, {1, 1}, DType::kF32, {1}));
  slot.add(*backend_, tensor(*backend_, {1, 1}, DType::kBF16, {1}));
  const Tensor sum = slot.take();
  EXPECT_EQ(sum.dtype(), DType::kF32);
  EXPECT_EQ(values(*backend_, sum), std::vector<double>{258});
  slot.add(*backend_, f64({1, 2}));
  EXPECT_THROW(slot.add(*backend_, f64({1})), Error);
}

TEST_F(Slots, OnlyAnOwnedGradientOfTheRightTypeMayBeTakenToAddTo) {
  GradSlot slot;
  EXPECT_FALSE(slot.take_if_owned(DType::kF64));
  Tensor held = f64({1});
  slot.add(*backend_, held);
  EXPECT_FALSE(slot.take_if_owned(DType::kF64));
  held = Tensor();
  EXPECT_FALSE(slot.take_if_owned(DType::kF32));
  EXPECT_TRUE(slot.take_if_owned(DType::kF64));
  EXPECT_TRUE(slot.empty());
}

// y = x + f(x) hands one tensor to two slots; f's backward must not scribble over it.
TEST_F(Slots, ResidualsDoNotAlias) {
  const Var x = make_var(f64({1, 2, 3, 4}), true);
  const RngKey key = key_from_seed(3);
  ctx_.rng = key;
  const Var dropped = dropout(ctx_, x, {.site = 1, .p = 0.5});  // its backward likes to be in place
  const Var y = add(ctx_, x, add(ctx_, dropped, x));            // x twice, and dropped
  y.grad->add(*backend_, f64({1, 1, 1, 1}));
  tape_.run_backward();
  const std::vector<double> kept = values(*backend_, dropped.value), in = {1, 2, 3, 4};
  std::vector<double> expected;
  for (std::size_t i = 0; i < in.size(); ++i) expected.push_back(2 + kept[i] / in[i]);
  EXPECT_EQ(values(*backend_, x.grad->take()), expected);
}

// The gradient handed in stays as it was, whatever the graph makes of it.
TEST_F(Slots, AnOpNeverWritesIntoAGradientThatSomebodyHolds) {
  const Var x = make_var(f64({1, 2, 3, 4}), true);
  ctx_.rng = key_from_seed(3);
  const Var y = dropout(ctx_, x, {.site = 1, .p = 0.5});
  const Tensor dy = f64({5, 6, 7, 8});
  y.grad->add(*backend_, dy);
  tape_.run_backward();
  EXPECT_EQ(values(*backend_, dy), (std::vector<double>{5, 6, 7, 8}));
}

TEST_F(Slots, NormsAddIntoAnOwnedGradient) {
  Parameter weight({.name = "w", .shape = {2}, .sections = {whole_section("w", {2})}});
  weight.value = tensor(*backend_, {2}, DType::kF64, {1, 1});
  weight.grad = backend_->zeros({2}, DType::kF64, MemoryKind::kGradients);
  const auto gradient = [&](bool residual) {
    const Var x = make_var(f64({1, 3}), true);
    Var y = rms_norm(ctx_, x, weight, 0);
    if (residual) y = add(ctx_, x, y);
    y.grad->add(*backend_, f64({1, 0}));
    tape_.run_backward();
    weight.reset_written();
    return values(*backend_, x.grad->take());
  };
  const std::vector<double> plain = gradient(false), residual = gradient(true);
  EXPECT_EQ(residual, (std::vector<double>{plain[0] + 1, plain[1]}));
}

TEST_F(Slots, NobodyAsksNothingIsRecorded) {
  const Var x = make_var(f64({1, 2}), false);
  const Var y = add(ctx_, x, activation(ctx_, x, Activation::kRelu, false));
  EXPECT_FALSE(y.wants_grad());
  EXPECT_TRUE(tape_.empty());
}

}  // namespace
}  // namespace trireme::test
