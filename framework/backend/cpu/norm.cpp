// Layer norm and RMS norm. Statistics in f32.
#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

constexpr std::int64_t kRowGrain = 8;

float row_sum(const Reader& x, std::int64_t columns) {
  F32 total{};
  vec::each(0, columns, [&](std::int64_t c, auto n) { total += x.load(c, n); });
  return vec::sum(total);
}

// sum of (x - shift)^2
float row_squares(const Reader& x, float shift, std::int64_t columns) {
  F32 total{};
  const F32 s = vec::set1(shift);
  vec::each(0, columns, [&](std::int64_t c, auto n) {
    const F32 d = vec::keep(x.load(c, n) - s, F32{}, n);
    total = vec::fma(d, d, total);
  });
  return vec::sum(total);
}

}  // namespace

void CpuKernels::layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                            const Tensor& y, const Tensor& stats) {
  kernel_checks::layer_norm(x, weight, bias, y, stats);
  refuse_f64("layer_norm", x, weight, bias, y);
  const std::int64_t columns = x.columns();
  const float over = 1.0f / static_cast<float>(columns);
  const Reader w(weight), b(bias);
  auto* saved = static_cast<float*>(stats.data());
  parallel_ranges(threads_, x.rows(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto in = Reader(x).at(r * columns);
      const auto out = Writer(y).at(r * columns);
      const float mean = row_sum(in, columns) * over;
      const float variance = row_squares(in, mean, columns) * over;
      const float rstd = 1.0f / std::sqrt(variance + static_cast<float>(eps));
      saved[2 * r] = mean;
      saved[2 * r + 1] = rstd;
      const F32 m = vec::set1(mean), s = vec::set1(rstd);
      vec::each(0, columns, [&](std::int64_t c, auto n) {
        out.store(c, vec::fma((in.load(c, n) - m) * s, w.load(c, n), b.load(c, n)), n);
      });
    }
  });
}

void CpuKernels::rms_norm(const Tensor& x, const Tensor& weight, const RmsNorm& norm,
                          const Tensor& y, const Tensor& stats) {
  kernel_checks::rms_norm(x, weight, y, stats);
  refuse_f64("rms_norm", x, weight, y);
  const std::int64_t columns = x.columns();
  const float over = 1.0f / static_cast<float>(columns);
  const Reader w(weight);
  const F32 offset = vec::set1(added_to_weights(norm));
  auto* saved = static_cast<float*>(stats.data());
  parallel_ranges(threads_, x.rows(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto in = Reader(x).at(r * columns);
      const auto out = Writer(y).at(r * columns);
      saved[r] =
          1.0f / std::sqrt(row_squares(in, 0.0f, columns) * over + static_cast<float>(norm.eps));
      const F32 s = vec::set1(saved[r]);
      vec::each(0, columns, [&](std::int64_t c, auto n) {
        out.store(c, in.load(c, n) * s * (w.load(c, n) + offset), n);
      });
    }
  });
}

}  // namespace trireme
