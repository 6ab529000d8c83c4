// What a checkpoint speaks of: arrays of logical tensors, unfused and unpadded, and rectangles of
// them. Nothing here knows ranks, shards or stages; whoever saves or loads maps its own elements.
//
// A logical tensor is a matrix of rows x columns, or a vector, which is a matrix of one column.
// Each may have several arrays of its shape: "value" (the master, or the weight where that is
// wide), "exp_avg", "exp_avg_sq", "momentum".
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/dtype.h"
#include "framework/base/shape.h"

namespace trireme {

struct ArrayName {
  std::string tensor;  // "layers.3.attention.k.weight"
  std::string array;   // "value"
  auto operator<=>(const ArrayName&) const = default;
};

struct LogicalArray {
  ArrayName name;
  Shape shape;  // (rows, columns) or (rows)
  DType dtype = DType::kF32;
  std::int64_t rows() const { return shape.dims() < 1 ? 1 : shape[0]; }
  std::int64_t columns() const { return shape.dims() < 2 ? 1 : shape[1]; }
  bool operator==(const LogicalArray&) const = default;
};

struct Rectangle {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  std::int64_t elements() const { return rows * columns; }
  bool operator==(const Rectangle&) const = default;
};

// A rectangle somebody holds and will write.
struct Piece {
  LogicalArray array;
  Rectangle at;
};

// A flat run of elements [begin, end) of a matrix of `columns` columns, row-major, as at most three
// rectangles (the rest of a row, whole rows, the begin of a row), in order.
int rectangles_of(std::int64_t begin, std::int64_t end, std::int64_t columns, Rectangle out[3]);

// What both have; no elements if nothing.
Rectangle intersect(const Rectangle& a, const Rectangle& b);

// Names of tensors, arrays and files are plain: 1 to 200 letters, digits and ._+-, not "." or "..";
// nothing that a path or a group of HDF5 would understand otherwise.
bool is_plain_name(std::string_view name);

// `tensor "layers.3.attention.k.weight" (value)`, for sentences.
std::string describe(const ArrayName& name);

// Where a piece lies in its HDF5 file: "/layers.3.attention.k.weight/value/0,0".
std::string dataset_path(const Piece& piece);

// Throws Error, beginning with `where`, unless the names are plain, the shape has one or two dims
// and a size that can be counted in bytes, the type is floating, and the rectangle is inside.
void check_piece(const Piece& piece, std::string_view where);

}  // namespace trireme
