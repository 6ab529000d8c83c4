// The sentences that kernel_checks*.cpp are made of. Private to them.
#pragma once

#include <string_view>

#include "framework/backend/kernels.h"
#include "framework/base/error.h"

namespace trireme::kernel_checks {

// "x is f32 (3, 4)".
struct Described {
  std::string_view name;
  const Tensor& tensor;
};
inline std::ostream& operator<<(std::ostream& out, const Described& d) {
  return out << d.name << " is " << name_of(d.tensor.dtype()) << " " << d.tensor.shape();
}

inline void defined(std::string_view op, std::string_view name, const Tensor& x) {
  check(x.defined(), op, ": ", name, " is not defined");
}

inline void floating(std::string_view op, std::string_view name, const Tensor& x) {
  defined(op, name, x);
  check(is_floating(x.dtype()), op, ": ", Described{name, x}, "; a floating type is needed");
}

inline void type(std::string_view op, std::string_view name, const Tensor& x, DType dtype) {
  defined(op, name, x);
  check(x.dtype() == dtype, op, ": ", Described{name, x}, "; ", name_of(dtype), " is needed");
}

// Wide or compute type beside `other`: f64 goes with f64 only.
inline void family(std::string_view op, std::string_view name, const Tensor& x,
                   std::string_view other_name, const Tensor& other) {
  floating(op, name, x);
  check(accumulation_type(x.dtype()) == accumulation_type(other.dtype()), op, ": ",
        Described{name, x}, " but ", Described{other_name, other}, "; f64 goes only with f64");
}

inline void count(std::string_view op, std::string_view name, const Tensor& x,
                  std::int64_t elements) {
  check(x.elements() == elements, op, ": ", Described{name, x}, "; ", elements,
        " elements are needed");
}

inline void matrix(std::string_view op, std::string_view name, const Tensor& x, std::int64_t rows,
                   std::int64_t columns) {
  check(x.rows() == rows && x.columns() == columns, op, ": ", Described{name, x}, "; ", rows,
        " rows of ", columns, " columns are needed");
}

inline void positive(std::string_view op, std::string_view name, std::int64_t value) {
  check(value > 0, op, ": ", name, " is ", value, "; at least 1 is needed");
}

inline void not_negative(std::string_view op, std::string_view name, std::int64_t value) {
  check(value >= 0, op, ": ", name, " is ", value, "; at least 0 is needed");
}

}  // namespace trireme::kernel_checks
