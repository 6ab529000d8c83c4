// Gradients of activations. Legend: see kernels.h.
#include "framework/backend/reference_activation.h"

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_view.h"
#include "framework/backend/train/reference_train_kernels.h"

namespace trireme {

using namespace reference;

namespace {

// dx like x. Each element is read before it is written: dx may be x.
template <typename W, typename Act>
void backward(Act, bool gated, std::int64_t rows, std::int64_t width, const Input<W>& x,
              const Input<W>& dy, const Output<W>& dx) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const W* in = x.at(r * (gated ? 2 : 1) * width);
    const W* g = dy.at(r * width);
    W* out = dx.at(r * (gated ? 2 : 1) * width);
    for (std::int64_t f = 0; f < width; ++f) {
      const W gate = in[f];
      const W up = gated ? in[width + f] : W(1);
      out[f] = g[f] * up * Act::slope(gate);
      if (gated) out[width + f] = g[f] * Act::value(gate);
    }
  }
}

}  // namespace

void ReferenceTrainKernels::activation_backward(Activation act, bool gated, const Tensor& x,
                                                const Tensor& dy, const Tensor& dx) {
  kernel_checks::activation_backward(gated, x, dy, dx);
  in_wide_type(dx.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(x), g(dy);
    const Output<W> out(dx);
    with_activation<W>(act,
                       [&](auto f) { backward(f, gated, dy.rows(), dy.columns(), in, g, out); });
  });
}

}  // namespace trireme
