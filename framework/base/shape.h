// The extents of a tensor: up to four dims, row-major, outermost first. A value type without
// allocation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace trireme {

class Shape {
 public:
  static constexpr int kMaxDims = 4;

  Shape() = default;
  // Throws Error for more than kMaxDims extents or a negative one.
  Shape(std::initializer_list<std::int64_t> extents);

  int dims() const { return dims_; }
  std::int64_t operator[](int dim) const { return extents_[static_cast<std::size_t>(dim)]; }
  // Product of the extents; 1 for a scalar (no dims).
  std::int64_t elements() const;
  // Extent of the last dim (1 for a scalar) and the product of all others: the matrix view (rows,
  // columns).
  std::int64_t columns() const;
  std::int64_t rows() const;
  // A copy with one extent replaced.
  Shape with(int dim, std::int64_t extent) const;

  bool operator==(const Shape& other) const;

  // "(3072, 1024)"
  std::string text() const;

 private:
  std::array<std::int64_t, kMaxDims> extents_{};
  int dims_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace trireme
