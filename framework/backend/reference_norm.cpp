// Layer norm (Ba et al., arXiv 1607.06450) and RMS norm (Zhang and Sennrich, arXiv 1910.07467).
// Legend: see kernels.h.
#include <cmath>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"

namespace trireme {

using namespace reference;

void ReferenceKernels::layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  double eps, const Tensor& y, const Tensor& stats) {
  kernel_checks::layer_norm(x, weight, bias, y, stats);
  in_wide_type(y.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(x), w(weight), b(bias);
    const Output<W> out(y), s(stats);
    const std::int64_t columns = x.columns();
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      const W* row = in.at(r * columns);
      W sum = 0, squares = 0;
      for (std::int64_t c = 0; c < columns; ++c) sum += row[c];
      const W mean = sum / static_cast<W>(columns);
      for (std::int64_t c = 0; c < columns; ++c) squares += (row[c] - mean) * (row[c] - mean);
      const W rstd = W(1) / std::sqrt(squares / static_cast<W>(columns) + static_cast<W>(eps));
      for (std::int64_t c = 0; c < columns; ++c)
        out[r * columns + c] = (row[c] - mean) * rstd * w[c] + b[c];
      s[2 * r] = mean;
      s[2 * r + 1] = rstd;
    }
  });
}

void ReferenceKernels::rms_norm(const Tensor& x, const Tensor& weight, const RmsNorm& n,
                                const Tensor& y, const Tensor& stats) {
  kernel_checks::rms_norm(x, weight, y, stats);
  in_wide_type(y.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(x), w(weight);
    const Output<W> out(y), s(stats);
    const auto offset = static_cast<W>(n.weight_offset);
    const std::int64_t columns = x.columns();
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      const W* row = in.at(r * columns);
      W squares = 0;
      for (std::int64_t c = 0; c < columns; ++c) squares += row[c] * row[c];
      const W rstd = W(1) / std::sqrt(squares / static_cast<W>(columns) + static_cast<W>(n.eps));
      for (std::int64_t c = 0; c < columns; ++c)
        out[r * columns + c] = row[c] * rstd * (w[c] + offset);
      s[r] = rstd;
    }
  });
}

}  // namespace trireme
