// Weights of 8 and 4 bits, plainly: rows are made of their values again, sums are of f64. Legend:
// see infer_kernels.h.
#include <vector>

#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"

namespace trireme {

using namespace reference;

void ReferenceInferKernels::linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias,
                                   const Tensor& y) {
  infer_checks::linear(x, w, bias, y);
  const std::int64_t rows = x.rows(), n = w.shape.rows, k = w.shape.columns;
  std::vector<double> add(static_cast<std::size_t>(n), 0.0);
  if (bias) load(bias, add.data());
  std::vector<double> in(static_cast<std::size_t>(rows * k)),
      out(static_cast<std::size_t>(rows * n));
  load(x, in.data());
  std::vector<float> weights(static_cast<std::size_t>(k));
  for (std::int64_t output = 0; output < n; ++output) {
    dequantize_row(w.shape, w.blob.as<std::uint8_t>(), output, weights.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::int64_t i = 0; i < k; ++i)
        sum += in[static_cast<std::size_t>(r * k + i)] * weights[static_cast<std::size_t>(i)];
      out[static_cast<std::size_t>(r * n + output)] = sum + add[static_cast<std::size_t>(output)];
    }
  }
  store(out.data(), y);
}

void ReferenceInferKernels::lookup(const Tensor& ids, const QuantizedMatrix& table,
                                   std::int64_t first_row, const Tensor& out) {
  infer_checks::lookup(ids, table, out);
  std::vector<float> row(static_cast<std::size_t>(table.shape.columns));
  for (std::int64_t r = 0; r < ids.elements(); ++r) {
    const std::int64_t at = ids.as<std::int32_t>()[r] - first_row;
    std::fill(row.begin(), row.end(), 0.0f);
    if (at >= 0 && at < table.shape.rows)
      dequantize_row(table.shape, table.blob.as<std::uint8_t>(), at, row.data());
    const std::vector<double> values(row.begin(), row.end());
    store(values.data(), out.elements_at(r * out.columns(), {out.columns()}));
  }
}

void ReferenceInferKernels::quantize(const Tensor& values, const QuantizedCut& cut,
                                     const QuantizedMatrix& to) {
  infer_checks::quantize(values, cut, to);
  const auto all = std::span(values.as<float>(), static_cast<std::size_t>(values.elements()));
  const std::int64_t step = kQuantRows * cut.whole_columns;
  for (std::int64_t b = 0; b < to.shape.blocks(); ++b) {
    const std::int64_t count = std::min(step, values.elements() - b * step);
    quantize_block(to.shape, cut,
                   all.subspan(static_cast<std::size_t>(b * step), static_cast<std::size_t>(count)),
                   to.blob.as<std::uint8_t>() + b * to.shape.block_bytes());
  }
}

}  // namespace trireme
