// Gradient of the softmax cross-entropy.
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/train/cpu_train_kernels.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

constexpr std::int64_t kRowGrain = 2;

// The label's column in this shard, or -1.
std::int64_t label_column(const CrossEntropy& c, std::int32_t label) {
  const std::int64_t column = label - c.first_column;
  return label >= 0 && column >= 0 && column < c.valid ? column : -1;
}

}  // namespace

void CpuTrainKernels::cross_entropy_backward(const CrossEntropy& c, const Tensor& logits,
                                             const Tensor& max, const Tensor& sums,
                                             const Tensor& labels, double seed,
                                             const Tensor& dlogits) {
  kernel_checks::cross_entropy_backward(c, logits, max, sums, labels, dlogits);
  refuse_f64("cross_entropy_backward", logits, dlogits);
  const auto* most = static_cast<const float*>(max.data());
  const auto* sum = static_cast<const float*>(sums.data());
  const auto* label = labels.as<std::int32_t>();
  const std::int64_t columns = logits.columns();
  const F32 spread =
      vec::set1(static_cast<float>(seed * c.smoothing / static_cast<double>(c.vocab)));
  parallel_ranges(threads_, logits.rows(), kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto row = Reader(logits).at(r * columns);
      const auto out = Writer(dlogits).at(r * columns);
      const bool counts = label[r] >= 0;
      const std::int64_t column = label_column(c, label[r]);
      // One column is read before out, which may alias it, is written.
      const float at_label = column < 0 ? 0.0f : row.one(column);
      const F32 m = vec::set1(most[r]);
      const F32 factor = vec::set1(static_cast<float>(seed / static_cast<double>(sum[3 * r])));
      vec::each(0, counts ? c.valid : 0, [&](std::int64_t i, auto n) {
        out.store(i, vec::fma(vec::exp(row.load(i, n) - m), factor, -spread), n);
      });
      vec::each(counts ? c.valid : 0, columns,
                [&](std::int64_t i, auto n) { out.store(i, F32{}, n); });
      if (column < 0) continue;
      const float p = vec::exp(vec::set1(at_label - most[r]))[0] * factor[0] - spread[0];
      out.one(column, p - static_cast<float>(seed * (1.0 - c.smoothing)));
    }
  });
}

}  // namespace trireme
