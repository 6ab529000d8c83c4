#include "framework/backend/backend.h"

#include <cstring>

#include "framework/base/error.h"

namespace trireme {

namespace {

// Opens device memory for the copies below, also when one throws.
class Access {
 public:
  explicit Access(Backend& backend) : backend_(backend) { backend_.begin_access(); }
  ~Access() { backend_.end_access(); }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

 private:
  Backend& backend_;
};

// memcpy and memset may not be given null, even for 0 bytes.
void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

TrainKernels& Backend::existing(const std::unique_ptr<TrainKernels>& kernels) {
  check(kernels != nullptr,
        "this build is for inference only: it has no kernels of backward passes and optimizers");
  return *kernels;
}

Tensor Backend::allocate(Shape shape, DType dtype, MemoryKind kind) {
  const std::int64_t bytes = shape.elements() * size_of(dtype);
  auto storage = bytes > 0 ? do_allocate(bytes, kind)
                           : std::make_shared<Storage>(nullptr, 0, std::function<void()>());
  return Tensor(std::move(storage), 0, shape, dtype);
}

Tensor Backend::zeros(Shape shape, DType dtype, MemoryKind kind) {
  Tensor x = allocate(shape, dtype, kind);
  Access access(*this);
  if (x.bytes() > 0) std::memset(x.data(), 0, static_cast<std::size_t>(x.bytes()));
  return x;
}

void Backend::upload(const void* host, const Tensor& to) {
  check(to.defined(), "upload: the tensor is not defined");
  Access access(*this);
  copy_bytes(to.data(), host, to.bytes());
}

void Backend::share(std::int64_t n,
                    const std::function<void(std::int64_t begin, std::int64_t end)>& f) {
  f(0, n);
}

void Backend::download(const Tensor& from, void* host) {
  check(from.defined(), "download: the tensor is not defined");
  Access access(*this);
  copy_bytes(host, from.data(), from.bytes());
}

void Backend::copy(const Tensor& from, const Tensor& to) {
  check(from.defined() && to.defined(), "copy: a tensor is not defined");
  check(from.dtype() == to.dtype() && from.elements() == to.elements(), "copy: from ", from.shape(),
        " of ", name_of(from.dtype()), " to ", to.shape(), " of ", name_of(to.dtype()),
        ": type and element count must agree");
  const auto* source = static_cast<const std::byte*>(from.data());
  const auto* target = static_cast<const std::byte*>(to.data());
  check(from.bytes() == 0 || source + from.bytes() <= target || target + to.bytes() <= source,
        "copy: the two regions of ", from.bytes(), " bytes overlap");
  Access access(*this);
  copy_bytes(to.data(), from.data(), from.bytes());
}

}  // namespace trireme
