// Vocabulary-parallel cross-entropy (Megatron-LM, arXiv 1909.08053, section 3). Legend: see
// kernels.h.
#include <cmath>
#include <limits>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"

namespace trireme {

using namespace reference;

void ReferenceKernels::row_max(const CrossEntropy& c, const Tensor& logits, const Tensor& max) {
  kernel_checks::row_max(c, logits, max);
  in_wide_type(logits.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> x(logits);
    const Output<W> out(max);
    for (std::int64_t r = 0; r < logits.rows(); ++r) {
      const W* row = x.at(r * logits.columns());
      W largest = -std::numeric_limits<W>::infinity();
      for (std::int64_t i = 0; i < c.valid; ++i)
        largest = row[i] > largest || std::isnan(row[i]) ? row[i] : largest;
      out[r] = largest;
    }
  });
}

void ReferenceKernels::cross_entropy_sums(const CrossEntropy& c, const Tensor& logits,
                                          const Tensor& max, const Tensor& labels,
                                          const Tensor& sums) {
  kernel_checks::cross_entropy_sums(c, logits, max, labels, sums);
  in_wide_type(logits.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> x(logits), largest(max);
    const Output<W> out(sums);
    const std::int32_t* label = labels.as<std::int32_t>();
    for (std::int64_t r = 0; r < logits.rows(); ++r) {
      const W* row = x.at(r * logits.columns());
      W exponentials = 0, distances = 0;
      for (std::int64_t i = 0; i < c.valid; ++i) {
        exponentials += std::exp(row[i] - largest[r]);
        distances += row[i] - largest[r];
      }
      const std::int64_t own = label[r] - c.first_column;
      out[3 * r] = exponentials;
      out[3 * r + 1] = label[r] >= 0 && own >= 0 && own < c.valid ? row[own] - largest[r] : W(0);
      out[3 * r + 2] = distances;
    }
  });
}

// With z = log sum exp(x - max): -log p[i] = z - (x[i] - max).
void ReferenceKernels::cross_entropy_loss(const CrossEntropy& c, const Tensor& sums,
                                          const Tensor& labels, const Tensor& total) {
  kernel_checks::cross_entropy_loss(c, sums, labels, total);
  const Input<double> s(sums);
  const std::int32_t* label = labels.as<std::int32_t>();
  double loss = 0;
  for (std::int64_t r = 0; r < labels.elements(); ++r) {
    if (label[r] < 0) continue;
    const double z = std::log(s[3 * r]);
    loss += (1.0 - c.smoothing) * (z - s[3 * r + 1]);
    // Left out rather than multiplied by 0: a logit of -infinity is legal without smoothing.
    if (c.smoothing > 0) loss += c.smoothing * (z - s[3 * r + 2] / static_cast<double>(c.vocab));
  }
  total.as<double>()[0] += loss;
}

}  // namespace trireme
