#include "framework/backend/cpu/cpu_kernels.h"

#include "framework/backend/cpu/matrix_tiles.h"
#include "framework/base/error.h"

namespace trireme {

void fail_f64(const char* operation) {
  fail(operation,
       ": the cpu backend computes f32, bf16 and f16, not f64; use device.kind = reference");
}

CpuKernels::CpuKernels(Backend& owner, int threads, bool bf16)
    : owner_(owner),
      threads_(threads),
      bf16_(bf16),
      matrix_tiles_(bf16 && request_matrix_tiles()),
      dnnl_(threads) {}

Tensor CpuKernels::floats(std::int64_t count) {
  return owner_.allocate({count}, DType::kF32, MemoryKind::kWorkspace);
}

}  // namespace trireme
