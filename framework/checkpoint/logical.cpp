#include "framework/checkpoint/logical.h"

#include <algorithm>

#include "framework/base/checked.h"
#include "framework/base/error.h"

namespace trireme {

int rectangles_of(std::int64_t begin, std::int64_t end, std::int64_t columns, Rectangle out[3]) {
  check(columns > 0 && begin >= 0, "a run from element ", begin, " of rows of ", columns,
        " elements is none");
  int count = 0;
  const auto add = [&](std::int64_t from, std::int64_t to) {  // inside a row, or whole rows
    if (from >= to) return;
    const std::int64_t rows = std::max<std::int64_t>(1, (to - from) / columns);
    out[count++] = {from / columns, from % columns, rows, (to - from) / rows};
  };
  if (begin >= end) return 0;
  const std::int64_t whole_from = (begin + columns - 1) / columns * columns;
  const std::int64_t whole_to = end / columns * columns;
  if (whole_from > whole_to) {  // inside one row
    add(begin, end);
    return count;
  }
  add(begin, whole_from);
  add(whole_from, whole_to);
  add(whole_to, end);
  return count;
}

Rectangle intersect(const Rectangle& a, const Rectangle& b) {
  const std::int64_t row = std::max(a.row, b.row);
  const std::int64_t column = std::max(a.column, b.column);
  const std::int64_t rows = std::min(a.row + a.rows, b.row + b.rows) - row;
  const std::int64_t columns = std::min(a.column + a.columns, b.column + b.columns) - column;
  if (rows <= 0 || columns <= 0) return {row, column, 0, 0};
  return {row, column, rows, columns};
}

bool is_plain_name(std::string_view name) {
  constexpr std::size_t kLongest = 200;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '+' || c == '-';
  };
  return !name.empty() && name.size() <= kLongest && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), plain);
}

std::string describe(const ArrayName& name) {
  return join("tensor \"", name.tensor, "\" (", name.array, ")");
}

std::string dataset_path(const Piece& piece) {
  const ArrayName& name = piece.array.name;
  return join("/", name.tensor, "/", name.array, "/", piece.at.row, ",", piece.at.column);
}

void check_piece(const Piece& piece, std::string_view where) {
  const LogicalArray& array = piece.array;
  check(is_plain_name(array.name.tensor) && is_plain_name(array.name.array), where, ": \"",
        array.name.tensor, "\" (", array.name.array,
        ") is no name for a tensor; use letters, digits and ._+-");
  const std::string what = join(where, ": ", describe(array.name));
  check(array.shape.dims() == 1 || array.shape.dims() == 2, what, " has the shape ", array.shape,
        "; one or two dims can be stored");
  check(is_floating(array.dtype), what, " has type ", name_of(array.dtype),
        "; f64, f32, bf16 and f16 can be stored");
  checked_mul(checked_mul(array.rows(), array.columns(), what), size_of(array.dtype), what);
  const Rectangle& at = piece.at;
  const bool inside = at.row >= 0 && at.column >= 0 && at.rows >= 0 && at.columns >= 0 &&
                      at.row <= array.rows() && at.rows <= array.rows() - at.row &&
                      at.column <= array.columns() && at.columns <= array.columns() - at.column;
  check(inside, what, ": ", at.rows, " x ", at.columns, " elements at row ", at.row, ", column ",
        at.column, " are not inside its shape ", array.shape);
}

}  // namespace trireme
