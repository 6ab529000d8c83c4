#include "tests/framework/backend/cpu/support.h"

namespace trireme::cpu_test {
namespace {

struct Results {
  Values out, lse, dqkv;
};

Results run(Backend& b, const Attention& a, DType type) {
  const std::int64_t rows = a.batch * a.tokens;
  const std::int64_t in = (a.heads + 2 * a.kv_heads) * a.head_dim, width = a.heads * a.head_dim;
  const Tensor qkv = upload(b, {rows, in}, type, random_values(rows * in, 1));
  const Tensor dout = upload(b, {rows, width}, type, random_values(rows * width, 2));
  const Tensor out = b.allocate({rows, width}, type, MemoryKind::kActivations);
  const Tensor lse =
      b.allocate({a.batch * a.heads, a.tokens}, DType::kF32, MemoryKind::kActivations);
  const Tensor dqkv = b.allocate({rows, in}, type, MemoryKind::kActivations);
  b.kernels()->attention(a, qkv, out, lse);
  b.train_kernels()->attention_backward(a, qkv, out, lse, dout, dqkv);
  return {download(b, out), download(b, lse), download(b, dqkv)};
}

// The reference computes what bf16 operands hold, in f32.
Results expected(const Attention& a, DType type) {
  auto b = reference();
  if (type == DType::kF32) return run(*b, a, type);
  const std::int64_t rows = a.batch * a.tokens;
  const std::int64_t in = (a.heads + 2 * a.kv_heads) * a.head_dim, width = a.heads * a.head_dim;
  const auto rounded = [&](Shape shape, std::uint64_t seed) {
    return upload(*b, shape, DType::kF32,
                  download(*b, upload(*b, shape, type, random_values(shape.elements(), seed))));
  };
  const Tensor qkv = rounded({rows, in}, 1), dout = rounded({rows, width}, 2);
  const Tensor out = b->allocate({rows, width}, DType::kF32, MemoryKind::kActivations);
  const Tensor lse =
      b->allocate({a.batch * a.heads, a.tokens}, DType::kF32, MemoryKind::kActivations);
  const Tensor dqkv = b->allocate({rows, in}, DType::kF32, MemoryKind::kActivations);
  b->kernels()->attention(a, qkv, out, lse);
  b->train_kernels()->attention_backward(a, qkv, out, lse, dout, dqkv);
  return {download(*b, out), download(*b, lse), download(*b, dqkv)};
}

void compare(const Attention& a, DType type, double tolerance) {
  SCOPED_TRACE(::testing::Message() << name_of(type) << " D " << a.head_dim << " T " << a.tokens
                                    << " kv " << a.kv_heads << (a.dropout ? " dropout" : ""));
  const Results want = expected(a, type);
  for (const int threads : {1, 3}) {  // 3: queries split, blocks shared
    if (threads == 3 && (a.tokens < 200 || a.kv_heads == 4)) continue;
    auto b = cpu(threads);
    const Results have = run(*b, a, type);
    EXPECT_LT(distance(have.out, want.out), tolerance);
    EXPECT_LT(distance(have.lse, want.lse), tolerance);
    EXPECT_LT(distance(have.dqkv, want.dqkv), tolerance);
  }
}

Attention shape(std::int64_t d, std::int64_t t, std::int64_t kv, bool dropout) {
  Attention a{.batch = t > 64 ? 1 : 2,
              .tokens = t,
              .heads = 4,
              .kv_heads = kv,
              .head_dim = d,
              .scale = 1.0 / std::sqrt(static_cast<double>(d))};
  if (dropout) {
    a.dropout =
        Dropout{.key = key_from_seed(7), .threshold = dropout_threshold(0.25), .scale = 1.0 / 0.75};
    a.first_sample = 3;
    a.first_head = 1;
    a.total_heads = 8;
  }
  return a;
}

class AttentionOfHeadSize : public ::testing::TestWithParam<int> {};

TEST_P(AttentionOfHeadSize, MatchesReference) {
  for (const std::int64_t t : {1, 7, 64, 65, 200})
    for (const std::int64_t kv : {1, 2, 4})
      for (const bool dropout : {false, true}) {
        if (dropout && t == 64) continue;
        compare(shape(GetParam(), t, kv, dropout), DType::kF32, 2e-5);
        compare(shape(GetParam(), t, kv, dropout), DType::kBF16, 2e-2);
        compare(shape(GetParam(), t, kv, dropout), DType::kF16, 3e-3);
      }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionOfHeadSize, ::testing::Values(8, 11, 16, 64, 80, 128));

TEST(Attention, LargeScoresDoNotOverflow) {
  Attention a = shape(16, 130, 4, false);
  a.scale = 40.0;
  compare(a, DType::kF32, 1e-3);
}

TEST(Attention, SameBitsTwice) {
  auto b = cpu(2);
  const Attention a = shape(64, 200, 2, true);
  const Results first = run(*b, a, DType::kF32), second = run(*b, a, DType::kF32);
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(first.dqkv, second.dqkv);
}

}  // namespace
}  // namespace trireme::cpu_test
