// Gradients of tables of tokens and positions. Legend: see kernels.h.
#include <algorithm>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_view.h"
#include "framework/backend/row_positions.h"
#include "framework/backend/train/reference_train_kernels.h"

namespace trireme {

using namespace reference;

void ReferenceTrainKernels::embedding_backward(const Tensor& ids, const Tensor& dy,
                                               std::int64_t first_row, const Tensor& dtable,
                                               bool accumulate) {
  kernel_checks::embedding_backward(ids, dy, dtable);
  in_wide_type(dtable.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const std::int32_t* id = ids.as<std::int32_t>();
    const Input<W> g(dy);
    const Updated<W> d(dtable);
    if (!accumulate) std::fill_n(d.at(0), dtable.elements(), W(0));
    const std::int64_t columns = dtable.columns();
    for (std::int64_t r = 0; r < ids.elements(); ++r) {
      const std::int64_t row = id[r] - first_row;
      if (row < 0 || row >= dtable.rows()) continue;
      for (std::int64_t c = 0; c < columns; ++c) d[row * columns + c] += g[r * columns + c];
    }
  });
}

void ReferenceTrainKernels::add_positions_backward(const Tensor& dy, const Positions& p,
                                                   const Tensor& dtable, bool accumulate) {
  kernel_checks::add_positions_backward(dy, p, dtable);
  const RowPositions position_of(p);
  in_wide_type(dtable.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> g(dy);
    const Updated<W> d(dtable);
    if (!accumulate) std::fill_n(d.at(0), dtable.elements(), W(0));
    const std::int64_t columns = dy.columns();
    for (std::int64_t r = 0; r < dy.rows(); ++r) {
      W* position = d.at(position_of(r) * columns);
      for (std::int64_t c = 0; c < columns; ++c) position[c] += g[r * columns + c];
    }
  });
}

}  // namespace trireme
