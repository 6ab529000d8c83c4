// Layer norm (Ba et al., arXiv 1607.06450) and RMS norm (Zhang and Sennrich, arXiv 1910.07467).
// Legend: see kernels.h.
#include <cmath>
#include <vector>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"

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

}  // namespace trireme
