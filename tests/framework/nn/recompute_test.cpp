// Recomputation runs the child again with the same masks, in full or in halves.
#include "framework/nn/recompute.h"

#include <algorithm>

#include "framework/autograd/ops.h"
#include "framework/nn/norm.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

// x -> dropout(act(norm(x))): something that draws, has a weight and is not linear.
class Drawing : public Module {
 public:
  Drawing() : norm_("norm", {.columns = 4}) {}
  Var forward(const Context& ctx, const Var& x) override {
    ++runs_;
    const Var y = activation(ctx, norm_.forward(ctx, x), Activation::kGeluTanh, false);
    return dropout(ctx, y, {.site = 9, .p = 0.5});
  }
  void visit(const ParameterFn& fn) override { norm_.visit(fn); }
  int runs() const { return runs_; }

 private:
  Norm norm_;
  int runs_ = 0;
};

struct Result {
  std::vector<double> y, dx, weight, bias;
  bool operator==(const Result&) const = default;
};

class Recomputation : public ::testing::Test {
 protected:
  void place(Module& module) {
    module.visit([&](Parameter& p) {
      p.value = random_tensor(*backend_, p.spec().shape, DType::kF64, 1);
      p.grad = backend_->zeros(p.spec().shape, DType::kF64, MemoryKind::kGradients);
      p.reset_written();
    });
  }

  Result run(Module& module, bool split, bool remake = false) {
    place(module);
    Tape tape;
    const Context ctx{.backend = *backend_,
                      .tape = &tape,
                      .rng = key_from_seed(2),
                      .samples = 3,
                      .remake_cheap_outputs = remake,
                      .compute = DType::kF64};
    const Var x = make_var(random_tensor(*backend_, {3, 4}, DType::kF64, 7), true);
    Var y = module.forward(ctx, x);
    Result result{.y = values(*backend_, y.value)};
    y.grad->add(*backend_, random_tensor(*backend_, {3, 4}, DType::kF64, 8));
    if (split) {
      tape.run_backward_input();
      tape.drain();
    } else {
      tape.run_backward();
    }
    result.dx = values(*backend_, x.grad->take());
    std::vector<std::vector<double>> gradients;
    module.visit([&](Parameter& p) { gradients.push_back(values(*backend_, p.grad)); });
    result.weight = gradients[0];
    result.bias = gradients[1];
    return result;
  }

  std::unique_ptr<Backend> backend_ = make_reference_backend(std::make_shared<MemoryLedger>());
  KeepOnDevice store_;
};

TEST_F(Recomputation, HasTheSameBitsWithDropout) {
  Drawing plain;
  auto child = std::make_unique<Drawing>();
  Drawing& again = *child;
  Recompute recomputed(std::move(child), store_);
  const Result expected = run(plain, false);
  EXPECT_GT(std::count(expected.y.begin(), expected.y.end(), 0.0), 0);  // something was dropped
  EXPECT_EQ(run(recomputed, false), expected);
  EXPECT_EQ(again.runs(), 2);
  EXPECT_EQ(run(recomputed, true), expected);
  EXPECT_EQ(run(plain, false, true), expected);  // selective
}

TEST_F(Recomputation, WithoutATapeRunsOnce) {
  auto child = std::make_unique<Drawing>();
  Drawing& again = *child;
  Recompute recomputed(std::move(child), store_);
  place(recomputed);
  const Context ctx{.backend = *backend_, .compute = DType::kF64};
  recomputed.forward(ctx, {random_tensor(*backend_, {3, 4}, DType::kF64, 7)});
  EXPECT_EQ(again.runs(), 1);
}

// Only the segment's input lives between forward and backward.
TEST_F(Recomputation, KeepsTheInputAlone) {
  const auto ledger = backend_->shared_ledger();
  const auto held_after_forward = [&](Module& module) {
    place(module);
    Tape tape;
    const Context ctx{.backend = *backend_, .tape = &tape, .samples = 8, .compute = DType::kF64};
    Var x = make_var(random_tensor(*backend_, {8, 4}, DType::kF64, 7), true);
    Var y = module.forward(ctx, x);
    x.value = y.value = Tensor();
    const std::int64_t held = ledger->entry(Tier::kDevice, MemoryKind::kActivations).current;
    tape.run_backward();
    return held;
  };
  Drawing plain;
  Recompute recomputed(std::make_unique<Drawing>(), store_);
  const std::int64_t input = 8 * 4 * 8;
  // The parameters' values are counted as activations here: 2 x 4 doubles.
  EXPECT_GT(held_after_forward(plain), 2 * 4 * 8 + 2 * input);
  plain.visit([](Parameter& p) { p.value = Tensor(); });
  EXPECT_EQ(held_after_forward(recomputed), 2 * 4 * 8 + input);
}

}  // namespace
}  // namespace trireme::test
