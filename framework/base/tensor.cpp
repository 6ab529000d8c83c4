#include "framework/base/tensor.h"

#include <type_traits>

#include "framework/base/error.h"

namespace trireme {

Tensor::Tensor(std::shared_ptr<Storage> storage, std::int64_t offset, Shape shape, DType dtype)
    : storage_(std::move(storage)), offset_(offset), shape_(shape), dtype_(dtype) {
  check(storage_ && offset_ >= 0 && offset_ + bytes() <= storage_->bytes(), "tensor: a view of ",
        bytes(), " bytes at offset ", offset_, " does not fit storage of ",
        storage_ ? storage_->bytes() : 0, " bytes");
}

namespace {
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::kBF16;
  if constexpr (std::is_same_v<T, Float16>) return DType::kF16;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::kI32;
  return DType::kU8;
}
}  // namespace

template <typename T>
T* Tensor::as() const {
  check(dtype_ == dtype_of<T>(), "tensor: elements are ", name_of(dtype_), ", not ",
        name_of(dtype_of<T>()));
  return static_cast<T*>(data());
}

template double* Tensor::as<double>() const;
template float* Tensor::as<float>() const;
template BFloat16* Tensor::as<BFloat16>() const;
template Float16* Tensor::as<Float16>() const;
template std::int32_t* Tensor::as<std::int32_t>() const;
template std::uint8_t* Tensor::as<std::uint8_t>() const;

Tensor Tensor::reshaped(Shape shape) const {
  check(shape.elements() == elements(), "tensor: ", shape_, " cannot be seen as ", shape);
  Tensor view = *this;
  view.shape_ = shape;
  return view;
}

Tensor Tensor::sliced_rows(std::int64_t begin, std::int64_t end) const {
  check(shape_.dims() > 0 && 0 <= begin && begin <= end && end <= shape_[0], "tensor: rows ", begin,
        " to ", end, " are not in ", shape_);
  Tensor view = *this;
  const std::int64_t row = shape_[0] == 0 ? 0 : elements() / shape_[0];
  view.offset_ += begin * row * size_of(dtype_);
  view.shape_ = shape_.with(0, end - begin);
  return view;
}

Tensor Tensor::elements_at(std::int64_t begin, Shape shape) const {
  check(begin >= 0 && begin + shape.elements() <= elements(), "tensor: ", shape, " from element ",
        begin, " is not in ", shape_);
  Tensor view = *this;
  view.offset_ += begin * size_of(dtype_);
  view.shape_ = shape;
  return view;
}

Tensor Tensor::reinterpreted(std::int64_t begin, Shape shape, DType dtype) const {
  check(begin >= 0 && begin + shape.elements() * size_of(dtype) <= bytes(), "tensor: ", shape,
        " of ", name_of(dtype), " from byte ", begin, " is not in ", bytes(), " bytes");
  Tensor view = *this;
  view.offset_ += begin;
  view.shape_ = shape;
  view.dtype_ = dtype;
  return view;
}

}  // namespace trireme
