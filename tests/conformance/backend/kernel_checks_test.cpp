// Mismatches are refused in words, with the operation's name and the numbers.
#include <gtest/gtest.h>

#include "framework/backend/backend.h"
#include "framework/base/error.h"

namespace trireme::test {
namespace {

class KernelChecks : public ::testing::Test {
 protected:
  Tensor f64(Shape shape) { return backend_->zeros(shape, DType::kF64, MemoryKind::kActivations); }
  Tensor of(DType dtype, Shape shape) {
    return backend_->zeros(shape, dtype, MemoryKind::kActivations);
  }

  template <typename F>
  static std::string message(F&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  std::unique_ptr<Backend> backend_ = make_reference_backend(std::make_shared<MemoryLedger>());
};

TEST_F(KernelChecks, Matmul) {
  EXPECT_EQ(message([&] {
              backend_->kernels()->matmul({.a = f64({2, 3}), .b = f64({4, 5}), .c = f64({2, 5})});
            }),
            "matmul: a is f64 (2, 3) and b is f64 (4, 5): the inner extents 3 and 4 must agree");
  EXPECT_EQ(message([&] {
              backend_->kernels()->matmul({.a = f64({2, 3}), .b = f64({3, 5}), .c = f64({5, 2})});
            }),
            "matmul: c is f64 (5, 2); 2 rows of 5 columns are needed");
  EXPECT_EQ(message([&] {
              backend_->kernels()->matmul(
                  {.a = f64({2, 3}), .b = of(DType::kF32, {3, 5}), .c = f64({2, 5})});
            }),
            "matmul: b is f32 (3, 5); f64 is needed");
  EXPECT_EQ(message([&] {
              backend_->kernels()->matmul({.a = f64({2, 3}),
                                           .b = f64({3, 5}),
                                           .c = f64({2, 5}),
                                           .accumulate = true,
                                           .bias = f64({5})});
            }),
            "matmul: bias and accumulate exclude each other");
  EXPECT_EQ(message([&] {
              backend_->kernels()->matmul({.a = f64({2, 3}), .b = Tensor(), .c = f64({2, 5})});
            }),
            "matmul: b is not defined");
}

TEST_F(KernelChecks, HeadsAndPositions) {
  EXPECT_EQ(message([&] {
              backend_->kernels()->attention(
                  {.batch = 1, .tokens = 2, .heads = 3, .kv_heads = 2, .head_dim = 4}, f64({2, 28}),
                  f64({2, 12}), f64({3, 2}));
            }),
            "attention: 3 query heads cannot share 2 key/value heads evenly");
  EXPECT_EQ(message([&] {
              backend_->kernels()->add_positions(
                  f64({4, 2}), {.tokens = 4, .first_row = 1, .first_position = 2}, f64({3, 2}));
            }),
            "add_positions: position 5 is not in the table of 4 positions");
  EXPECT_EQ(message([&] {
              backend_->kernels()->rotary({.tokens = 2, .heads = 2, .head_dim = 3}, f64({2, 6}));
            }),
            "rotary: head_dim is 3; an even number is needed");
}

TEST_F(KernelChecks, TypesOfStatisticsAndLabels) {
  EXPECT_EQ(message([&] {
              backend_->kernels()->rms_norm(f64({2, 3}), f64({3}), 1e-5, f64({2, 3}),
                                            of(DType::kF32, {2, 1}));
            }),
            "rms_norm: stats is f32 (2, 1); f64 is needed");
  EXPECT_EQ(message([&] {
              backend_->kernels()->cross_entropy_sums({.valid = 7, .vocab = 7}, f64({2, 6}),
                                                      f64({2}), of(DType::kI32, {2}), f64({2, 3}));
            }),
            "cross_entropy_sums: valid = 7 is not within the 6 columns of logits");
  EXPECT_EQ(message([&] {
              backend_->kernels()->activation(Activation::kRelu, true, f64({2, 6}), f64({2, 6}));
            }),
            "activation: x is f64 (2, 6); 2 rows of 12 columns are needed");
}

}  // namespace
}  // namespace trireme::test
