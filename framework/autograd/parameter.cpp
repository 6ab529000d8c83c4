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

void local_values(const ParameterSpec& spec, const SectionSource& source, double* out) {
  const Extents local = matrix(spec.shape);
  std::fill_n(out, local.rows * local.columns, 0.0);
  for (const Section& s : spec.sections)
    if (s.rows * local.columns > 0)
      source(s, local.columns,
             {out + s.local_row * local.columns, static_cast<std::size_t>(s.rows * local.columns)});
}

namespace {

double initial_value(const Init& init, RngKey key, std::uint64_t index) {
  switch (init.kind) {
    case Init::Kind::kZeros:
      return 0.0;
    case Init::Kind::kOnes:
      return 1.0;
    case Init::Kind::kNormal:
      return init.std * random_normal(key, index);
  }
  return 0.0;
}

}  // namespace

void initial_values(const ParameterSpec& spec, std::uint64_t seed, double* out) {
  const auto draw = [&](const Section& s, std::int64_t columns, std::span<double> rectangle) {
    const RngKey key = key_from_seed(seed).child(s.name);
    const std::int64_t whole = matrix(s.logical).columns;
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        rectangle[static_cast<std::size_t>(i * columns + j)] = initial_value(
            spec.init, key,
            static_cast<std::uint64_t>((s.global_row + i) * whole + s.global_column + j));
  };
  local_values(spec, draw, out);
}

Section whole_section(std::string name, Shape shape) {
  return {.name = std::move(name), .logical = shape, .rows = matrix(shape).rows};
}

}  // namespace trireme
