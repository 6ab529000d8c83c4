// Softmax cross-entropy over one rank's columns of the vocabulary. Row statistics in f32, the loss
// in f64.
#include <cmath>
#include <limits>

#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;

constexpr std::int64_t kRowGrain = 2;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The label's column in this shard, or -1.
std::int64_t label_column(const CrossEntropy& c, std::int32_t label) {
  const std::int64_t column = label - c.first_column;
  return label >= 0 && column >= 0 && column < c.valid ? column : -1;
}

}  // namespace

void CpuKernels::row_max(const CrossEntropy& c, const Tensor& logits, const Tensor& max) {
  kernel_checks::row_max(c, logits, max);
  refuse_f64("row_max", logits);
  auto* out = static_cast<float*>(max.data());
  parallel_ranges(threads_, logits.rows(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto row = Reader(logits).at(r * logits.columns());
      F32 most = vec::set1(-kInfinity);
      vec::each(0, c.valid, [&](std::int64_t i, auto n) {
        most = vec::max(vec::keep(row.load(i, n), vec::set1(-kInfinity), n), most);
      });
      out[r] = vec::largest(most);
    }
  });
}

void CpuKernels::cross_entropy_sums(const CrossEntropy& c, const Tensor& logits, const Tensor& max,
                                    const Tensor& labels, const Tensor& sums) {
  kernel_checks::cross_entropy_sums(c, logits, max, labels, sums);
  refuse_f64("cross_entropy_sums", logits);
  const auto* most = static_cast<const float*>(max.data());
  const auto* label = labels.as<std::int32_t>();
  auto* out = static_cast<float*>(sums.data());
  parallel_ranges(threads_, logits.rows(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto row = Reader(logits).at(r * logits.columns());
      const F32 m = vec::set1(most[r]);
      F32 exps{}, distances{};
      vec::each(0, c.valid, [&](std::int64_t i, auto n) {
        const F32 d = vec::keep(row.load(i, n) - m, F32{}, n);
        distances += d;
        exps += vec::keep(vec::exp(d), F32{}, n);
      });
      const std::int64_t column = label_column(c, label[r]);
      out[3 * r] = vec::sum(exps);
      out[3 * r + 1] = column < 0 ? 0.0f : row.one(column) - most[r];
      out[3 * r + 2] = vec::sum(distances);
    }
  });
}

void CpuKernels::cross_entropy_loss(const CrossEntropy& c, const Tensor& sums, const Tensor& labels,
                                    const Tensor& total) {
  kernel_checks::cross_entropy_loss(c, sums, labels, total);
  refuse_f64("cross_entropy_loss", sums);
  const auto* label = labels.as<std::int32_t>();
  const auto* s = static_cast<const float*>(sums.data());
  double loss = 0.0;
  for (std::int64_t r = 0; r < labels.elements(); ++r) {
    if (label[r] < 0) continue;
    const double log_sum = std::log(static_cast<double>(s[3 * r]));
    const double nll = log_sum - static_cast<double>(s[3 * r + 1]);
    const double mean = log_sum - static_cast<double>(s[3 * r + 2]) / static_cast<double>(c.vocab);
    loss += (1.0 - c.smoothing) * nll + c.smoothing * mean;
  }
  *total.as<double>() += loss;
}

}  // namespace trireme
