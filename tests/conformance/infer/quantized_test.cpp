// Weights of 8 and 4 bits on every backend: what they stand for, how far that is from the weight,
// products and lookups against plain sums, and what may not change a bit.
#include "framework/backend/quantized.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "framework/backend/host_values.h"
#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"
#include "framework/base/random.h"
#include "tests/support/guarded_backend.h"

namespace trireme::test {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kInt8, WeightFormat::kInt4};

std::shared_ptr<MemoryLedger> ledger() { return std::make_shared<MemoryLedger>(); }

std::vector<float> normals(std::int64_t count, const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(count));
  const RngKey key = key_from_seed(11).child(name);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(random_normal(key, i));
  return values;
}

// A blob on the host.
std::vector<std::uint8_t> blob_of(const QuantizedShape& shape, const QuantizedCut& cut,
                                  const std::vector<float>& values) {
  std::vector<std::uint8_t> blob(static_cast<std::size_t>(shape.bytes()));
  const std::int64_t step = kQuantRows * cut.whole_columns;
  for (std::int64_t b = 0; b < shape.blocks(); ++b)
    quantize_block(shape, cut,
                   std::span(values).subspan(
                       static_cast<std::size_t>(b * step),
                       static_cast<std::size_t>(std::min(step, std::ssize(values) - b * step))),
                   blob.data() + b * shape.block_bytes());
  return blob;
}

void expect_within_half_a_step(const QuantizedShape& shape, const std::vector<float>& values) {
  const auto blob = blob_of(shape, {shape.columns, 0}, values);
  std::vector<float> row(static_cast<std::size_t>(shape.columns));
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    dequantize_row(shape, blob.data(), r, row.data());
    for (std::int64_t c = 0; c < shape.columns; ++c) {
      const double w = values[static_cast<std::size_t>(r * shape.columns + c)];
      const double step = quantized_scale(shape, blob.data(), r, c);
      // The value itself is rounded to f32.
      ASSERT_LE(std::abs(row[static_cast<std::size_t>(c)] - w), step * 0.50001)
          << name_of(shape.format) << " (" << r << ", " << c << ") = " << w;
    }
  }
}

TEST(Quantized, ValuesAreWithinHalfAStep) {
  for (const WeightFormat format : kFormats)
    for (const auto& [n, k] : {std::array{1, 1}, {16, 64}, {17, 65}, {5, 100}, {33, 576}, {40, 7}})
      for (const float scale : {1.0f, 1e-4f, 3e30f, 1e-38f}) {
        std::vector<float> values = normals(n * k, "w");
        for (float& v : values) v *= scale;
        values[0] = 40 * scale;  // one far out
        expect_within_half_a_step({format, n, k}, values);
        for (float& v : values) v = 3 * scale + v / 64;  // far from zero
        expect_within_half_a_step({format, n, k}, values);
      }
}

TEST(Quantized, ConstantRowsOfBf16AreExactInInt4AndZerosAlways) {
  for (const WeightFormat format : kFormats)
    for (const float value : {0.0f, -1.0f, 0.75f, 96.0f}) {
      const QuantizedShape shape{format, 18, 130};
      const auto blob = blob_of(shape, {130, 0}, std::vector<float>(18 * 130, value));
      std::vector<float> row(130);
      for (std::int64_t r = 0; r < 18; ++r) {
        dequantize_row(shape, blob.data(), r, row.data());
        for (const float got : row) {
          if (format == WeightFormat::kInt4 || value == 0)
            EXPECT_EQ(got, value);
          else
            EXPECT_NEAR(got, value, std::abs(value) / 250);
        }
      }
    }
}

// However columns are cut over ranks.
TEST(Quantized, APartOfTheColumnsHasTheValuesOfTheWhole) {
  const std::int64_t n = 20, k = 256 + 30;
  const std::vector<float> values = normals(n * k, "w");
  for (const WeightFormat format : kFormats) {
    const QuantizedShape whole{format, n, k};
    const auto blob = blob_of(whole, {k, 0}, values);
    std::vector<float> expected(static_cast<std::size_t>(k)), got(static_cast<std::size_t>(k));
    for (const auto& [first, count] : {std::array<std::int64_t, 2>{0, 128}, {128, 158}}) {
      const QuantizedShape part{format, n, count};
      const auto own = blob_of(part, {k, first}, values);
      for (std::int64_t r = 0; r < n; ++r) {
        dequantize_row(whole, blob.data(), r, expected.data());
        dequantize_row(part, own.data(), r, got.data());
        for (std::int64_t c = 0; c < count; ++c)
          ASSERT_EQ(got[static_cast<std::size_t>(c)],
                    expected[static_cast<std::size_t>(first + c)]);
      }
    }
  }
}

TEST(Quantized, GroupsAreNotCut) {
  const QuantizedShape int4{WeightFormat::kInt4, 4, 96}, int8{WeightFormat::kInt8, 4, 96};
  EXPECT_NO_THROW(expect_whole_groups("w", int8, {192, 96}));
  EXPECT_NO_THROW(expect_whole_groups("w", int4, {96, 0}));
  EXPECT_NO_THROW(expect_whole_groups("w", int4, {160, 64}));
  for (const QuantizedCut& cut : {QuantizedCut{192, 0}, QuantizedCut{192, 96}}) try {
      expect_whole_groups("layers.0.mlp.down.weight", int4, cut);
      FAIL();
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("layers.0.mlp.down.weight"), text.npos) << text;
      EXPECT_NE(text.find("64"), text.npos) << text;
    }
}

TEST(Quantized, WhatHasNoStepIsRefused) {
  EXPECT_TRUE(quantizable(0.0) && quantizable(-1e37) && quantizable(1e-320));
  for (const double x : {std::numeric_limits<double>::infinity(), -1e38,
                         std::numeric_limits<double>::quiet_NaN(), 1e300})
    EXPECT_FALSE(quantizable(x)) << x;
}

struct Case {
  std::string name;
  std::function<std::unique_ptr<Backend>(int threads)> make;
  DType compute;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const std::string type(name_of(t));
    all.push_back({"guarded_" + type, [](int) { return make_guarded_backend(ledger()); }, t});
    if (t != DType::kF64)
      all.push_back(
          {"cpu_" + type, [](int threads) { return make_cpu_backend(ledger(), threads); }, t});
  }
  return all;
}

class QuantizedKernels : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Backend> backend(int threads = 2) {
    try {
      return GetParam().make(threads);
    } catch (const Error&) {
      return nullptr;  // a build without the cpu backend
    }
  }
  DType compute() const { return GetParam().compute; }
  Tensor upload(Backend& b, Shape shape, const std::vector<float>& values, DType type) {
    const Tensor x = b.allocate(shape, type, MemoryKind::kActivations);
    upload_doubles(b, std::vector<double>(values.begin(), values.end()), x);
    return x;
  }
  QuantizedMatrix quantized(Backend& b, WeightFormat format, std::int64_t n, std::int64_t k,
                            const std::vector<float>& values) {
    const QuantizedShape shape{format, n, k};
    const QuantizedMatrix w{shape,
                            b.allocate({shape.bytes()}, DType::kU8, MemoryKind::kParameters)};
    const Tensor from = b.allocate({n, k}, DType::kF32, MemoryKind::kWorkspace);
    b.upload(values.data(), from);
    b.infer_kernels()->quantize(from, {k, 0}, w);
    return w;
  }
  std::vector<float> values_of(Backend& b, const QuantizedMatrix& w) {
    std::vector<std::uint8_t> blob(static_cast<std::size_t>(w.shape.bytes()));
    b.download(w.blob, blob.data());
    std::vector<float> values(static_cast<std::size_t>(w.shape.rows * w.shape.columns));
    for (std::int64_t r = 0; r < w.shape.rows; ++r)
      dequantize_row(w.shape, blob.data(), r, values.data() + r * w.shape.columns);
    return values;
  }
};

TEST_P(QuantizedKernels, BytesAreThoseOfTheHost) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  const std::vector<float> values = normals(45 * 150, "w");
  for (const WeightFormat format : kFormats) {
    const QuantizedMatrix w = quantized(*b, format, 45, 150, values);
    std::vector<std::uint8_t> got(static_cast<std::size_t>(w.shape.bytes()));
    b->download(w.blob, got.data());
    EXPECT_EQ(got, blob_of(w.shape, {150, 0}, values));
  }
}

// Bounds: f32 sums, and x in bytes where the backend may take it so.
TEST_P(QuantizedKernels, LinearIsAPlainSumOfTheValues) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  std::vector<std::array<int, 3>> sizes{{1, 5, 7},     {2, 16, 64}, {3, 64, 128}, {17, 72, 96},
                                        {70, 40, 192}, {2, 1, 1},   {5, 33, 65},  {4, 31, 63}};
  for (int k = 1; k <= 70; ++k)  // every tail of a group, by one way to multiply or another
    sizes.push_back({k % 3 == 0 ? 1 : k % 3 == 1 ? 9 : 33, 1 + 7 * k % 48, k});
  for (const WeightFormat format : kFormats)
    for (const auto& [m, n, k] : sizes) {
      const std::vector<float> xs = normals(m * k, "x");
      const Tensor x = upload(*b, {m, k}, xs, compute());
      const QuantizedMatrix w = quantized(*b, format, n, k, normals(n * k, "w"));
      const Tensor bias = upload(*b, {n}, normals(n, "bias"), compute());
      const Tensor y = b->allocate({m, n}, accumulation_type(compute()), MemoryKind::kActivations);
      b->infer_kernels()->linear(x, w, bias, y);
      const auto in = download_doubles(*b, x), add = download_doubles(*b, bias),
                 got = download_doubles(*b, y);
      const std::vector<float> ws = values_of(*b, w);
      const bool bytes = size_of(compute()) == 2;
      for (int r = 0; r < m; ++r)
        for (int c = 0; c < n; ++c) {
          double sum = add[static_cast<std::size_t>(c)], size = 0, off = 0;
          for (int g = 0; g < k; g += 64) {
            double largest = 0, weights = 0;
            for (int i = g; i < std::min(g + 64, k); ++i) {
              const double xi = in[static_cast<std::size_t>(r * k + i)],
                           wi = ws[static_cast<std::size_t>(c * k + i)];
              sum += xi * wi;
              size += std::abs(xi * wi);
              largest = std::max(largest, std::abs(xi));
              weights += std::abs(wi);
            }
            off += largest / 254 * weights;
          }
          const double bound =
              (compute() == DType::kF64 ? 1e-14 : 2e-6) * (size + 1) + (bytes ? 1.001 * off : 0);
          ASSERT_NEAR(got[static_cast<std::size_t>(r * n + c)], sum, bound)
              << name_of(format) << " (" << m << ", " << n << ", " << k << ") at " << r << ", "
              << c;
        }
    }
}

// Every byte of x and of W at its largest, with each sign: what adds pairs of products in 16 bits
// would saturate here.
TEST_P(QuantizedKernels, TheLargestBytesAreAddedUpInFull) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  constexpr std::int64_t n = 20, k = 192;
  for (const WeightFormat format : kFormats)
    for (const int m : {1, 2, 5, 17})
      for (const float sign : {-1.0f, 1.0f}) {
        std::vector<float> ws(n * k, sign);
        for (std::int64_t at = 0; at < n * k; at += 64) ws[static_cast<std::size_t>(at)] = -sign;
        std::vector<float> xs(static_cast<std::size_t>(m) * k, 1.0f);
        std::fill_n(xs.begin(), k, -1.0f);
        const QuantizedMatrix w = quantized(*b, format, n, k, ws);
        const std::vector<float> values = values_of(*b, w);
        const double sum = std::accumulate(values.begin(), values.begin() + k, 0.0);
        EXPECT_NEAR(sum, sign * (k - 6), 2.0);
        const Tensor y =
            b->allocate({m, n}, accumulation_type(compute()), MemoryKind::kActivations);
        b->infer_kernels()->linear(upload(*b, {m, k}, xs, compute()), w, {}, y);
        const auto got = download_doubles(*b, y);
        for (std::int64_t r = 0; r < m; ++r)
          for (std::int64_t c = 0; c < n; ++c)
            ASSERT_NEAR(got[static_cast<std::size_t>(r * n + c)], r == 0 ? -sum : sum, 1e-3)
                << name_of(format) << " " << m << " rows, at " << r << ", " << c;
      }
}

TEST_P(QuantizedKernels, ARowDependsNeitherOnOtherRowsNorOnThreads) {
  const auto b = backend(), alone = backend(1);
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  for (const WeightFormat format : kFormats)
    for (const auto& [n, k] : {std::array{104, 96}, {33, 50}, {7, 320}}) {
      const std::int64_t most = 300;
      const std::vector<float> xs = normals(most * k, "x"), ws = normals(n * k, "w");
      const std::vector<float> bs = normals(n, "bias");
      const Tensor x = upload(*b, {most, k}, xs, compute());
      const Tensor all = b->allocate({most, n}, compute(), MemoryKind::kActivations);
      b->infer_kernels()->linear(x, quantized(*b, format, n, k, ws), upload(*b, {n}, bs, compute()),
                                 all);
      const auto expected = download_doubles(*b, all);
      const Tensor x1 = upload(*alone, {most, k}, xs, compute());
      const QuantizedMatrix w1 = quantized(*alone, format, n, k, ws);
      const Tensor bias1 = upload(*alone, {n}, bs, compute());
      for (const std::int64_t m : {1, 2, 3, 4, 13, 16, 33, 64, 129})
        for (std::int64_t r = 0; r + m <= most; r += 87) {
          const Tensor some = alone->allocate({m, n}, compute(), MemoryKind::kActivations);
          alone->infer_kernels()->linear(x1.sliced_rows(r, r + m), w1, bias1, some);
          const auto got = download_doubles(*alone, some);
          ASSERT_TRUE(std::equal(got.begin(), got.end(), expected.begin() + r * n))
              << name_of(format) << ": " << m << " rows from " << r << " on, W (" << n << ", " << k
              << ")";
        }
    }
}

TEST_P(QuantizedKernels, LookupsAreRowsOrZeros) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  for (const WeightFormat format : kFormats) {
    const std::int64_t n = 50, k = 70;
    const QuantizedMatrix w = quantized(*b, format, n, k, normals(n * k, "w"));
    const std::vector<std::int32_t> ids{100, 149, 99, 150, 116, 100, 0, -1};
    const Tensor in = b->allocate({8}, DType::kI32, MemoryKind::kActivations);
    upload_ids(*b, ids, in);
    const Tensor out = b->allocate({8, k}, accumulation_type(compute()), MemoryKind::kActivations);
    b->infer_kernels()->lookup(in, w, 100, out);
    const auto got = download_doubles(*b, out);
    const std::vector<float> ws = values_of(*b, w);
    for (std::size_t r = 0; r < ids.size(); ++r)
      for (std::int64_t c = 0; c < k; ++c) {
        const std::int64_t row = ids[r] - 100;
        const double expected =
            row < 0 || row >= n ? 0.0 : ws[static_cast<std::size_t>(row * k + c)];
        ASSERT_EQ(got[r * static_cast<std::size_t>(k) + static_cast<std::size_t>(c)], expected);
      }
  }
}

// What is no number in x is none in y, and nowhere else.
TEST_P(QuantizedKernels, ARowThatIsNotFiniteStaysSo) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  for (const WeightFormat format : kFormats)
    for (const std::int64_t m : {2, 5})
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        const std::int64_t n = 20, k = 130;
        std::vector<float> xs = normals(m * k, "x");
        xs[static_cast<std::size_t>(k + 77)] = bad;
        const Tensor y =
            b->allocate({m, n}, accumulation_type(compute()), MemoryKind::kActivations);
        b->infer_kernels()->linear(upload(*b, {m, k}, xs, compute()),
                                   quantized(*b, format, n, k, normals(n * k, "w")), {}, y);
        const auto got = download_doubles(*b, y);
        for (std::int64_t r = 0; r < m; ++r)
          for (std::int64_t c = 0; c < n; ++c)
            EXPECT_EQ(std::isfinite(got[static_cast<std::size_t>(r * n + c)]), r != 1);
      }
}

// What stands before and behind keeps its bytes.
TEST_P(QuantizedKernels, BytesAndIdsAreFilledAsSuch) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  std::vector<std::uint8_t> bytes(300, 9);
  const Tensor all = b->allocate({300}, DType::kU8, MemoryKind::kParameters);
  b->upload(bytes.data(), all);
  b->kernels()->fill(all.elements_at(64, {100}), 3.0);
  b->kernels()->fill(all.reinterpreted(192, {5}, DType::kI32), 7.0);
  b->download(all, bytes.data());
  for (std::size_t i = 0; i < 300; ++i) {
    const bool ids = i >= 192 && i < 212;
    EXPECT_EQ(bytes[i], i >= 64 && i < 164 ? 3 : ids ? (i % 4 == 0 ? 7 : 0) : 9) << i;
  }
}

TEST_P(QuantizedKernels, WhatDoesNotFitIsRefused) {
  const auto b = backend();
  if (!b) GTEST_SKIP() << "no cpu backend in this build";
  const QuantizedMatrix w = quantized(*b, WeightFormat::kInt4, 20, 64, normals(20 * 64, "w"));
  const Tensor x = upload(*b, {2, 64}, normals(128, "x"), compute());
  const Tensor y = b->allocate({2, 20}, compute(), MemoryKind::kActivations);
  const Tensor wrong = b->allocate({2, 21}, compute(), MemoryKind::kActivations);
  EXPECT_THROW(b->infer_kernels()->linear(x, w, {}, wrong), Error);
  EXPECT_THROW(b->infer_kernels()->linear(y, w, {}, y), Error);
  QuantizedMatrix other = w;
  other.shape.format = WeightFormat::kInt8;  // has another size
  EXPECT_THROW(b->infer_kernels()->linear(x, other, {}, y), Error);
  other.shape.format = WeightFormat::kPlain;
  EXPECT_THROW(b->infer_kernels()->linear(x, other, {}, y), Error);
  EXPECT_THROW(b->infer_kernels()->lookup(x, w, 0, y), Error);
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedKernels, ::testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace trireme::test
