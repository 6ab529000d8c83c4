// Values known beforehand, and the independence of shards, on every backend.
#include <cmath>

#include "tests/conformance/backend/backends.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

using Values = std::vector<double>;

class ExactValues : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    std::string why;
    backend_ = make(GetParam(), why);
    if (!backend_) GTEST_SKIP() << why;
  }
  DType compute() const { return GetParam().compute; }
  DType wide() const { return accumulation_type(compute()); }
  double small() const {
    if (compute() == DType::kF64) return 1e-14;
    return compute() == DType::kF32 ? 1e-6 : compute() == DType::kF16 ? 6e-4 : 4e-3;
  }
  Tensor made(Shape shape, const Values& x) { return tensor(*backend_, shape, compute(), x); }
  Tensor blank(Shape shape, DType dtype) {
    return backend_->allocate(shape, dtype, MemoryKind::kActivations);
  }
  Values read(const Tensor& x) { return values(*backend_, x); }

  std::unique_ptr<Backend> backend_;
};

TEST_P(ExactValues, PaddingColumnsStayOutOfTheLoss) {  // P1: V = 5 padded to 6, all logits 0
  const CrossEntropy c = {.first_column = 0, .valid = 5, .vocab = 5};
  const Tensor logits = backend_->zeros({1, 6}, compute(), MemoryKind::kActivations);
  const Tensor labels = ids(*backend_, {3}), max = blank({1}, wide()), sums = blank({1, 3}, wide());
  const Tensor total = backend_->zeros({1}, DType::kF64, MemoryKind::kActivations);
  const Tensor dlogits = blank({1, 6}, compute());
  backend_->kernels()->row_max(c, logits, max);
  backend_->kernels()->cross_entropy_sums(c, logits, max, labels, sums);
  backend_->kernels()->cross_entropy_loss(c, sums, labels, total);
  backend_->train_kernels()->cross_entropy_backward(c, logits, max, sums, labels, 1.0, dlogits);
  EXPECT_NEAR(read(total)[0], std::log(5.0), 1e-6);
  EXPECT_TRUE(close(read(dlogits), {0.2, 0.2, 0.2, -0.8, 0.2, 0.0}, small()));
  EXPECT_EQ(read(dlogits)[5], 0.0);
}

// One row over two shards, reduced by hand as a caller does over the tensor ranks.
TEST_P(ExactValues, ShardsOfTheLossMakeTheWhole) {  // P4: the shard without the target learns, too
  const Values whole = {0.5, -1.0, 2.0, 0.25, 1.5, 0.0};
  const CrossEntropy shards[] = {{.first_column = 0, .valid = 3, .vocab = 5},
                                 {.first_column = 3, .valid = 2, .vocab = 5}};
  const Tensor logits[] = {made({1, 3}, {0.5, -1.0, 2.0}), made({1, 3}, {0.25, 1.5, 99.0})};
  const Tensor labels = ids(*backend_, {1}), max = tensor(*backend_, {1}, wide(), {2.0});
  Values reduced(3, 0.0);
  for (int s = 0; s < 2; ++s) {
    const Tensor own_max = blank({1}, wide()), sums = blank({1, 3}, wide());
    backend_->kernels()->row_max(shards[s], logits[s], own_max);
    EXPECT_EQ(read(own_max)[0], s == 0 ? 2.0 : 1.5);
    backend_->kernels()->cross_entropy_sums(shards[s], logits[s], max, labels, sums);
    for (std::size_t i = 0; i < 3; ++i) reduced[i] += read(sums)[i];
  }
  const Tensor sums = tensor(*backend_, {1, 3}, wide(), reduced);
  double z = 0;
  for (std::size_t i = 0; i < 5; ++i) z += std::exp(whole[i]);
  const Tensor total = backend_->zeros({1}, DType::kF64, MemoryKind::kActivations);
  backend_->kernels()->cross_entropy_loss(shards[0], sums, labels, total);
  EXPECT_NEAR(read(total)[0], std::log(z) + 1.0, 1e-5);
  Values gradient;
  for (int s = 0; s < 2; ++s) {
    const Tensor dlogits = blank({1, 3}, compute());
    backend_->train_kernels()->cross_entropy_backward(shards[s], logits[s], max, sums, labels, 2.0,
                                                      dlogits);
    for (double g : read(dlogits)) gradient.push_back(g);
  }
  Values expected;
  for (std::size_t i = 0; i < 5; ++i)
    expected.push_back(2.0 * (std::exp(whole[i]) / z - (i == 1 ? 1.0 : 0.0)));
  expected.push_back(0.0);  // padding
  EXPECT_TRUE(close(gradient, expected, small()));
}

TEST_P(ExactValues, AShardOfPaddingOnlyCountsForNothing) {
  const CrossEntropy c = {.first_column = 6, .valid = 0, .vocab = 5};
  const Tensor logits = made({2, 3}, Values(6, 7.0)), labels = ids(*backend_, {1, 4});
  const Tensor max = blank({2}, wide()), sums = blank({2, 3}, wide());
  backend_->kernels()->row_max(c, logits, max);
  EXPECT_EQ(read(max), Values(2, -HUGE_VAL));
  backend_->kernels()->cross_entropy_sums(c, logits, tensor(*backend_, {2}, wide(), {7.0, 7.0}),
                                          labels, sums);
  EXPECT_EQ(read(sums), Values(6, 0.0));
}

TEST_P(ExactValues,
       ManySmallAddendsAreNotLost) {  // 1 + 512 x 2^-9 = 2; in bf16 alone it would stay 1
  std::vector<Tensor> pieces = {made({1}, {1.0})};
  for (int i = 0; i < 512; ++i) pieces.push_back(made({1}, {0x1p-9}));
  const Tensor sum = blank({1}, compute());
  backend_->kernels()->sum_in_order(pieces, sum);
  EXPECT_EQ(read(sum)[0], 2.0);
  Values column(513, 0x1p-9);
  column[0] = 1.0;
  const Tensor total = blank({1}, compute());
  backend_->train_kernels()->column_sum(made({513, 1}, column), total, false);
  EXPECT_EQ(read(total)[0], 2.0);
  const Tensor product = blank({1, 1}, compute());
  backend_->kernels()->matmul(
      {.a = made({1, 513}, column), .b = made({513, 1}, Values(513, 1.0)), .c = product});
  EXPECT_EQ(read(product)[0], 2.0);
}

TEST_P(ExactValues, DropoutOfAShardIsAShardOfDropout) {
  Dropout d = {.key = key_from_seed(6),
               .threshold = dropout_threshold(0.5),
               .scale = 2.0,
               .total_columns = 24};
  const Values ones(8 * 24, 1.0);
  const Tensor whole = blank({8, 24}, compute());
  backend_->kernels()->dropout(d, made({8, 24}, ones), whole);
  const Values mask = read(whole);
  d.first_row = 3;
  d.first_column = 7;
  const Tensor part = blank({2, 13}, compute());
  backend_->kernels()->dropout(d, made({2, 13}, Values(26, 1.0)), part);
  const Values shard = read(part);
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t c = 0; c < 13; ++c) EXPECT_EQ(shard[r * 13 + c], mask[(r + 3) * 24 + c + 7]);
  int kept = 0;
  for (double m : mask) {
    EXPECT_TRUE(m == 0.0 || m == 2.0) << m;
    kept += m != 0.0;
  }
  EXPECT_NEAR(kept, 96, 35);  // five standard deviations
}

TEST_P(ExactValues, AttentionOfAHeadShardIsAShardOfAttention) {
  Attention a = {.batch = 1, .tokens = 6, .heads = 2, .kv_heads = 2, .head_dim = 4, .scale = 0.5};
  a.dropout =
      Dropout{.key = key_from_seed(7), .threshold = dropout_threshold(0.4), .scale = 1 / 0.6};
  a.total_heads = 2;
  const Values x = normals(6 * 24, 1);
  Values second;  // the columns of head 1
  for (std::size_t t = 0; t < 6; ++t)
    for (std::size_t part = 0; part < 3; ++part)
      for (std::size_t i = 0; i < 4; ++i) second.push_back(x[t * 24 + part * 8 + 4 + i]);
  const Tensor whole = blank({6, 8}, compute()), half = blank({6, 4}, compute());
  const Tensor lse = blank({2, 6}, wide()), half_lse = blank({1, 6}, wide());
  backend_->kernels()->attention(a, made({6, 24}, x), whole, lse);
  a.heads = a.kv_heads = 1;
  a.first_head = 1;
  backend_->kernels()->attention(a, made({6, 12}, second), half, half_lse);
  Values expected;
  for (std::size_t t = 0; t < 6; ++t)
    for (std::size_t i = 0; i < 4; ++i) expected.push_back(read(whole)[t * 8 + 4 + i]);
  EXPECT_TRUE(close(read(half), expected, small()));
}

TEST_P(ExactValues, SumOfSquaresCountsWhatIsNotFinite) {
  const Tensor out = tensor(*backend_, {2}, DType::kF64, {1.0, 10.0});
  backend_->train_kernels()->sum_of_squares(made({4}, {3.0, 4.0, 0.0, -1.0}), out);
  EXPECT_EQ(read(out), (Values{1.0, 36.0}));
  backend_->train_kernels()->sum_of_squares(made({4}, {HUGE_VAL, 4.0, NAN, -HUGE_VAL}), out);
  EXPECT_EQ(read(out)[0], 4.0);
}

TEST_P(ExactValues, EmptyTensorsAreDefined) {
  const Tensor x = backend_->zeros({0, 4}, compute(), MemoryKind::kGradients);
  EXPECT_TRUE(x.defined());
  EXPECT_EQ(backend_->ledger().current(Tier::kDevice), 0);
  backend_->upload(nullptr, x);
  backend_->download(x, nullptr);
  backend_->copy(x, backend_->allocate({0}, compute(), MemoryKind::kGradients));
}

TEST_P(ExactValues, CopyRefusesOverlapAndOtherTypes) {
  const Tensor x = made({4}, {1, 2, 3, 4});
  EXPECT_ANY_THROW(backend_->copy(x.elements_at(0, {3}), x.elements_at(1, {3})));
  EXPECT_ANY_THROW(backend_->copy(x, blank({4}, DType::kI32)));
  backend_->copy(x.elements_at(0, {2}), x.elements_at(2, {2}));
  EXPECT_EQ(read(x), (Values{1, 2, 1, 2}));
}

TEST_P(ExactValues, IntegersAreMovedAsTheyAre) {
  const Tensor x = ids(*backend_, {1, -2, 0x7fffffff}), y = blank({3}, DType::kI32);
  backend_->kernels()->cast(x, y);
  EXPECT_TRUE(same_bits(*backend_, x, y));
  EXPECT_ANY_THROW(backend_->kernels()->cast(x, blank({3}, compute())));
}

INSTANTIATE_TEST_SUITE_P(Backends, ExactValues, ::testing::ValuesIn(all_targets()),
                         [](const auto& target) { return text(target.param); });

}  // namespace
}  // namespace trireme::test
