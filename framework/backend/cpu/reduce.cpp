// Sums over pieces of several ranks, in their order.
#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

constexpr std::int64_t kGrain = 16384;

// f64 is reduced too: the few numbers that ranks agree on (losses, norms) are kept in it.
template <typename F>
void combine_f64(std::span<const Tensor> pieces, const Tensor& out, F f) {
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    double value = pieces[0].as<double>()[i];
    for (std::size_t p = 1; p < pieces.size(); ++p) value = f(value, pieces[p].as<double>()[i]);
    out.as<double>()[i] = value;
  }
}

}  // namespace

void CpuKernels::sum_in_order(std::span<const Tensor> pieces, const Tensor& out) {
  kernel_checks::sum_in_order(pieces, out);
  if (out.dtype() == DType::kF64)
    return combine_f64(pieces, out, [](double a, double b) { return a + b; });
  const Writer to(out);
  parallel_ranges(threads_, out.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    vec::each(begin, end, [&](std::int64_t i, auto n) {
      F32 total = Reader(pieces[0]).load(i, n);
      for (std::size_t p = 1; p < pieces.size(); ++p) total += Reader(pieces[p]).load(i, n);
      to.store(i, total, n);
    });
  });
}

void CpuKernels::max_of(std::span<const Tensor> pieces, const Tensor& out) {
  kernel_checks::max_of(pieces, out);
  if (out.dtype() == DType::kF64)
    return combine_f64(pieces, out, [](double a, double b) { return a > b || a != a ? a : b; });
  const Writer to(out);
  parallel_ranges(threads_, out.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    vec::each(begin, end, [&](std::int64_t i, auto n) {
      F32 most = Reader(pieces[0]).load(i, n);
      for (std::size_t p = 1; p < pieces.size(); ++p) {
        const F32 larger = vec::max(most, Reader(pieces[p]).load(i, n));  // NaN there stays
        most = most == most ? larger : most;
      }
      to.store(i, most, n);
    });
  });
}

}  // namespace trireme
