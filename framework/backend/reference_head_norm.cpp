// RMS norm of query and key heads. Legend: see kernels.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"

namespace trireme {

using namespace reference;

void ReferenceKernels::head_norm(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                                 const Tensor& key_weight, const Tensor& y, const Tensor& stats) {
  kernel_checks::head_norm(n, qkv, query_weight, key_weight, y, stats);
  in_wide_type(y.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(qkv), queries(query_weight), keys(key_weight);
    const Output<W> out(y), s(stats);
    const std::int64_t columns = qkv.columns(), d = n.head_dim, normed = n.heads + n.kv_heads;
    for (std::int64_t r = 0; r < qkv.rows(); ++r) {
      for (std::int64_t h = 0; h < normed; ++h) {
        const W* x = in.at(r * columns + h * d);
        const W* weight = (h < n.heads ? queries : keys).at(0);
        W squares = 0;
        for (std::int64_t i = 0; i < d; ++i) squares += x[i] * x[i];
        const W rstd = W(1) / std::sqrt(squares / static_cast<W>(d) + static_cast<W>(n.eps));
        for (std::int64_t i = 0; i < d; ++i) out[r * columns + h * d + i] = x[i] * rstd * weight[i];
        s[r * normed + h] = rstd;
      }
      std::copy_n(in.at(r * columns + normed * d), columns - normed * d,
                  out.at(r * columns + normed * d));
    }
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
