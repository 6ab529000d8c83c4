// Token embeddings, learned positions, rotary positions. Legend: see kernels.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"
#include "framework/backend/row_positions.h"

namespace trireme {

using namespace reference;

void ReferenceKernels::embedding(const Tensor& ids, const Tensor& table, std::int64_t first_row,
                                 const Tensor& out) {
  kernel_checks::embedding(ids, table, out);
  in_wide_type(out.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const std::int32_t* id = ids.as<std::int32_t>();
    const Input<W> rows(table);
    const Output<W> y(out);
    const std::int64_t columns = table.columns();
    for (std::int64_t r = 0; r < ids.elements(); ++r) {
      const std::int64_t row = id[r] - first_row;
      if (row >= 0 && row < table.rows())
        std::copy_n(rows.at(row * columns), columns, y.at(r * columns));
      else
        std::fill_n(y.at(r * columns), columns, W(0));
    }
  });
}

void ReferenceKernels::add_positions(const Tensor& table, const Positions& p, const Tensor& x) {
  kernel_checks::add_positions(table, p, x);
  const RowPositions position_of(p);
  in_wide_type(x.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> positions(table);
    const Updated<W> y(x);
    const std::int64_t columns = x.columns();
    for (std::int64_t r = 0; r < x.rows(); ++r) {
      const W* position = positions.at(position_of(r) * columns);
      for (std::int64_t c = 0; c < columns; ++c) y[r * columns + c] += position[c];
    }
  });
}

namespace {

// The cosine and sine of each angle, (tokens, D/2, 2). Formed in f64, rounded once.
template <typename W>
std::vector<W> rotations(const Rotary& r, std::int64_t tokens) {
  const std::int64_t half = r.head_dim / 2;
  std::vector<W> out;
  out.reserve(static_cast<std::size_t>(tokens * r.head_dim));
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(r.first_position + t) *
                           rope_frequency(r.theta, r.head_dim, i, r.scaling);
      out.push_back(static_cast<W>(std::cos(angle)));
      out.push_back(static_cast<W>(r.inverse ? -std::sin(angle) : std::sin(angle)));
    }
  return out;
}

// Rotates one head (D) by the angles of one position (D/2, 2).
template <typename W>
void rotate(const W* angles, std::int64_t half, W* head) {
  for (std::int64_t i = 0; i < half; ++i) {
    const W cosine = angles[2 * i], sine = angles[2 * i + 1];
    const W a = head[i], b = head[i + half];
    head[i] = a * cosine - b * sine;
    head[i + half] = b * cosine + a * sine;
  }
}

}  // namespace

void ReferenceKernels::rotary(const Rotary& r, const Tensor& x) {
  kernel_checks::rotary(r, x);
  in_wide_type(x.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const std::vector<W> angles = rotations<W>(r, std::min(r.tokens, x.rows()));
    const Updated<W> y(x);
    for (std::int64_t row = 0; row < x.rows(); ++row)
      for (std::int64_t h = 0; h < r.heads; ++h)
        rotate(angles.data() + row % r.tokens * r.head_dim, r.head_dim / 2,
               y.at(row * x.columns() + h * r.head_dim));
  });
}

}  // namespace trireme
