#include "framework/backend/cpu/train/cpu_train_kernels.h"

#include <algorithm>

#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"

namespace trireme {

std::unique_ptr<TrainKernels> make_cpu_train_kernels(Backend& owner, CpuKernels& forward,
                                                     int threads) {
  return std::make_unique<CpuTrainKernels>(owner, forward, threads);
}

std::int64_t row_blocks(std::int64_t rows) { return std::clamp<std::int64_t>(rows / 16, 1, 64); }

Tensor CpuTrainKernels::floats(std::int64_t count) {
  return owner_.allocate({count}, DType::kF32, MemoryKind::kWorkspace);
}

void CpuTrainKernels::add_partials(const float* partials, std::int64_t count, std::int64_t stride,
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
