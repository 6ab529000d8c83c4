// The optimizers give the same bits on every backend and for every split of the range into tiles.
#include <algorithm>

#include "framework/base/error.h"
#include "tests/conformance/backend/backends.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

constexpr std::int64_t kCount = 1003;

struct State {
  Tensor w, m, v, g, weights;
  State part(std::int64_t begin, std::int64_t count) const {
    const auto cut = [&](const Tensor& x) { return x.elements_at(begin, {count}); };
    return {cut(w), cut(m), cut(v), cut(g), cut(weights)};
  }
};

State start(Backend& backend, DType wide, DType gradient, DType compute) {
  State s = {
      random_tensor(backend, {kCount}, wide, 1), random_tensor(backend, {kCount}, wide, 2, 0.01),
      random_tensor(backend, {kCount}, wide, 3), random_tensor(backend, {kCount}, gradient, 4),
      backend.allocate({kCount}, compute, MemoryKind::kParameters)};
  std::vector<double> squares = values(backend, s.v);
  for (double& v : squares) v *= v;
  s.v = tensor(backend, {kCount}, wide, squares);
  return s;
}

void adam(Backend& backend, const State& s) {
  backend.train_kernels()->adam({.lr = 1e-3,
                                 .weight_decay = 0.1,
                                 .l2 = 0.01,
                                 .bias1 = 0.271,
                                 .bias2 = 0.002997,
                                 .gradient_factor = 0.37},
                                s.w, s.m, s.v, s.g, s.weights);
}

void sgd(Backend& backend, const State& s) {
  backend.train_kernels()->sgd(
      {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .gradient_factor = 0.37}, s.w, s.m, s.g,
      s.weights);
}

class OptimizerBits : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    std::string why;
    backend_ = make(GetParam(), why);
    if (!backend_) GTEST_SKIP() << why;
  }
  State start_on(Backend& backend) const {
    const DType compute = GetParam().compute;
    return start(backend, accumulation_type(compute), compute, compute);
  }
  static void expect_same(Backend& a, const State& x, Backend& b, const State& y) {
    for (auto member : {&State::w, &State::m, &State::v, &State::weights})
      EXPECT_EQ(values(a, x.*member), values(b, y.*member));
  }

  std::unique_ptr<Backend> backend_;
};

TEST_P(OptimizerBits, DoNotDependOnTheBackend) {
  const auto reference = make_reference_backend(std::make_shared<MemoryLedger>());
  for (auto* step : {adam, sgd}) {
    const State expected = start_on(*reference), got = start_on(*backend_);
    for (int i = 0; i < 3; ++i) {
      step(*reference, expected);
      step(*backend_, got);
    }
    expect_same(*backend_, got, *reference, expected);
  }
}

TEST_P(OptimizerBits, DoNotDependOnTiles) {
  for (auto* step : {adam, sgd}) {
    const State whole = start_on(*backend_);
    step(*backend_, whole);
    for (std::int64_t tile : {1, 7, 64, 500}) {
      const State tiled = start_on(*backend_);
      for (std::int64_t begin = 0; begin < kCount; begin += tile)
        step(*backend_, tiled.part(begin, std::min(tile, kCount - begin)));
      expect_same(*backend_, tiled, *backend_, whole);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, OptimizerBits, ::testing::ValuesIn(all_targets()),
                         [](const auto& target) { return text(target.param); });

// PyTorch's AdamW written out by hand for one weight and one step.
TEST(AdamW, OneStepByHand) {
  const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
  const auto one = [&](double x) { return tensor(*backend, {1}, DType::kF64, {x}); };
  const Tensor w = one(2.0), m = one(0.0), v = one(0.0);
  backend->train_kernels()->adam(
      {.lr = 0.1, .beta2 = 0.99, .weight_decay = 0.5, .bias1 = 0.1, .bias2 = 0.01}, w, m, v,
      one(4.0), {});
  // Decay: 2 - 0.1 * 0.5 * 2 = 1.9; m = 0.4, v = 0.16; the step is lr * (0.4 / 0.1) / (sqrt(0.16 /
  // 0.01) + 1e-8).
  EXPECT_NEAR(values(*backend, w)[0], 1.9 - 0.1 * 4.0 / (4.0 + 1e-8), 1e-14);
  EXPECT_NEAR(values(*backend, m)[0], 0.4, 1e-15);
  EXPECT_NEAR(values(*backend, v)[0], 0.16, 1e-15);
}

TEST(Sgd, MomentumStartsWithTheGradient) {
  const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
  const auto one = [&](double x) { return tensor(*backend, {1}, DType::kF64, {x}); };
  const Tensor w = one(1.0), buffer = one(77.0);
  SgdStep s = {.lr = 0.5, .momentum = 0.5, .first = true};
  backend->train_kernels()->sgd(s, w, buffer, one(1.0), {});
  EXPECT_EQ(values(*backend, w)[0], 0.5);
  s.first = false;
  backend->train_kernels()->sgd(s, w, buffer, one(1.0), {});  // buffer 1.5
  EXPECT_EQ(values(*backend, w)[0], -0.25);
  EXPECT_THROW(backend->train_kernels()->sgd(s, w, {}, one(1.0), {}), Error);
}

}  // namespace
}  // namespace trireme::test
