// Sums over pieces of several ranks. Legend: see kernels.h.
#include <cmath>
#include <vector>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"

namespace trireme {

using namespace reference;

void ReferenceKernels::sum_in_order(std::span<const Tensor> pieces, const Tensor& out) {
  kernel_checks::sum_in_order(pieces, out);
  in_wide_type(out.dtype(), [&](auto wide) {
    using W = decltype(wide);
    std::vector<W> sums(static_cast<std::size_t>(out.elements()));
    load(pieces.front(), sums.data());
    for (const Tensor& piece : pieces.subspan(1)) {
      const Input<W> x(piece);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += x[static_cast<std::int64_t>(i)];
    }
    store(sums.data(), out);
  });
}

void ReferenceKernels::max_of(std::span<const Tensor> pieces, const Tensor& out) {
  kernel_checks::max_of(pieces, out);
  in_wide_type(out.dtype(), [&](auto wide) {
    using W = decltype(wide);
    std::vector<W> largest(static_cast<std::size_t>(out.elements()));
    load(pieces.front(), largest.data());
    for (const Tensor& piece : pieces.subspan(1)) {
      const Input<W> x(piece);
      for (std::size_t i = 0; i < largest.size(); ++i) {
        const W value = x[static_cast<std::int64_t>(i)];
        if (value > largest[i] || std::isnan(value)) largest[i] = value;
      }
    }
    store(largest.data(), out);
  });
}

}  // namespace trireme
