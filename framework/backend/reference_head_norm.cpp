// RMS norm of query and key heads. Legend: see kernels.h.
#include <algorithm>
#include <cmath>

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

}  // namespace trireme
