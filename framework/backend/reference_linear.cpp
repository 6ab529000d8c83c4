// Matrix products and their biases. Legend: see kernels.h.
#include <algorithm>
#include <vector>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"

namespace trireme {

using namespace reference;

namespace {

// b as (K, N): the inner loop of matmul then runs over neighbours and needs no reduction.
template <typename W>
std::vector<W> transposed(const Input<W>& b, std::int64_t n, std::int64_t k) {
  std::vector<W> out(static_cast<std::size_t>(n * k));
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t column = 0; column < k; ++column)
      out[static_cast<std::size_t>(column * n + row)] = b[row * k + column];
  return out;
}

// sums (N) = row i of op(a) x b, added up in the order of k.
template <typename W>
void product_row(const W* a, std::int64_t a_stride, const W* b, std::int64_t n, std::int64_t k,
                 W* sums) {
  std::fill_n(sums, n, W(0));
  for (std::int64_t p = 0; p < k; ++p) {
    const W factor = a[p * a_stride];
    const W* row = b + p * n;
    for (std::int64_t j = 0; j < n; ++j) sums[j] += factor * row[j];
  }
}

template <typename W>
void multiply(const Matmul& p, kernel_checks::MatmulExtents e) {
  const Input<W> a(p.a), b(p.b);
  const std::vector<W> turned = p.transpose_b ? transposed(b, e.n, e.k) : std::vector<W>();
  const W* b_rows = p.transpose_b ? turned.data() : b.at(0);  // (K, N)
  std::vector<W> bias(static_cast<std::size_t>(e.n), W(0));
  if (p.bias) load(p.bias, bias.data());
  const Gradient<W> c(p.c, p.accumulate);
  std::vector<W> sums(static_cast<std::size_t>(e.n));
  for (std::int64_t i = 0; i < e.m; ++i) {
    product_row(p.transpose_a ? a.at(i) : a.at(i * e.k), p.transpose_a ? e.m : 1, b_rows, e.n, e.k,
                sums.data());
    for (std::int64_t j = 0; j < e.n; ++j) {
      const auto at = static_cast<std::size_t>(j);
      c.put(i * e.n + j, sums[at] + bias[at]);
    }
  }
}

}  // namespace

void ReferenceKernels::matmul(const Matmul& m) {
  const auto extents = kernel_checks::matmul(m);
  in_wide_type(m.a.dtype(), [&](auto wide) { multiply<decltype(wide)>(m, extents); });
}

void ReferenceKernels::add_bias(const Tensor& bias, const Tensor& out) {
  kernel_checks::add_bias(bias, out);
  in_wide_type(out.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> b(bias);
    const Updated<W> y(out);
    for (std::int64_t r = 0; r < out.rows(); ++r)
      for (std::int64_t c = 0; c < out.columns(); ++c) y[r * out.columns() + c] += b[c];
  });
}

}  // namespace trireme
