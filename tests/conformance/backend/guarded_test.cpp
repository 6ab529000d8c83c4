// The guarded backend crashes on a stray access, and only on a stray one.
#include "framework/base/error.h"
#include "tests/support/guarded_backend.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

class Guarded : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_guarded_backend(std::make_shared<MemoryLedger>());
  Tensor x_ = tensor(*backend_, {4}, DType::kF32, {1, 2, 3, 4});
};
using GuardedDeathTest = Guarded;

float read_element(const Tensor& x) { return *static_cast<volatile float*>(x.data()); }
void write_element(const Tensor& x) { *static_cast<volatile float*>(x.data()) = 7.0f; }

TEST_F(GuardedDeathTest, AStrayAccessCrashes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(read_element(x_), "");
  EXPECT_DEATH(write_element(x_), "");
}

TEST_F(GuardedDeathTest, AccessEndsWithTheLastOfNestedCalls) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto peer = make_guarded_backend(std::make_shared<MemoryLedger>());
  backend_->begin_access();
  peer->begin_access();
  EXPECT_EQ(read_element(x_), 1.0f);
  backend_->end_access();
  EXPECT_EQ(read_element(x_), 1.0f);  // a peer's call is still open: it may read our memory
  peer->end_access();
  EXPECT_DEATH(read_element(x_), "");
}

TEST_F(GuardedDeathTest, AFailedKernelClosesAccess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_THROW(backend_->kernels()->matmul({.a = x_, .b = x_, .c = x_}), Error);
  EXPECT_DEATH(read_element(x_), "");
}

TEST_F(Guarded, CallsReachTheMemory) {
  backend_->kernels()->scale(x_, 2.0);
  EXPECT_EQ(values(*backend_, x_), (std::vector<double>{2, 4, 6, 8}));
}

TEST_F(Guarded, NewMemoryIsNanAndFreedMemoryIsUsedAgain) {
  const void* place = nullptr;
  {
    const Tensor y = backend_->zeros({1000}, DType::kF64, MemoryKind::kActivations);
    place = y.data();
  }
  const Tensor y = backend_->allocate({1000}, DType::kF64, MemoryKind::kActivations);
  EXPECT_EQ(y.data(), place);
  for (double value : values(*backend_, y)) ASSERT_NE(value, value);
}

}  // namespace
}  // namespace trireme::test
