#include "framework/autograd/parameter.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

namespace {

struct Extents {
  std::int64_t rows, columns;
};

Extents matrix(const Shape& shape) {
  return shape.dims() < 2
             ? Extents{shape.elements(), 1}
             : Extents{shape[0], shape.elements() / std::max<std::int64_t>(shape[0], 1)};
}

void check_section(const ParameterSpec& spec, const Section& s, std::int64_t free_row) {
  const Extents local = matrix(spec.shape), logical = matrix(s.logical);
  check(s.local_row >= free_row && s.rows >= 0 && s.local_row + s.rows <= local.rows, "parameter ",
        spec.name, ": section ", s.name, " has rows ", s.local_row, " to ", s.local_row + s.rows,
        " but the local shape is ", spec.shape, " and rows below ", free_row, " are taken");
  check(s.global_row >= 0 && s.global_row + s.rows <= logical.rows && s.global_column >= 0 &&
            s.global_column + local.columns <= logical.columns,
        "parameter ", spec.name, ": a rectangle of (", s.rows, ", ", local.columns, ") at (",
        s.global_row, ", ", s.global_column, ") does not fit ", s.name, " of shape ", s.logical);
}

}  // namespace

Parameter::Parameter(ParameterSpec spec) : spec_(std::move(spec)) {
  std::int64_t free_row = 0;
  for (const Section& section : spec_.sections) {
    check_section(spec_, section, free_row);
    free_row = section.local_row + section.rows;
  }
}

std::int64_t local_rows(const ParameterSpec& spec) { return matrix(spec.shape).rows; }
std::int64_t local_columns(const ParameterSpec& spec) { return matrix(spec.shape).columns; }

namespace {

// Rectangles of `columns` columns, from global column `first_column` on unless that is negative.
void values_of(const ParameterSpec& spec, const SectionSource& source, std::int64_t first_row,
               std::int64_t rows, std::int64_t columns, std::int64_t first_column, double* out) {
  std::fill_n(out, rows * columns, 0.0);
  for (const Section& section : spec.sections) {
    const std::int64_t begin = std::max(section.local_row, first_row);
    const std::int64_t end = std::min(section.local_row + section.rows, first_row + rows);
    if (begin >= end || columns == 0) continue;
    Section part = section;
    part.local_row = begin;
    part.global_row += begin - section.local_row;
    part.rows = end - begin;
    if (first_column >= 0) part.global_column = first_column;
    source(part, columns,
           {out + (begin - first_row) * columns, static_cast<std::size_t>(part.rows * columns)});
  }
}

}  // namespace

void local_values(const ParameterSpec& spec, const SectionSource& source, std::int64_t first_row,
                  std::int64_t rows, double* out) {
  values_of(spec, source, first_row, rows, local_columns(spec), -1, out);
}

void whole_rows(const ParameterSpec& spec, const SectionSource& source, std::int64_t first_row,
                std::int64_t rows, double* out) {
  values_of(spec, source, first_row, rows, column_cut(spec).whole_columns, 0, out);
}

QuantizedCut column_cut(const ParameterSpec& spec) {
  const std::int64_t own = local_columns(spec);
  if (spec.sections.empty()) return {own, 0};
  const QuantizedCut cut{matrix(spec.sections[0].logical).columns, spec.sections[0].global_column};
  for (const Section& s : spec.sections)
    check(matrix(s.logical).columns == cut.whole_columns && s.global_column == cut.first_column,
          "parameter ", spec.name, ": sections of different columns cannot be quantized together");
  return cut;
}

WeightFormat held_format(const ParameterSpec& spec, WeightFormat format) {
  if (spec.quantizable == Quantizable::kNo) return WeightFormat::kPlain;
  const bool table = spec.quantizable == Quantizable::kTable;
  return table && format == WeightFormat::kInt4 ? WeightFormat::kInt8 : format;
}

void Parameter::hold_as(WeightFormat format) {
  format_ = held_format(spec_, format);
  if (format_ != WeightFormat::kPlain)
    expect_whole_groups(name(), quantized_shape(), column_cut(spec_));
}

QuantizedShape Parameter::quantized_shape() const {
  return {format_, local_rows(spec_), local_columns(spec_)};
}

std::int64_t Parameter::bytes(DType compute) const {
  return format_ == WeightFormat::kPlain ? spec_.shape.elements() * size_of(compute)
                                         : quantized_shape().bytes();
}

SectionSource initial_values(const Init& init, std::uint64_t seed) {
  return [init, seed](const Section& s, std::int64_t columns, std::span<double> rectangle) {
    if (init.kind == Init::Kind::kZeros || init.kind == Init::Kind::kOnes) {
      std::fill(rectangle.begin(), rectangle.end(), init.kind == Init::Kind::kOnes ? 1.0 : 0.0);
      return;
    }
    const RngKey key = key_from_seed(seed).child(s.name);
    const std::int64_t whole = matrix(s.logical).columns;
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const auto row = rectangle.subspan(static_cast<std::size_t>(i * columns),
                                         static_cast<std::size_t>(columns));
      auto at = static_cast<std::uint64_t>((s.global_row + i) * whole + s.global_column);
      if (init.kind == Init::Kind::kNormal) {
        random_normals(key, at, row);
      } else {
        for (double& value : row) value = 2 * random_uniform(key, at++) - 1;
      }
    }
    for (double& value : rectangle) value *= init.std;
  };
}

Section whole_section(std::string name, Shape shape) {
  return {.name = std::move(name), .logical = shape, .rows = matrix(shape).rows};
}

}  // namespace trireme
