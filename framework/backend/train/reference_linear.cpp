// Gradients of biases. Legend: see kernels.h.
#include <vector>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_view.h"
#include "framework/backend/train/reference_train_kernels.h"

namespace trireme {

using namespace reference;

void ReferenceTrainKernels::column_sum(const Tensor& dy, const Tensor& out, bool accumulate) {
  kernel_checks::column_sum(dy, out);
  in_wide_type(out.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const std::int64_t columns = dy.columns();
    const Input<W> in(dy);
    std::vector<W> sums(static_cast<std::size_t>(columns), W(0));
    for (std::int64_t r = 0; r < dy.rows(); ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        sums[static_cast<std::size_t>(c)] += in[r * columns + c];
    const Gradient<W> total(out, accumulate);
    for (std::int64_t c = 0; c < columns; ++c) total.put(c, sums[static_cast<std::size_t>(c)]);
  });
}

}  // namespace trireme
