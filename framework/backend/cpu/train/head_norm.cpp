// Gradients of the norms of query and key heads. Parameters' are summed over fixed row blocks.
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/train/cpu_train_kernels.h"
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

// With n = x rstd and g = dy weight: dx = rstd (g - n mean(g n)); adds dy n to dweight.
void norm_head_backward(const Reader& x, const Reader& weight, float rstd, const Reader& dy,
                        std::int64_t d, const Writer& dx, float* dweight) {
  const F32 s = vec::set1(rstd);
  F32 products{};
  vec::each(0, d, [&](std::int64_t i, auto n) {
    const F32 up = dy.load(i, n), xhat = x.load(i, n) * s;
    products = vec::fma(up * weight.load(i, n), xhat, products);
    vec::store(dweight + i, vec::fma(up, xhat, vec::load(dweight + i, n)), n);
  });
  const F32 mean = vec::set1(vec::sum(products) / static_cast<float>(d));
  vec::each(0, d, [&](std::int64_t i, auto n) {
    const F32 g = dy.load(i, n) * weight.load(i, n);
    dx.store(i, s * vec::fma(-(x.load(i, n) * s), mean, g), n);
  });
}

}  // namespace

void CpuTrainKernels::head_norm_backward(const HeadNorm& n, const Tensor& qkv,
                                         const Tensor& query_weight, const Tensor& key_weight,
                                         const Tensor& stats, const Tensor& dy, const Tensor& dqkv,
                                         const Tensor& dquery_weight, bool accumulate_query,
                                         const Tensor& dkey_weight, bool accumulate_key) {
  kernel_checks::head_norm_backward(n, qkv, query_weight, key_weight, stats, dy, dqkv,
                                    dquery_weight, dkey_weight);
  refuse_f64("head_norm_backward", qkv, query_weight, key_weight, dy);
  const std::int64_t columns = qkv.columns(), d = n.head_dim, normed = n.heads + n.kv_heads;
  const std::int64_t rows = qkv.rows(), blocks = row_blocks(rows);
  const Reader queries(query_weight), keys(key_weight);
  const auto* saved = static_cast<const float*>(stats.data());
  const Tensor partials = floats(blocks * 2 * d);
  auto* p = static_cast<float*>(partials.data());  // a block's [queries' | keys']
  parallel_ranges(threads_, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::fill_n(p + b * 2 * d, 2 * d, 0.0f);
      for (std::int64_t r = rows * b / blocks; r < rows * (b + 1) / blocks; ++r) {
        const auto x = Reader(qkv).at(r * columns), up = Reader(dy).at(r * columns);
        const auto dx = Writer(dqkv).at(r * columns);
        for (std::int64_t h = 0; h < normed; ++h)
          norm_head_backward(x.at(h * d), h < n.heads ? queries : keys, saved[r * normed + h],
                             up.at(h * d), d, dx.at(h * d), p + b * 2 * d + (h < n.heads ? 0 : d));
        copy_values(up.at(normed * d), dx.at(normed * d), columns - normed * d);
      }
    }
  });
  add_partials(p, blocks, 2 * d, dquery_weight, accumulate_query);
  add_partials(p + d, blocks, 2 * d, dkey_weight, accumulate_key);
}

}  // namespace trireme
