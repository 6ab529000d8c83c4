// A unit whose weights are held as bytes (framework/backend/quantized.h): values are quantized
// piece by piece as they come, so that beside the bytes there is never more of them than a piece.
#include <algorithm>
#include <cmath>

#include "framework/backend/host_values.h"
#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"
#include "zero/unit.h"

namespace trireme {

namespace {

constexpr std::int64_t kPieceElements = 1 << 19;

// Rows of a piece, in whole blocks.
std::int64_t rows_of(std::int64_t columns) {
  const std::int64_t rows = kPieceElements / std::max<std::int64_t>(1, columns);
  return std::max<std::int64_t>(1, rows / kQuantRows) * kQuantRows;
}

void expect_quantizable(const ParameterSpec& spec, const std::vector<double>& values,
                        std::int64_t first_row, std::int64_t columns) {
  double least = 0, most = 0;
  bool numbers = true;
  for (const double x : values) {
    least = x < least ? x : least;
    most = x > most ? x : most;
    numbers &= x == x;
  }
  if (numbers && quantizable(least) && quantizable(most)) return;
  const auto bad = std::find_if_not(values.begin(), values.end(), quantizable);
  fail("weight ", spec.name, ": row ", first_row + (bad - values.begin()) / columns, " has ", *bad,
       ", which 8 or 4 bits cannot stand for; hold weights in full (inference.weights = full)");
}

}  // namespace

// What of the bytes from `at` on lies in this rank's home.
void Unit::keep_bytes(std::int64_t at, const Tensor& bytes) {
  const Range part = intersect({at, at + bytes.elements()}, weights_.range());
  if (!part.empty()) weights_.save(part, bytes.elements_at(part.begin - at, {part.size()}));
}

void Unit::fill_bytes(std::size_t index, const SectionSource& source) {
  if (parameters_[index]->format() != WeightFormat::kPlain) return fill_quantized(index, source);
  const ParameterSpec& spec = parameters_[index]->spec();
  const std::int64_t rows = local_rows(spec), columns = local_columns(spec),
                     step = rows_of(columns);
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows && columns > 0; row += step) {
    const std::int64_t count = std::min(step, rows - row) * columns;
    const std::int64_t at = layout_.offset(static_cast<std::int64_t>(index)) +
                            row * columns * size_of(options_.compute);
    values.resize(static_cast<std::size_t>(count));
    local_values(spec, source, row, count / columns, values.data());
    const Tensor piece = backend_.allocate({count}, options_.compute, MemoryKind::kWorkspace);
    upload_doubles(backend_, values, piece);
    keep_bytes(at, piece.reinterpreted(0, {piece.bytes()}, DType::kU8));
  }
}

void Unit::fill_quantized(std::size_t index, const SectionSource& source) {
  const ParameterSpec& spec = parameters_[index]->spec();
  const QuantizedShape whole = parameters_[index]->quantized_shape();
  const QuantizedCut cut = column_cut(spec);
  const std::int64_t step = rows_of(cut.whole_columns);
  std::vector<double> values;
  std::vector<float> floats;
  for (std::int64_t row = 0; row < whole.rows && whole.columns > 0; row += step) {
    const QuantizedShape shape{whole.format, std::min(step, whole.rows - row), whole.columns};
    const std::int64_t at =
        layout_.offset(static_cast<std::int64_t>(index)) + row / kQuantRows * whole.block_bytes();
    if (intersect({at, at + shape.bytes()}, weights_.range()).empty()) continue;
    values.resize(static_cast<std::size_t>(shape.rows * cut.whole_columns));
    whole_rows(spec, source, row, shape.rows, values.data());
    expect_quantizable(spec, values, row, cut.whole_columns);
    floats.assign(values.begin(), values.end());
    const Tensor from =
        backend_.allocate({shape.rows, cut.whole_columns}, DType::kF32, MemoryKind::kWorkspace);
    backend_.upload(floats.data(), from);
    const Tensor blob = backend_.allocate({shape.bytes()}, DType::kU8, MemoryKind::kWorkspace);
    backend_.infer_kernels()->quantize(from, cut, {shape, blob});
    keep_bytes(at, blob);
  }
}

}  // namespace trireme
