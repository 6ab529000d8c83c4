// Gradients of layer norm, RMS norm and the norms of heads. Legend: see kernels.h.
#include <algorithm>
#include <vector>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_view.h"
#include "framework/backend/train/reference_train_kernels.h"

namespace trireme {

using namespace reference;

namespace {

template <typename W>
std::vector<W> zeros(std::int64_t n) {
  return std::vector<W>(static_cast<std::size_t>(n), W(0));
}

template <typename W>
void put_all(const std::vector<W>& sums, const Gradient<W>& out) {
  for (std::size_t c = 0; c < sums.size(); ++c) out.put(static_cast<std::int64_t>(c), sums[c]);
}

}  // namespace

// With n = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - n mean(g n)).
void ReferenceTrainKernels::layer_norm_backward(const Tensor& x, const Tensor& weight,
                                                const Tensor& stats, const Tensor& dy,
                                                const Tensor& dx, bool accumulate_dx,
                                                const Tensor& dweight, const Tensor& dbias,
                                                bool accumulate) {
  kernel_checks::layer_norm_backward(x, weight, stats, dy, dx, dweight, dbias);
  in_wide_type(dy.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(x), w(weight), s(stats), g(dy);
    const Gradient<W> out(dx, accumulate_dx);
    const std::int64_t columns = x.columns();
    auto weight_sums = zeros<W>(columns), bias_sums = zeros<W>(columns), normal = zeros<W>(columns);
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      const W* row = in.at(r * columns);
      const W* gradient = g.at(r * columns);
      const W mean = s[2 * r], rstd = s[2 * r + 1];
      W sum = 0, product = 0;
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto i = static_cast<std::size_t>(c);
        normal[i] = (row[c] - mean) * rstd;
        sum += gradient[c] * w[c];
        product += gradient[c] * w[c] * normal[i];
        weight_sums[i] += gradient[c] * normal[i];
        bias_sums[i] += gradient[c];
      }
      sum /= static_cast<W>(columns);
      product /= static_cast<W>(columns);
      for (std::int64_t c = 0; c < columns; ++c)
        out.put(r * columns + c,
                rstd * (gradient[c] * w[c] - sum - normal[static_cast<std::size_t>(c)] * product));
    }
    put_all(weight_sums, Gradient<W>(dweight, accumulate));
    put_all(bias_sums, Gradient<W>(dbias, accumulate));
  });
}

// With n = x rstd and g = dy (weight + offset): dx = rstd (g - n mean(g n)).
void ReferenceTrainKernels::rms_norm_backward(const Tensor& x, const Tensor& weight,
                                              const RmsNorm& n, const Tensor& stats,
                                              const Tensor& dy, const Tensor& dx,
                                              bool accumulate_dx, const Tensor& dweight,
                                              bool accumulate) {
  kernel_checks::rms_norm_backward(x, weight, stats, dy, dx, dweight);
  in_wide_type(dy.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(x), w(weight), s(stats), g(dy);
    const Gradient<W> out(dx, accumulate_dx);
    const auto offset = static_cast<W>(n.weight_offset);
    const std::int64_t columns = x.columns();
    auto weight_sums = zeros<W>(columns);
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      const W* row = in.at(r * columns);
      const W* gradient = g.at(r * columns);
      const W rstd = s[r];
      W product = 0;
      for (std::int64_t c = 0; c < columns; ++c) {
        product += gradient[c] * (w[c] + offset) * row[c] * rstd;
        weight_sums[static_cast<std::size_t>(c)] += gradient[c] * row[c] * rstd;
      }
      product /= static_cast<W>(columns);
      for (std::int64_t c = 0; c < columns; ++c)
        out.put(r * columns + c, rstd * (gradient[c] * (w[c] + offset) - row[c] * rstd * product));
    }
    put_all(weight_sums, Gradient<W>(dweight, accumulate));
  });
}

// Each head as in rms_norm_backward.
void ReferenceTrainKernels::head_norm_backward(const HeadNorm& n, const Tensor& qkv,
                                               const Tensor& query_weight, const Tensor& key_weight,
                                               const Tensor& stats, const Tensor& dy,
                                               const Tensor& dqkv, const Tensor& dquery_weight,
                                               bool accumulate_query, const Tensor& dkey_weight,
                                               bool accumulate_key) {
  kernel_checks::head_norm_backward(n, qkv, query_weight, key_weight, stats, dy, dqkv,
                                    dquery_weight, dkey_weight);
  in_wide_type(dy.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(qkv), queries(query_weight), keys(key_weight), s(stats), g(dy);
    const Output<W> out(dqkv);
    const std::int64_t columns = qkv.columns(), d = n.head_dim, normed = n.heads + n.kv_heads;
    std::vector<W> sums[2];
    for (auto& sum : sums) sum.assign(static_cast<std::size_t>(d), W(0));
    for (std::int64_t r = 0; r < qkv.rows(); ++r) {
      for (std::int64_t h = 0; h < normed; ++h) {
        const std::int64_t at = r * columns + h * d;
        const W *x = in.at(at), *gradient = g.at(at);
        const W* weight = (h < n.heads ? queries : keys).at(0);
        const W rstd = s[r * normed + h];
        W product = 0;
        for (std::int64_t i = 0; i < d; ++i) {
          product += gradient[i] * weight[i] * x[i] * rstd;
          sums[h < n.heads ? 0 : 1][static_cast<std::size_t>(i)] += gradient[i] * x[i] * rstd;
        }
        product /= static_cast<W>(d);
        for (std::int64_t i = 0; i < d; ++i)
          out[at + i] = rstd * (gradient[i] * weight[i] - x[i] * rstd * product);
      }
      const std::int64_t values = r * columns + normed * d;
      std::copy_n(g.at(values), columns - normed * d, out.at(values));
    }
    const Gradient<W> dq(dquery_weight, accumulate_query), dk(dkey_weight, accumulate_key);
    for (std::int64_t i = 0; i < d; ++i) {
      dq.put(i, sums[0][static_cast<std::size_t>(i)]);
      dk.put(i, sums[1][static_cast<std::size_t>(i)]);
    }
  });
}

}  // namespace trireme
