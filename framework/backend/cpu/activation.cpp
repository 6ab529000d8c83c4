// Activations.
#include "framework/backend/cpu/activations.h"
#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

}  // namespace

void CpuKernels::activation(Activation act, bool gated, const Tensor& x, const Tensor& y) {
  kernel_checks::activation(gated, x, y);
  refuse_f64("activation", x, y);
  const std::int64_t columns = y.columns();  // F
  activations::with(act, [&](auto kind) {
    parallel_ranges(threads_, y.rows(), activations::grain(columns),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t r = begin; r < end; ++r) {
                        const auto in = Reader(x).at(r * x.columns());
                        const auto up = in.at(gated ? columns : 0);
                        const auto out = Writer(y).at(r * columns);
                        vec::each(0, columns, [&](std::int64_t c, auto n) {
                          F32 v = kind.at(in.load(c, n)).y;
                          if (gated) v = v * up.load(c, n);
                          out.store(c, v, n);
                        });
                      }
                    });
  });
}

}  // namespace trireme
