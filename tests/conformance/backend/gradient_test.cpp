// Every backward kernel of the reference against central differences in f64.
#include <cmath>
#include <functional>

#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

using Values = std::vector<double>;

// A scalar of one operand, and its gradient by a backward kernel.
struct Slope {
  Values at;
  std::function<double(const Values&)> value;
  Values gradient;
};

// Central differences in each coordinate: their error is about step^2 |f'''| + 1e-16 / step.
void expect_slope(const Slope& s) {
  constexpr double kStep = 1e-5;
  Values measured;
  Values x = s.at;
  for (double& coordinate : x) {
    const double middle = coordinate;
    coordinate = middle + kStep;
    const double above = s.value(x);
    coordinate = middle - kStep;
    const double below = s.value(x);
    coordinate = middle;
    measured.push_back((above - below) / (2 * kStep));
  }
  EXPECT_TRUE(close(s.gradient, measured, 1e-8));
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

class Gradients : public ::testing::Test {
 protected:
  Tensor made(Shape shape, const Values& x) { return tensor(*backend_, shape, DType::kF64, x); }
  Tensor blank(Shape shape) {
    return backend_->allocate(shape, DType::kF64, MemoryKind::kActivations);
  }
  Values read(const Tensor& x) { return values(*backend_, x); }

  std::unique_ptr<Backend> backend_ = make_reference_backend(std::make_shared<MemoryLedger>());
};

TEST_F(Gradients, Matmul) {
  const Values a = normals(3 * 5, 1), b = normals(4 * 5, 2), dc = normals(3 * 4, 3);
  const auto value = [&](const Values& x, const Values& w) {
    const Tensor c = blank({3, 4});
    backend_->kernels()->matmul(
        {.a = made({3, 5}, x), .b = made({4, 5}, w), .c = c, .transpose_b = true});
    return dot(read(c), dc);
  };
  const Tensor da = blank({3, 5}), db = blank({4, 5});
  backend_->kernels()->matmul({.a = made({3, 4}, dc), .b = made({4, 5}, b), .c = da});
  backend_->kernels()->matmul(
      {.a = made({3, 4}, dc), .b = made({3, 5}, a), .c = db, .transpose_a = true});
  expect_slope({a, [&](const Values& x) { return value(x, b); }, read(da)});
  expect_slope({b, [&](const Values& w) { return value(a, w); }, read(db)});
}

TEST_F(Gradients, LayerNorm) {
  const Shape shape = {3, 7};
  const Values x = normals(21, 1), weight = normals(7, 2), bias = normals(7, 3),
               dy = normals(21, 4);
  const Tensor stats = blank({3, 2});
  const auto value = [&](const Values& in, const Values& w, const Values& b) {
    const Tensor y = blank(shape);
    backend_->kernels()->layer_norm(made(shape, in), made({7}, w), made({7}, b), 1e-3, y, stats);
    return dot(read(y), dy);
  };
  value(x, weight, bias);
  const Tensor dx = blank(shape), dweight = blank({7}), dbias = blank({7});
  backend_->train_kernels()->layer_norm_backward(made(shape, x), made({7}, weight), stats,
                                                 made(shape, dy), dx, false, dweight, dbias, false);
  expect_slope({x, [&](const Values& v) { return value(v, weight, bias); }, read(dx)});
  expect_slope({weight, [&](const Values& v) { return value(x, v, bias); }, read(dweight)});
  expect_slope({bias, [&](const Values& v) { return value(x, weight, v); }, read(dbias)});
}

TEST_F(Gradients, RmsNorm) {
  const Shape shape = {3, 7};
  const Values x = normals(21, 1), weight = normals(7, 2), dy = normals(21, 4);
  const Tensor stats = blank({3, 1});
  const auto value = [&](const Values& in, const Values& w) {
    const Tensor y = blank(shape);
    backend_->kernels()->rms_norm(made(shape, in), made({7}, w), 1e-3, y, stats);
    return dot(read(y), dy);
  };
  value(x, weight);
  const Tensor dx = blank(shape), dweight = blank({7});
  backend_->train_kernels()->rms_norm_backward(made(shape, x), made({7}, weight), 1e-3, stats,
                                               made(shape, dy), dx, false, dweight, false);
  expect_slope({x, [&](const Values& v) { return value(v, weight); }, read(dx)});
  expect_slope({weight, [&](const Values& v) { return value(x, v); }, read(dweight)});
}

TEST_F(Gradients, RmsNormOfWeightPlusOne) {
  const Shape shape = {3, 7};
  const RmsNorm n(1e-3, 1.0);
  const Values x = normals(21, 1), weight = normals(7, 2), dy = normals(21, 4);
  const Tensor stats = blank({3, 1});
  const auto value = [&](const Values& in, const Values& w) {
    const Tensor y = blank(shape);
    backend_->kernels()->rms_norm(made(shape, in), made({7}, w), n, y, stats);
    return dot(read(y), dy);
  };
  value(x, weight);
  const Tensor dx = blank(shape), dweight = blank({7});
  backend_->train_kernels()->rms_norm_backward(made(shape, x), made({7}, weight), n, stats,
                                               made(shape, dy), dx, false, dweight, false);
  expect_slope({x, [&](const Values& v) { return value(v, weight); }, read(dx)});
  expect_slope({weight, [&](const Values& v) { return value(x, v); }, read(dweight)});
}

TEST_F(Gradients, HeadNorm) {
  const HeadNorm n = {.heads = 3, .kv_heads = 1, .head_dim = 4, .eps = 1e-3};
  const Shape shape = {2, 20};
  const Values x = normals(40, 1), queries = normals(4, 2), keys = normals(4, 3),
               dy = normals(40, 4);
  const Tensor stats = blank({2, 4});
  const auto value = [&](const Values& in, const Values& q, const Values& k) {
    const Tensor y = blank(shape);
    backend_->kernels()->head_norm(n, made(shape, in), made({4}, q), made({4}, k), y, stats);
    return dot(read(y), dy);
  };
  value(x, queries, keys);
  const Tensor dx = made(shape, dy), dq = blank({4}), dk = blank({4});
  backend_->train_kernels()->head_norm_backward(
      n, made(shape, x), made({4}, queries), made({4}, keys), stats, dx, dx, dq, false, dk, false);
  expect_slope({x, [&](const Values& v) { return value(v, queries, keys); }, read(dx)});
  expect_slope({queries, [&](const Values& v) { return value(x, v, keys); }, read(dq)});
  expect_slope({keys, [&](const Values& v) { return value(x, queries, v); }, read(dk)});
}

TEST_F(Gradients, Activations) {
  for (Activation act : {Activation::kGeluTanh, Activation::kSilu, Activation::kRelu})
    for (bool gated : {false, true}) {
      SCOPED_TRACE(static_cast<int>(act) * 2 + gated);
      const Shape in_shape = {3, gated ? 10 : 5};
      const Values x = normals(in_shape.elements(), 1), dy = normals(15, 2);
      const auto value = [&](const Values& v) {
        const Tensor y = blank({3, 5});
        backend_->kernels()->activation(act, gated, made(in_shape, v), y);
        return dot(read(y), dy);
      };
      const Tensor dx = blank(in_shape);
      backend_->train_kernels()->activation_backward(act, gated, made(in_shape, x),
                                                     made({3, 5}, dy), dx);
      expect_slope({x, value, read(dx)});
    }
}

TEST_F(Gradients, RotaryInverse) {
  const Shape shape = {6, 3 * 4};
  const Rotary r = {
      .tokens = 3,
      .heads = 2,
      .head_dim = 4,
      .first_position = 5,
      .theta = 100.0,
      .scaling = {
          .kind = RopeScaling::Kind::kLlama3, .factor = 8, .low = 1, .high = 4, .original = 100}};
  const Values x = normals(72, 1), dy = normals(72, 2);
  const auto value = [&](const Values& v) {
    const Tensor y = made(shape, v);
    backend_->kernels()->rotary(r, y);
    return dot(read(y), dy);
  };
  const Tensor dx = made(shape, dy);
  Rotary back = r;
  back.inverse = true;
  backend_->kernels()->rotary(back, dx);
  expect_slope({x, value, read(dx)});
}

TEST_F(Gradients, Attention) {
  for (std::int64_t kv_heads : {4, 2, 1})
    for (double p : {0.0, 0.3}) {
      SCOPED_TRACE(kv_heads);
      Attention a = {
          .batch = 2, .tokens = 4, .heads = 4, .kv_heads = kv_heads, .head_dim = 3, .scale = 0.7};
      a.window = kv_heads == 2 ? 0 : kv_heads == 1 ? 1 : 3;
      if (kv_heads != 1) a.document_starts = ids(*backend_, {0, 0, 2, 2, 0, 1, 1, 1});
      if (p > 0) {
        a.dropout = Dropout{
            .key = key_from_seed(9), .threshold = dropout_threshold(p), .scale = 1 / (1 - p)};
        a.total_heads = 4;
      }
      const Shape in_shape = {8, (4 + 2 * kv_heads) * 3}, out_shape = {8, 12};
      const Values qkv = normals(in_shape.elements(), 1), dout = normals(96, 2);
      const Tensor out = blank(out_shape), lse = blank({8, 4});
      const auto value = [&](const Values& v) {
        backend_->kernels()->attention(a, made(in_shape, v), out, lse);
        return dot(read(out), dout);
      };
      value(qkv);
      const Tensor dqkv = blank(in_shape);
      backend_->train_kernels()->attention_backward(a, made(in_shape, qkv), out, lse,
                                                    made(out_shape, dout), dqkv);
      expect_slope({qkv, value, read(dqkv)});
    }
}

TEST_F(Gradients, CrossEntropyWithSmoothingPaddingAndIgnoredLabels) {
  for (double smoothing : {0.0, 0.2}) {
    const Shape shape = {4, 7};
    const CrossEntropy c = {.first_column = 0, .valid = 5, .vocab = 5, .smoothing = smoothing};
    const Tensor labels = ids(*backend_, {0, 4, -1, 2});
    const Values logits = normals(28, 1);
    const Tensor max = blank({4}), sums = blank({4, 3});
    const auto value = [&](const Values& v) {
      const Tensor x = made(shape, v), total = made({1}, {0.0});
      backend_->kernels()->row_max(c, x, max);
      backend_->kernels()->cross_entropy_sums(c, x, max, labels, sums);
      backend_->kernels()->cross_entropy_loss(c, sums, labels, total);
      return 0.3 * read(total)[0];
    };
    value(logits);
    const Tensor dlogits = blank(shape);
    backend_->train_kernels()->cross_entropy_backward(c, made(shape, logits), max, sums, labels,
                                                      0.3, dlogits);
    expect_slope({logits, value, read(dlogits)});
  }
}

TEST_F(Gradients, EmbeddingWithIdsOutsideTheShard) {
  const Tensor tokens = ids(*backend_, {3, 5, 9, 5, 0});
  const Values table = normals(4 * 3, 1), dy = normals(15, 2);
  const auto value = [&](const Values& v) {
    const Tensor y = blank({5, 3});
    backend_->kernels()->embedding(tokens, made({4, 3}, v), 3, y);
    return dot(read(y), dy);
  };
  const Tensor dtable = blank({4, 3});
  backend_->train_kernels()->embedding_backward(tokens, made({5, 3}, dy), 3, dtable, false);
  expect_slope({table, value, read(dtable)});
}

TEST_F(Gradients, Positions) {
  // Rows 3 to 8 of three samples of four tokens, of which the second is two documents.
  const Positions p = {.tokens = 4,
                       .first_row = 3,
                       .first_position = 1,
                       .document_starts = ids(*backend_, {0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0})};
  const Values table = normals(5 * 2, 1), dy = normals(12, 2);
  const auto value = [&](const Values& v) {
    const Tensor y = backend_->zeros({6, 2}, DType::kF64, MemoryKind::kActivations);
    backend_->kernels()->add_positions(made({5, 2}, v), p, y);
    return dot(read(y), dy);
  };
  const Tensor dtable = blank({5, 2});
  backend_->train_kernels()->add_positions_backward(made({6, 2}, dy), p, dtable, false);
  expect_slope({table, value, read(dtable)});
}

TEST_F(Gradients, Dropout) {
  const Dropout d = {.key = key_from_seed(2),
                     .threshold = dropout_threshold(0.4),
                     .scale = 1 / 0.6,
                     .total_columns = 5};
  const Values x = normals(15, 1), dy = normals(15, 2);
  const auto value = [&](const Values& v) {
    const Tensor y = made({3, 5}, v);
    backend_->kernels()->dropout(d, y, y);
    return dot(read(y), dy);
  };
  const Tensor dx = blank({3, 5});
  backend_->kernels()->dropout(d, made({3, 5}, dy), dx);
  expect_slope({x, value, read(dx)});
}

TEST_F(Gradients, BiasByColumnSum) {
  const Values bias = normals(4, 1), dy = normals(12, 2);
  const auto value = [&](const Values& v) {
    const Tensor y = backend_->zeros({3, 4}, DType::kF64, MemoryKind::kActivations);
    backend_->kernels()->add_bias(made({4}, v), y);
    return dot(read(y), dy);
  };
  const Tensor dbias = blank({4});
  backend_->train_kernels()->column_sum(made({3, 4}, dy), dbias, false);
  expect_slope({bias, value, read(dbias)});
}

}  // namespace
}  // namespace trireme::test
