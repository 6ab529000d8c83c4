// How the reference kernels see a tensor of any floating type: as an array of the wide type W
// (float or double).
//
// A tensor whose elements are W already is used in place; any other is converted to scratch on the
// way in, and rounded once to its type on the way out. So a kernel is written once, over plain
// arrays, for two types.
#pragma once

#include <vector>

#include "framework/base/error.h"
#include "framework/base/rounding.h"
#include "framework/base/tensor.h"

namespace trireme::reference {

// Calls f(W{}) with the wide type of `dtype`.
template <typename F>
void in_wide_type(DType dtype, F&& f) {
  if (accumulation_type(dtype) == DType::kF64)
    f(double{});
  else
    f(float{});
}

template <typename W>
inline constexpr DType kWide = std::is_same_v<W, double> ? DType::kF64 : DType::kF32;

// Elements [0, n) of x, converted. x is floating.
template <typename W>
void load(const Tensor& x, W* to);
// The reverse; rounds to nearest even.
template <typename W>
void store(const W* from, const Tensor& x);

extern template void load<float>(const Tensor&, float*);
extern template void load<double>(const Tensor&, double*);
extern template void store<float>(const float*, const Tensor&);
extern template void store<double>(const double*, const Tensor&);

// The elements of an input.
template <typename W>
class Input {
 public:
  explicit Input(const Tensor& x) {
    if (x.dtype() == kWide<W>) {
      data_ = x.as<W>();
      return;
    }
    scratch_.resize(static_cast<std::size_t>(x.elements()));
    load(x, scratch_.data());
    data_ = scratch_.data();
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  W operator[](std::int64_t i) const { return data_[i]; }
  const W* at(std::int64_t i) const { return data_ + i; }

 private:
  std::vector<W> scratch_;
  const W* data_ = nullptr;
};

// The elements of an output, or of an operand updated in place. Written back when the view dies.
template <typename W>
class Output {
 public:
  enum class Start { kUnset, kCurrent };

  explicit Output(const Tensor& x, Start start = Start::kUnset) : tensor_(x) {
    if (x.dtype() == kWide<W>) {
      data_ = x.as<W>();
      return;
    }
    scratch_.resize(static_cast<std::size_t>(x.elements()));
    if (start == Start::kCurrent) load(x, scratch_.data());
    data_ = scratch_.data();
  }
  ~Output() {
    if (data_ == scratch_.data()) store(data_, tensor_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  W& operator[](std::int64_t i) const { return data_[i]; }
  W* at(std::int64_t i) const { return data_ + i; }

 private:
  Tensor tensor_;
  std::vector<W> scratch_;
  W* data_ = nullptr;
};

// An operand updated in place: its current elements are seen.
template <typename W>
class Updated : public Output<W> {
 public:
  explicit Updated(const Tensor& x) : Output<W>(x, Output<W>::Start::kCurrent) {}
};

// A gradient that is set, or added to when `accumulate`. Sums are finished before they are added,
// so old values are read only where they count.
template <typename W>
class Gradient : public Output<W> {
 public:
  Gradient(const Tensor& x, bool accumulate)
      : Output<W>(x, accumulate ? Output<W>::Start::kCurrent : Output<W>::Start::kUnset),
        accumulate_(accumulate) {}
  void put(std::int64_t i, W value) const { (*this)[i] = accumulate_ ? (*this)[i] + value : value; }

 private:
  bool accumulate_;
};

}  // namespace trireme::reference
