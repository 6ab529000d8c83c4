#include "framework/base/shape.h"

#include <ostream>

#include "framework/base/error.h"

namespace trireme {

Shape::Shape(std::initializer_list<std::int64_t> extents) {
  check(extents.size() <= kMaxDims, "shape: at most ", kMaxDims, " dims, got ", extents.size());
  for (std::int64_t extent : extents) {
    check(extent >= 0, "shape: extents are at least 0, got ", extent);
    extents_[static_cast<std::size_t>(dims_++)] = extent;
  }
}

std::int64_t Shape::elements() const {
  std::int64_t n = 1;
  for (int d = 0; d < dims_; ++d) n *= (*this)[d];
  return n;
}

std::int64_t Shape::columns() const { return dims_ == 0 ? 1 : (*this)[dims_ - 1]; }

std::int64_t Shape::rows() const {
  std::int64_t n = 1;
  for (int d = 0; d + 1 < dims_; ++d) n *= (*this)[d];
  return n;
}

Shape Shape::with(int dim, std::int64_t extent) const {
  Shape copy = *this;
  copy.extents_[static_cast<std::size_t>(dim)] = extent;
  return copy;
}

bool Shape::operator==(const Shape& other) const {
  if (dims_ != other.dims_) return false;
  for (int d = 0; d < dims_; ++d)
    if ((*this)[d] != other[d]) return false;
  return true;
}

std::string Shape::text() const {
  std::string out = "(";
  for (int d = 0; d < dims_; ++d) out += (d ? ", " : "") + std::to_string((*this)[d]);
  return out + ")";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.text(); }

}  // namespace trireme
