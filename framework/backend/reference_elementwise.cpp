// Additions, conversions, dropout and activations. Legend: see kernels.h.
#include <cmath>
#include <cstring>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_activation.h"
#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"

namespace trireme {

using namespace reference;

void ReferenceKernels::add(const Tensor& a, const Tensor& b, const Tensor& out) {
  kernel_checks::add(a, b, out);
  in_wide_type(out.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> x(a), y(b);
    const Output<W> sum(out);
    for (std::int64_t i = 0, n = out.elements(); i < n; ++i) sum[i] = x[i] + y[i];
  });
}

void ReferenceKernels::cast(const Tensor& from, const Tensor& to) {
  kernel_checks::cast(from, to);
  if (from.dtype() == to.dtype()) {
    if (from.bytes() > 0)
      std::memmove(to.data(), from.data(), static_cast<std::size_t>(from.bytes()));
    return;
  }
  in_wide_type(from.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> x(from);
    store(x.at(0), to);
  });
}

void ReferenceKernels::fill(const Tensor& x, double value) {
  kernel_checks::fill(x);
  if (x.dtype() == DType::kI32) {
    std::fill_n(x.as<std::int32_t>(), x.elements(), static_cast<std::int32_t>(value));
  } else if (x.dtype() == DType::kU8) {
    std::fill_n(x.as<std::uint8_t>(), x.elements(), static_cast<std::uint8_t>(value));
  } else {
    const Output<double> y(x);
    std::fill_n(y.at(0), x.elements(), value);
  }
}

void ReferenceKernels::scale(const Tensor& x, double factor) {
  kernel_checks::scale(x);
  in_wide_type(x.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Updated<W> y(x);
    for (std::int64_t i = 0, n = x.elements(); i < n; ++i) y[i] *= static_cast<W>(factor);
  });
}

void ReferenceKernels::dropout(const Dropout& d, const Tensor& x, const Tensor& y) {
  kernel_checks::dropout(d, x, y);
  in_wide_type(y.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(x);
    const Output<W> out(y);
    const std::int64_t columns = x.columns();
    for (std::int64_t r = 0; r < x.rows(); ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto index =
            static_cast<std::uint64_t>((d.first_row + r) * d.total_columns + d.first_column + c);
        const W factor = random_word(d.key, index) < d.threshold ? W(0) : static_cast<W>(d.scale);
        out[r * columns + c] = in[r * columns + c] * factor;
      }
  });
}

namespace {

// y (R, F), x (R, F) or (R, 2F) = [gate | up].
template <typename W, typename Act>
void forward(Act, bool gated, std::int64_t rows, std::int64_t width, const Input<W>& x,
             const Output<W>& y) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const W* in = x.at(r * (gated ? 2 : 1) * width);
    W* out = y.at(r * width);
    for (std::int64_t f = 0; f < width; ++f)
      out[f] = Act::value(in[f]) * (gated ? in[width + f] : W(1));
  }
}

}  // namespace

void ReferenceKernels::activation(Activation act, bool gated, const Tensor& x, const Tensor& y) {
  kernel_checks::activation(gated, x, y);
  in_wide_type(y.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(x);
    const Output<W> out(y);
    with_activation<W>(act, [&](auto f) { forward(f, gated, y.rows(), y.columns(), in, out); });
  });
}

}  // namespace trireme
