// RMS norm of query and key heads: many short rows, two weights. Statistics in f32.
#include <cmath>

#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

void copy_values(const Reader& from, const Writer& to, std::int64_t columns) {
  vec::each(0, columns, [&](std::int64_t c, auto n) { to.store(c, from.load(c, n), n); });
}

// One head: returns rstd.
float norm_head(const Reader& x, const Reader& weight, double eps, std::int64_t d,
                const Writer& y) {
  F32 squares{};
  vec::each(0, d, [&](std::int64_t i, auto n) {
    const F32 v = x.load(i, n);  // 0 in missing lanes
    squares = vec::fma(v, v, squares);
  });
  const float rstd =
      1.0f / std::sqrt(vec::sum(squares) / static_cast<float>(d) + static_cast<float>(eps));
  const F32 s = vec::set1(rstd);
  vec::each(0, d,
            [&](std::int64_t i, auto n) { y.store(i, x.load(i, n) * s * weight.load(i, n), n); });
  return rstd;
}

}  // namespace

void CpuKernels::head_norm(const HeadNorm& n, const Tensor& qkv, const Tensor& query_weight,
                           const Tensor& key_weight, const Tensor& y, const Tensor& stats) {
  kernel_checks::head_norm(n, qkv, query_weight, key_weight, y, stats);
  refuse_f64("head_norm", qkv, query_weight, key_weight, y);
  const std::int64_t columns = qkv.columns(), d = n.head_dim, normed = n.heads + n.kv_heads;
  const Reader queries(query_weight), keys(key_weight);
  auto* saved = static_cast<float*>(stats.data());
  parallel_ranges(threads_, qkv.rows(), 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto in = Reader(qkv).at(r * columns);
      const auto out = Writer(y).at(r * columns);
      for (std::int64_t h = 0; h < normed; ++h)
        saved[r * normed + h] =
            norm_head(in.at(h * d), h < n.heads ? queries : keys, n.eps, d, out.at(h * d));
      copy_values(in.at(normed * d), out.at(normed * d), columns - normed * d);
    }
  });
}

}  // namespace trireme
