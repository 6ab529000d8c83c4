// Gradients of layer norm and RMS norm. Parameters' are summed over fixed row blocks.
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/train/cpu_train_kernels.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

// What the backward of one norm needs; mean and its gradient only with `centred`.
struct NormBackward {
  Tensor x, weight, stats, dy, dx;
  bool accumulate_dx, centred;
  float weight_offset = -0.0f;
};

// xhat = (x - mean) * rstd; dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * weight
// (weight + offset; the middle term only when centred); adds dy * xhat and dy into the partial
// gradients.
void backward_row(const NormBackward& b, std::int64_t r, float* dweight, float* dbias) {
  const std::int64_t columns = b.x.columns();
  const auto x = Reader(b.x).at(r * columns), dy = Reader(b.dy).at(r * columns);
  const auto dx = Writer(b.dx).at(r * columns);
  const Reader weight(b.weight);
  const F32 offset = vec::set1(b.weight_offset);
  const float* stats = static_cast<const float*>(b.stats.data()) + r * (b.centred ? 2 : 1);
  const F32 mean = vec::set1(b.centred ? stats[0] : 0.0f);
  const F32 rstd = vec::set1(b.centred ? stats[1] : stats[0]);
  F32 sum_g{}, sum_gx{};
  vec::each(0, columns, [&](std::int64_t c, auto n) {
    const F32 up = dy.load(c, n);  // 0 in missing lanes
    const F32 xhat = (x.load(c, n) - mean) * rstd;
    const F32 g = up * (weight.load(c, n) + offset);
    sum_g += g;
    sum_gx = vec::fma(g, xhat, sum_gx);
    vec::store(dweight + c, vec::fma(up, xhat, vec::load(dweight + c, n)), n);
    if (b.centred) vec::store(dbias + c, vec::load(dbias + c, n) + up, n);
  });
  const float over = 1.0f / static_cast<float>(columns);
  const F32 mean_g = vec::set1(b.centred ? vec::sum(sum_g) * over : 0.0f);
  const F32 mean_gx = vec::set1(vec::sum(sum_gx) * over);
  vec::each(0, columns, [&](std::int64_t c, auto n) {
    const F32 xhat = (x.load(c, n) - mean) * rstd;
    const F32 g = dy.load(c, n) * (weight.load(c, n) + offset) - mean_g;
    F32 d = rstd * vec::fma(-xhat, mean_gx, g);
    if (b.accumulate_dx) d += dx.reader().load(c, n);
    dx.store(c, d, n);
  });
}

// Partial gradients of row block i at partials + i * stride: [dweight | dbias if centred].
void backward_blocks(const NormBackward& b, int threads, std::int64_t blocks, std::int64_t stride,
                     float* partials) {
  const std::int64_t rows = b.x.rows(), columns = b.x.columns();
  parallel_ranges(threads, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* dweight = partials + i * stride;
      std::fill_n(dweight, stride, 0.0f);
      for (std::int64_t r = rows * i / blocks; r < rows * (i + 1) / blocks; ++r)
        backward_row(b, r, dweight, dweight + columns);
    }
  });
}

}  // namespace

void CpuTrainKernels::layer_norm_backward(const Tensor& x, const Tensor& weight,
                                          const Tensor& stats, const Tensor& dy, const Tensor& dx,
                                          bool accumulate_dx, const Tensor& dweight,
                                          const Tensor& dbias, bool accumulate) {
  kernel_checks::layer_norm_backward(x, weight, stats, dy, dx, dweight, dbias);
  refuse_f64("layer_norm_backward", x, weight, dy);
  const std::int64_t columns = x.columns(), blocks = row_blocks(x.rows());
  const Tensor partials = floats(blocks * 2 * columns);
  auto* p = static_cast<float*>(partials.data());
  backward_blocks({x, weight, stats, dy, dx, accumulate_dx, true}, threads_, blocks, 2 * columns,
                  p);
  add_partials(p, blocks, 2 * columns, dweight, accumulate);
  add_partials(p + columns, blocks, 2 * columns, dbias, accumulate);
}

void CpuTrainKernels::rms_norm_backward(const Tensor& x, const Tensor& weight, const RmsNorm& n,
                                        const Tensor& stats, const Tensor& dy, const Tensor& dx,
                                        bool accumulate_dx, const Tensor& dweight,
                                        bool accumulate) {
  kernel_checks::rms_norm_backward(x, weight, stats, dy, dx, dweight);
  refuse_f64("rms_norm_backward", x, weight, dy);
  const std::int64_t columns = x.columns(), blocks = row_blocks(x.rows());
  const Tensor partials = floats(blocks * columns);
  auto* p = static_cast<float*>(partials.data());
  backward_blocks({x, weight, stats, dy, dx, accumulate_dx, false, added_to_weights(n)}, threads_,
                  blocks, columns, p);
  add_partials(p, blocks, columns, dweight, accumulate);
}

}  // namespace trireme
