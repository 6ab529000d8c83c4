#include "framework/autograd/var.h"

#include <utility>

#include "framework/base/error.h"

namespace trireme {

void GradSlot::add(Backend& backend, Tensor grad) {
  if (!grad_) {
    grad_ = std::move(grad);
    return;
  }
  check(grad_.shape() == grad.shape(), "gradient: shapes ", grad_.shape(), " and ", grad.shape(),
        " cannot be added");
  if (size_of(grad_.dtype()) < size_of(grad.dtype())) std::swap(grad_, grad);
  Tensor sum = grad_.sole_owner()
                   ? grad_
                   : backend.allocate(grad_.shape(), grad_.dtype(), MemoryKind::kActivations);
  backend.kernels()->add(grad_, grad, sum);
  grad_ = std::move(sum);
}

Tensor GradSlot::take() { return std::exchange(grad_, Tensor()); }

Tensor GradSlot::take_if_owned(DType dtype) {
  if (!grad_ || grad_.dtype() != dtype || !grad_.sole_owner()) return {};
  return take();
}

Var make_var(Tensor value, bool wants_grad) {
  return {std::move(value), wants_grad ? std::make_shared<GradSlot>() : nullptr};
}

}  // namespace trireme
