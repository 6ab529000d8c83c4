// Products of operands that this CPU does not multiply: they are those of f32, whatever blocks the
// operands are converted in.
#include "tests/framework/backend/cpu/support.h"

namespace trireme::cpu_test {
namespace {

struct Case {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate, bias;
  DType c;
};

constexpr DType kF16 = DType::kF16, kF32 = DType::kF32;

class Converted : public ::testing::TestWithParam<Case> {
 protected:
  // The product of f16 values; as f32, they are multiplied as they are.
  static Values product(const Case& p, DType operands, DType result) {
    auto b = cpu();
    const auto narrow = [&](Shape shape, std::uint64_t seed) {
      Tensor x = upload(*b, shape, kF16, random_values(shape.elements(), seed));
      if (operands == kF16) return x;
      Tensor wide = b->allocate(shape, operands, MemoryKind::kActivations);
      b->kernels()->cast(x, wide);
      return wide;
    };
    const Tensor x = narrow(p.transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k}, 1);
    const Tensor y = narrow(p.transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n}, 2);
    Tensor c = b->allocate({p.m, p.n}, result, MemoryKind::kActivations);
    b->kernels()->cast(narrow({p.m, p.n}, 3), c);
    b->kernels()->matmul({.a = x,
                          .b = y,
                          .c = c,
                          .transpose_a = p.transpose_a,
                          .transpose_b = p.transpose_b,
                          .accumulate = p.accumulate,
                          .bias = p.bias ? narrow({p.n}, 4) : Tensor()});
    return download(*b, c);
  }
};

TEST_P(Converted, BlocksMakeTheProductOfF32) {
  const Case& p = GetParam();
  EXPECT_LT(distance(product(p, kF16, p.c), product(p, kF32, kF32)), p.c == kF16 ? 5e-4 : 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Converted,
                         ::testing::Values(Case{5, 1100, 1040, false, true, false, true, kF16},
                                           Case{1030, 7, 2100, true, false, true, false, kF32},
                                           Case{1030, 9, 1025, true, true, true, false, kF16},
                                           Case{1025, 1025, 17, false, false, false, false, kF32},
                                           Case{33, 2050, 1030, false, true, false, true, kF32}));

TEST(ConvertedProduct, IsRoundedOnceOverAllBlocks) {
  auto b = cpu();
  // 2048 + 2048 x 2^-1: in f16, 2048 + 1/2 is 2048, and blocks that were rounded would lose halves.
  const std::int64_t k = 2049;
  Values x(static_cast<std::size_t>(k), 0.5);
  x[0] = 2048;
  const Tensor a = upload(*b, {1, k}, kF16, x),
               ones = upload(*b, {k, 1}, kF16, Values(x.size(), 1));
  const Tensor c = b->allocate({1, 1}, kF16, MemoryKind::kActivations);
  b->kernels()->matmul({.a = a, .b = ones, .c = c});
  EXPECT_EQ(download(*b, c), Values{3072});
}

TEST(ConvertedProduct, WorkspaceIsBounded) {
  auto ledger = std::make_shared<MemoryLedger>();
  auto b = make_cpu_backend(ledger, 2);
  const Tensor a = b->zeros({1, 1024}, kF16, MemoryKind::kActivations);
  const Tensor table = b->zeros({20000, 1024}, kF16, MemoryKind::kActivations);
  const Tensor c = b->zeros({1, 20000}, kF16, MemoryKind::kActivations);
  b->kernels()->matmul({.a = a, .b = table, .c = c, .transpose_b = true});
  // 80 MiB if the table were converted at once.
  const std::int64_t most = ledger->entry(Tier::kDevice, MemoryKind::kWorkspace).peak;
  EXPECT_GE(most, std::int64_t{3} << 20);
  EXPECT_LE(most, std::int64_t{14} << 20);
}

}  // namespace
}  // namespace trireme::cpu_test
