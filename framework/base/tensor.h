// A tensor: a typed, shaped, contiguous row-major view of counted storage.
//
// Copying a Tensor shares its storage; the bytes live until the last view dies. Tensors are made by
// Backend::allocate (or as views of another tensor), never directly. `data()` may be dereferenced
// only by a backend, a communicator or host-tier code: on a GPU it is a device address, and the
// guarded test backend makes any other access crash.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "framework/base/dtype.h"
#include "framework/base/memory_ledger.h"
#include "framework/base/shape.h"

namespace trireme {

// Owns one block of bytes and gives it back, to the allocator and to the ledger, when it dies.
class Storage {
 public:
  // `release` frees `data`; it may be empty for memory owned elsewhere. Does not count: the maker
  // has counted.
  Storage(void* data, std::int64_t bytes, std::function<void()> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  ~Storage() {
    if (release_) release_();
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::int64_t bytes() const { return bytes_; }

 private:
  void* data_;
  std::int64_t bytes_;
  std::function<void()> release_;
};

// The storage of `data`, which `release` gives back: also when there is no memory for the Storage.
template <typename Release>
std::shared_ptr<Storage> make_storage(void* data, std::int64_t bytes, const Release& release) {
  try {
    return std::make_shared<Storage>(data, bytes, release);
  } catch (...) {
    release();
    throw;
  }
}

class Tensor {
 public:
  Tensor() = default;  // empty: defined() is false
  // A view of `storage` from byte `offset` on. Throws Error if it does not fit.
  Tensor(std::shared_ptr<Storage> storage, std::int64_t offset, Shape shape, DType dtype);

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::int64_t elements() const { return shape_.elements(); }
  std::int64_t bytes() const { return elements() * size_of(dtype_); }
  std::int64_t rows() const { return shape_.rows(); }
  std::int64_t columns() const { return shape_.columns(); }

  void* data() const { return storage_ ? storage_->data() + offset_ : nullptr; }
  // Throws Error if T is not the element type.
  template <typename T>
  T* as() const;

  // Views; no bytes move. Throw Error when sizes do not agree.
  Tensor reshaped(Shape shape) const;
  Tensor sliced_rows(std::int64_t begin, std::int64_t end) const;  // of the outermost dim
  Tensor elements_at(std::int64_t begin, Shape shape) const;  // flat offset in elements, new shape
  // Bytes of another type, from byte `begin` of this view on.
  Tensor reinterpreted(std::int64_t begin, Shape shape, DType dtype) const;

  // True when no other Tensor shares the storage: an in-place update is then unseen by anybody.
  bool sole_owner() const { return storage_.use_count() == 1; }

 private:
  std::shared_ptr<Storage> storage_;
  std::int64_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::kF32;
};

}  // namespace trireme
