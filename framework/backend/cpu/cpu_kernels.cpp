#include "framework/backend/cpu/cpu_kernels.h"

#include <algorithm>

#include "framework/backend/cpu/matrix_tiles.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/base/error.h"

namespace trireme {

void fail_f64(const char* operation) {
  fail(operation,
       ": the cpu backend computes f32, bf16 and f16, not f64; use device.kind = reference");
}

std::int64_t row_blocks(std::int64_t rows) { return std::clamp<std::int64_t>(rows / 16, 1, 64); }

CpuKernels::CpuKernels(Backend& owner, int threads, bool bf16)
    : owner_(owner),
      threads_(threads),
      bf16_(bf16),
      matrix_tiles_(bf16 && request_matrix_tiles()),
      dnnl_(threads) {}

Tensor CpuKernels::floats(std::int64_t count) {
  return owner_.allocate({count}, DType::kF32, MemoryKind::kWorkspace);
}

void CpuKernels::add_partials(const float* partials, std::int64_t count, std::int64_t stride,
                              const Tensor& out, bool accumulate) {
  const vec::Writer to(out);
  parallel_ranges(threads_, out.elements(), 256, [&](std::int64_t begin, std::int64_t end) {
    vec::each(begin, end, [&](std::int64_t c, auto n) {
      vec::F32 total{};
      for (std::int64_t i = 0; i < count; ++i) total += vec::load(partials + i * stride + c, n);
      if (accumulate) total += to.reader().load(c, n);
      to.store(c, total, n);
    });
  });
}

}  // namespace trireme
