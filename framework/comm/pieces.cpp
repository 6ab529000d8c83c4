#include "framework/comm/pieces.h"

#include "framework/backend/backend.h"

namespace trireme {

Tensor borrowed(const std::byte* memory, std::int64_t elements, DType dtype) {
  const std::int64_t bytes = elements * size_of(dtype);
  return Tensor(
      std::make_shared<Storage>(const_cast<std::byte*>(memory), bytes, std::function<void()>()), 0,
      {elements}, dtype);
}

void reduce_in_order(Backend& backend, CallKind kind, const std::vector<Tensor>& pieces,
                     const Tensor& out) {
  if (out.elements() == 0) return;
  if (kind == CallKind::kAllReduceMax)
    backend.kernels()->max_of(pieces, out);
  else if (pieces.size() > 1 || pieces[0].dtype() != out.dtype())
    backend.kernels()->sum_in_order(pieces, out);
  else
    copy_apart(backend, pieces[0], out);
}

void copy_apart(Backend& backend, const Tensor& from, const Tensor& to) {
  if (from.elements() == 0 || from.data() == to.data()) return;
  backend.copy(from, to);
}

}  // namespace trireme
