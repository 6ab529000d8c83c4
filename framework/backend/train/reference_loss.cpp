// Gradient of the vocabulary-parallel cross-entropy. Legend: see kernels.h.
#include <cmath>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_view.h"
#include "framework/backend/train/reference_train_kernels.h"

namespace trireme {

using namespace reference;

void ReferenceTrainKernels::cross_entropy_backward(const CrossEntropy& c, const Tensor& logits,
                                                   const Tensor& max, const Tensor& sums,
                                                   const Tensor& labels, double seed,
                                                   const Tensor& dlogits) {
  kernel_checks::cross_entropy_backward(c, logits, max, sums, labels, dlogits);
  in_wide_type(logits.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> x(logits), largest(max), s(sums);
    const Output<W> out(dlogits);
    const std::int32_t* label = labels.as<std::int32_t>();
    const std::int64_t columns = logits.columns();
    const W everywhere = static_cast<W>(c.smoothing / static_cast<double>(c.vocab));
    for (std::int64_t r = 0; r < logits.rows(); ++r)
      for (std::int64_t i = 0; i < columns; ++i) {
        const bool counts = label[r] >= 0 && i < c.valid;
        const W target =
            (label[r] == c.first_column + i ? static_cast<W>(1.0 - c.smoothing) : W(0)) +
            everywhere;
        const W softmax = counts ? std::exp(x[r * columns + i] - largest[r]) / s[3 * r] : W(0);
        out[r * columns + i] = counts ? static_cast<W>(seed) * (softmax - target) : W(0);
      }
  });
}

}  // namespace trireme
