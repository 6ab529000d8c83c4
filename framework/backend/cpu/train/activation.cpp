// Gradients of activations.
#include "framework/backend/cpu/activations.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/train/cpu_train_kernels.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

}  // namespace

void CpuTrainKernels::activation_backward(Activation act, bool gated, const Tensor& x,
                                          const Tensor& dy, const Tensor& dx) {
  kernel_checks::activation_backward(gated, x, dy, dx);
  refuse_f64("activation_backward", x, dy, dx);
  const std::int64_t columns = dy.columns();  // F
  activations::with(act, [&](auto kind) {
    parallel_ranges(threads_, dy.rows(), activations::grain(columns),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t r = begin; r < end; ++r) {
                        const auto in = Reader(x).at(r * x.columns());
                        const auto from = Reader(dy).at(r * columns);
                        const auto out = Writer(dx).at(r * x.columns());
                        vec::each(0, columns, [&](std::int64_t c, auto n) {
                          const activations::Value v = kind.at(in.load(c, n));
                          const F32 g = from.load(c, n);
                          if (gated) {
                            const F32 up = in.load(columns + c,
                                                   n);  // before dx, which may alias x, is written
                            out.store(columns + c, g * v.y, n);
                            out.store(c, g * up * v.slope, n);
                          } else {
                            out.store(c, g * v.slope, n);
                          }
                        });
                      }
                    });
  });
}

}  // namespace trireme
