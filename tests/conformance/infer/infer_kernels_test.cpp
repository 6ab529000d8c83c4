// Kernels of inference on every backend: products against plain sums, attention over pages against
// the training kernel's on the whole sequence, and what may not change a bit.
#include "framework/backend/infer_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "framework/base/random.h"
#include "tests/support/guarded_backend.h"

namespace trireme::test {
namespace {

struct Case {
  std::string name;
  std::function<std::unique_ptr<Backend>(int threads)> make;
  DType compute;
  double tolerance;  // relative to the largest
};

std::shared_ptr<MemoryLedger> ledger() { return std::make_shared<MemoryLedger>(); }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const double eps = t == DType::kF64    ? 1e-13
                       : t == DType::kF32  ? 3e-6
                       : t == DType::kBF16 ? 1e-2
                                           : 2e-3;
    const std::string type(name_of(t));
    all.push_back({"guarded_" + type, [](int) { return make_guarded_backend(ledger()); }, t, eps});
    if (t != DType::kF64)
      all.push_back(
          {"cpu_" + type, [](int threads) { return make_cpu_backend(ledger(), threads); }, t, eps});
  }
  return all;
}

class InferKernelsTest : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Backend> backend(int threads = 2) {
    try {
      return GetParam().make(threads);
    } catch (const Error&) {
      return nullptr;  // a build without the cpu backend
    }
  }
  // Standard normal numbers, by name.
  Tensor random(Backend& b, Shape shape, const std::string& name, DType type) {
    std::vector<double> values(static_cast<std::size_t>(shape.elements()));
    const RngKey key = key_from_seed(7).child(name);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(key, i);
    Tensor x = b.allocate(shape, type, MemoryKind::kActivations);
    upload_doubles(b, values, x);
    return x;
  }
  DType compute() const { return GetParam().compute; }

  void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    double largest = 0;
    for (const double x : expected) largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], GetParam().tolerance * largest) << i;
  }
};

TEST_P(InferKernelsTest, LinearIsAPlainSum) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  for (const auto& [m, n, k] : {std::array{1, 5, 7},
                                {3, 64, 64},
                                {17, 72, 96},
                                {33, 100, 64},
                                {70, 33, 32},
                                {2, 1, 1},
                                {5, 40, 33},
                                {20, 65, 75},
                                {3, 32, 1}}) {
    const Tensor x = random(*b, {m, k}, "x", compute()), w = random(*b, {n, k}, "w", compute());
    const Tensor bias = random(*b, {n}, "bias", compute());
    const Tensor y = b->allocate({m, n}, accumulation_type(compute()), MemoryKind::kActivations);
    b->infer_kernels()->linear(x, w, bias, y);
    const auto xs = download_doubles(*b, x), ws = download_doubles(*b, w),
               bs = download_doubles(*b, bias);
    std::vector<double> expected;
    for (int r = 0; r < m; ++r)
      for (int c = 0; c < n; ++c)
        expected.push_back(std::inner_product(xs.begin() + r * k, xs.begin() + (r + 1) * k,
                                              ws.begin() + c * k, bs[static_cast<std::size_t>(c)]));
    expect_near(download_doubles(*b, y), expected);
  }
}

// Inputs up to two tiles and a bit, outputs around a band of two tiles, rows around one and two
// groups of a tile: each tail of the products that pad, band and group.
TEST_P(InferKernelsTest, TailsOfLinearsArePlainSums) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  const bool loops = b->name() != "cpu";  // no tails in it
  constexpr std::int64_t kMost = 33;
  for (std::int64_t k = 1; k <= 70; k += loops ? 23 : 1)
    for (const std::int64_t n : {1, 31, 32, 45}) {
      const Tensor x = random(*b, {kMost, k}, "x", compute()),
                   w = random(*b, {n, k}, "w", compute());
      const auto xs = download_doubles(*b, x), ws = download_doubles(*b, w);
      std::vector<double> expected;
      for (std::int64_t r = 0; r < kMost; ++r)
        for (std::int64_t c = 0; c < n; ++c)
          expected.push_back(std::inner_product(xs.begin() + r * k, xs.begin() + (r + 1) * k,
                                                ws.begin() + c * k, 0.0));
      for (const std::int64_t m : {1, 2, 15, 16, 17, 33}) {
        SCOPED_TRACE("M " + std::to_string(m) + ", N " + std::to_string(n) + ", K " +
                     std::to_string(k));
        const Tensor y =
            b->allocate({m, n}, accumulation_type(compute()), MemoryKind::kActivations);
        b->infer_kernels()->linear(x.sliced_rows(0, m), w, {}, y);
        expect_near(download_doubles(*b, y), {expected.begin(), expected.begin() + m * n});
        if (HasFatalFailure()) return;
      }
    }
}

// By tiles, by vectors, and both with their tails. Types that a library multiplies: up to 32 rows.
TEST_P(InferKernelsTest, ARowOfALinearDependsNeitherOnOtherRowsNorOnThreads) {
  const auto b = backend(), alone = backend(1);
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  for (const auto& [n, k] : {std::array{104, 96}, {33, 50}, {40, 71}, {7, 64}}) {
    const bool own = compute() == DType::kBF16 && cpu_multiplies_bf16();
    const std::int64_t most = b->name() != "cpu" ? 101 : own ? 300 : 32;
    const Tensor x = random(*b, {most, k}, "x", compute()), w = random(*b, {n, k}, "w", compute());
    const Tensor bias = random(*b, {n}, "bias", compute());
    const Tensor all = b->allocate({most, n}, compute(), MemoryKind::kActivations);
    b->infer_kernels()->linear(x, w, bias, all);
    const auto expected = download_doubles(*b, all);
    const Tensor x1 = random(*alone, {most, k}, "x", compute()),
                 w1 = random(*alone, {n, k}, "w", compute()),
                 bias1 = random(*alone, {n}, "bias", compute());
    for (const std::int64_t m : {1, 2, 7, 8, 9, 16, 33, 64, 100})
      for (std::int64_t r = m % 5; r + m <= most; r += 103) {
        const Tensor some = alone->allocate({m, n}, compute(), MemoryKind::kActivations);
        alone->infer_kernels()->linear(x1.sliced_rows(r, r + m), w1, bias1, some);
        const auto got = download_doubles(*alone, some);
        ASSERT_TRUE(std::equal(got.begin(), got.end(), expected.begin() + r * n))
            << m << " rows from " << r << " on, W (" << n << ", " << k << ")";
      }
  }
}

// What tile() does to a weight changes no bit of what is read from it.
TEST_P(InferKernelsTest, TiledWeightsGiveTheSameBits) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  const auto kernels = b->infer_kernels();
  if (!kernels->tiles(random(*b, {32, 64}, "w", compute()))) {
    EXPECT_THROW(kernels->tile(random(*b, {32, 64}, "w", compute())), Error);
    if (b->name() == "cpu" && compute() == DType::kBF16) GTEST_SKIP() << "no matrix tiles here";
    return;
  }
  for (const auto& [n, k] : {std::array{16, 32}, {24, 64}, {32, 48}})
    EXPECT_EQ(kernels->tiles(random(*b, {n, k}, "w", compute())), n % 16 == 0 && k % 32 == 0);
  for (const auto& [n, k] : {std::array{32, 32}, {48, 96}, {1040, 160}}) {
    const Tensor w = random(*b, {n, k}, "w", compute()), tiled = random(*b, {n, k}, "w", compute());
    kernels->tile(tiled);
    const Tensor bias = random(*b, {n}, "bias", compute());
    for (const std::int64_t m : {1, 2, 15, 16, 17, 31, 32, 33, 255, 300})
      for (const DType out : {compute(), accumulation_type(compute())}) {
        const Tensor x = random(*b, {m, k}, "x", compute());
        const Tensor add = m % 2 ? bias : Tensor();
        const Tensor expected = b->allocate({m, n}, out, MemoryKind::kActivations),
                     got = b->allocate({m, n}, out, MemoryKind::kActivations);
        kernels->linear(x, w, add, expected);
        kernels->tiled_linear(x, tiled, add, got);
        ASSERT_EQ(download_doubles(*b, got), download_doubles(*b, expected))
            << m << " rows, W (" << n << ", " << k << "), " << name_of(out);
      }
    const Tensor ids = b->allocate({6}, DType::kI32, MemoryKind::kActivations);
    upload_ids(*b, std::vector<std::int32_t>{7, 100, 6, 116, n + 99, n + 100}, ids);
    for (const DType out : {compute(), accumulation_type(compute())}) {
      const Tensor rows = b->allocate({6, k}, out, MemoryKind::kActivations),
                   expected = b->allocate({6, k}, out, MemoryKind::kActivations);
      kernels->tiled_lookup(ids, tiled, 100, rows);
      b->kernels()->embedding(ids, w, 100, expected);
      EXPECT_EQ(download_doubles(*b, rows), download_doubles(*b, expected));
    }
  }
}

// A few sequences of one layer, with a cache that is filled chunk by chunk.
struct Layer {
  std::int64_t heads, kv_heads, head_dim, window;
  bool rotary;
};

class Sequences {
 public:
  Sequences(Backend& b, DType compute, const Layer& layer, std::vector<std::int64_t> lengths,
            std::vector<Tensor> qkv)
      : b_(b),
        compute_(compute),
        layer_(layer),
        lengths_(std::move(lengths)),
        qkv_(std::move(qkv)) {
    std::int64_t pages = 0;
    for (const std::int64_t n : lengths_) pages += pages_for(n);
    const Shape shape{pages + 3, layer.kv_heads, kPageTokens * layer.head_dim};
    pages_.keys = b.zeros(shape, kv_type(compute), MemoryKind::kKvCache);
    pages_.values = b.zeros(shape, kv_type(compute), MemoryKind::kKvCache);
    // Pages of the sequences take turns, from the last on.
    auto next = static_cast<std::int32_t>(pages + 2);
    tables_.resize(lengths_.size());
    for (std::int64_t i = 0; i < pages; ++i)
      for (std::size_t s = 0; s < lengths_.size(); ++s)
        if (std::ssize(tables_[s]) < pages_for(lengths_[s])) tables_[s].push_back(next--);
    done_.resize(lengths_.size(), 0);
    out_.resize(lengths_.size());
  }

  KvPages& pages() { return pages_; }

  PagedAttention spec(std::span<const PagedSequence> sequences) const {
    return {.heads = layer_.heads,
            .kv_heads = layer_.kv_heads,
            .head_dim = layer_.head_dim,
            .scale = 0.3,
            .window = layer_.window,
            .rotary = layer_.rotary,
            .theta = 100.0,
            .sequences = sequences};
  }

  // The next rows[s] rows of each sequence, in one batch.
  void step(const std::vector<std::int64_t>& rows) {
    std::vector<PagedSequence> batch;
    std::int64_t total = 0;
    for (std::size_t s = 0; s < rows.size(); ++s) {
      if (rows[s] == 0) continue;
      batch.push_back({total, rows[s], done_[s], tables_[s]});
      total += rows[s];
    }
    const std::int64_t width = (layer_.heads + 2 * layer_.kv_heads) * layer_.head_dim;
    const Tensor qkv = b_.allocate({total, width}, compute_, MemoryKind::kActivations);
    const Tensor out =
        b_.allocate({total, layer_.heads * layer_.head_dim}, compute_, MemoryKind::kActivations);
    std::int64_t at = 0;
    for (std::size_t s = 0; s < rows.size(); ++s) {
      if (rows[s] == 0) continue;
      b_.copy(qkv_[s].sliced_rows(done_[s], done_[s] + rows[s]), qkv.sliced_rows(at, at + rows[s]));
      at += rows[s];
    }
    b_.infer_kernels()->append(spec(batch), qkv, pages_);
    b_.infer_kernels()->attention(spec(batch), qkv, pages_, out);
    at = 0;
    for (std::size_t s = 0; s < rows.size(); ++s) {
      if (rows[s] == 0) continue;
      const auto values = download_doubles(b_, out.sliced_rows(at, at + rows[s]));
      out_[s].insert(out_[s].end(), values.begin(), values.end());
      done_[s] += rows[s];
      at += rows[s];
    }
  }
  bool ended() const { return done_ == lengths_; }
  std::int64_t left(std::size_t s) const { return lengths_[s] - done_[s]; }
  const std::vector<std::vector<double>>& out() const { return out_; }

 private:
  Backend& b_;
  DType compute_;
  Layer layer_;
  std::vector<std::int64_t> lengths_, done_;
  std::vector<Tensor> qkv_;
  KvPages pages_;
  std::vector<std::vector<std::int32_t>> tables_;
  std::vector<std::vector<double>> out_;
};

class PagedAttentionTest : public InferKernelsTest {
 protected:
  static std::int64_t width(const Layer& l) { return (l.heads + 2 * l.kv_heads) * l.head_dim; }
  std::vector<Tensor> inputs(Backend& b, const Layer& l, const std::vector<std::int64_t>& lengths) {
    std::vector<Tensor> qkv;
    for (std::size_t s = 0; s < lengths.size(); ++s)
      qkv.push_back(random(b, {lengths[s], width(l)}, "qkv" + std::to_string(s), compute()));
    return qkv;
  }
  // The whole sequence by the training kernels.
  std::vector<double> whole(Backend& b, const Layer& l, const Tensor& input) {
    const std::int64_t n = input.rows();
    const Tensor qkv = b.allocate(input.shape(), compute(), MemoryKind::kActivations);
    b.copy(input, qkv);
    if (l.rotary)
      b.kernels()->rotary(
          {.tokens = n, .heads = l.heads + l.kv_heads, .head_dim = l.head_dim, .theta = 100.0},
          qkv);
    const Tensor out = b.allocate({n, l.heads * l.head_dim}, compute(), MemoryKind::kActivations);
    const Tensor lse =
        b.allocate({l.heads, n}, accumulation_type(compute()), MemoryKind::kActivations);
    b.kernels()->attention({.batch = 1,
                            .tokens = n,
                            .heads = l.heads,
                            .kv_heads = l.kv_heads,
                            .head_dim = l.head_dim,
                            .scale = 0.3,
                            .window = l.window},
                           qkv, out, lse);
    return download_doubles(b, out);
  }
};

constexpr Layer kLayers[] = {{4, 4, 8, 0, false},
                             {9, 3, 64, 0, true},
                             {4, 1, 20, 19, true},
                             {2, 2, 16, 70, false},
                             {3, 1, 128, 0, true}};

TEST_P(PagedAttentionTest, ChunksAndStepsAreTheWholeSequence) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  const std::vector<std::int64_t> lengths{101, 1, 300, 64, 37};
  for (const Layer& l : kLayers) {
    const auto qkv = inputs(*b, l, lengths);
    Sequences s(*b, compute(), l, lengths, qkv);
    s.step({75, 1, 130, 0, 3});  // prompts, long and short
    s.step({1, 0, 64, 64, 1});
    while (!s.ended()) {
      std::vector<std::int64_t> rows;
      for (std::size_t i = 0; i < lengths.size(); ++i)
        rows.push_back(std::min<std::int64_t>(s.left(i), i == 2 ? 9 : 1));
      s.step(rows);
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) expect_near(s.out()[i], whole(*b, l, qkv[i]));
  }
}

TEST_P(PagedAttentionTest, ASequenceDependsNeitherOnOthersNorOnThreads) {
  const auto b = backend(3), alone = backend(1);
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  const std::vector<std::int64_t> lengths{101, 40, 290};
  const Layer l = kLayers[1];
  Sequences together(*b, compute(), l, lengths, inputs(*b, l, lengths));
  together.step({70, 39, 280});
  while (!together.ended()) {
    std::vector<std::int64_t> rows;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      rows.push_back(std::min<std::int64_t>(together.left(i), 1));
    together.step(rows);
  }
  Sequences single(*alone, compute(), l, lengths, inputs(*alone, l, lengths));
  single.step({70, 0, 0});
  single.step({0, 39, 0});
  single.step({0, 0, 280});
  for (std::size_t i = 0; i < lengths.size(); ++i)
    while (single.left(i) > 0) {
      std::vector<std::int64_t> rows(lengths.size(), 0);
      rows[i] = 1;
      single.step(rows);
    }
  EXPECT_EQ(single.out(), together.out());
}

// Chunks, shared prefixes and preemption cut a sequence anywhere: no bit changes, whether a pass
// has few of its rows or many, and on how many threads.
TEST_P(PagedAttentionTest, ARowIsTheSameHoweverItsSequenceIsCut) {
  const auto b = backend(2), alone = backend(1);
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  const bool slow = b->name() != "cpu";
  const std::int64_t n = 570;  // two spans, nine tiles
  for (const Layer& l : {kLayers[1], kLayers[2], kLayers[3], Layer{20, 1, 32, 540, true}}) {
    Sequences whole(*alone, compute(), l, {n}, inputs(*alone, l, {n}));
    whole.step({n});
    const auto expect_same = [&](Backend& on, std::vector<std::int64_t> rows) {
      Sequences s(on, compute(), l, {n}, inputs(on, l, {n}));
      for (std::size_t i = 0; !s.ended(); ++i) s.step({std::min(rows[i % rows.size()], s.left(0))});
      ASSERT_TRUE(s.out() == whole.out())
          << rows[0] << " rows at a time, heads " << l.heads << "/" << l.kv_heads << " of "
          << l.head_dim << ", window " << l.window;
    };
    expect_same(*b, {5, 11, 18, 8, 33, 9, 64, 2, 1, 7, 16});
    if (slow) break;
    for (const std::int64_t rows : {1, 2, 7, 8, 9, 16, 33, 64, 100, 257})
      expect_same(rows % 2 == 0 ? *b : *alone, {rows});
  }
}

// Pages are used again by others: what an earlier owner left there, be it NaN, is never seen.
TEST_P(PagedAttentionTest, WhatAnEarlierOwnerLeftInPagesIsNeverSeen) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  const std::vector<std::int64_t> lengths{21, 85};
  const Layer l = kLayers[1];
  const auto qkv = inputs(*b, l, lengths);
  Sequences s(*b, compute(), l, lengths, qkv);
  for (const Tensor& half : {s.pages().keys, s.pages().values})
    b->kernels()->fill(half, std::numeric_limits<double>::quiet_NaN());
  s.step({17, 73});
  while (!s.ended())
    s.step({std::min<std::int64_t>(1, s.left(0)), std::min<std::int64_t>(1, s.left(1))});
  for (std::size_t i = 0; i < lengths.size(); ++i) expect_near(s.out()[i], whole(*b, l, qkv[i]));
}

TEST_P(PagedAttentionTest, OperandsThatDoNotFitAreRefused) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  const Tensor qkv = b->zeros({2, 24}, compute(), MemoryKind::kActivations);
  const Tensor half = b->zeros({2, 1, kPageTokens * 8}, kv_type(compute()), MemoryKind::kKvCache);
  const std::vector<std::int32_t> table{0}, outside{2};
  const auto refused = [&](PagedSequence s, std::int64_t head_dim) {
    const PagedAttention a{
        .heads = 1, .kv_heads = 1, .head_dim = head_dim, .sequences = std::span(&s, 1)};
    EXPECT_THROW(b->infer_kernels()->append(a, qkv, {half, half}), Error);
  };
  refused({0, 3, 0, table}, 8);    // more rows than the batch has
  refused({0, 2, 15, table}, 8);   // 17 positions on one page
  refused({0, 2, 0, outside}, 8);  // a page that is not there
  refused({0, 2, 0, table}, 12);   // another head size
}

INSTANTIATE_TEST_SUITE_P(All, InferKernelsTest, ::testing::ValuesIn(cases()),
                         [](const auto& with) { return with.param.name; });
INSTANTIATE_TEST_SUITE_P(All, PagedAttentionTest, ::testing::ValuesIn(cases()),
                         [](const auto& with) { return with.param.name; });

}  // namespace
}  // namespace trireme::test
