// Rotary positions. The table of cosines and sines is made once per (head size, frequencies) and
// grown by doubling.
#include <algorithm>
#include <cmath>

#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

const float* CpuKernels::rotary_table(const Rotary& r, std::int64_t positions) {
  const std::int64_t head_dim = r.head_dim;
  Tensor& table = rotary_tables_[{head_dim, r.theta, r.scaling}];
  const std::int64_t have = table ? table.rows() : 0;
  if (have < positions) {
    table = owner_.allocate({std::max({positions, 2 * have, std::int64_t{64}}), head_dim},
                            DType::kF32, MemoryKind::kWorkspace);
    auto* out = table.as<float>();
    const std::int64_t half = head_dim / 2;
    parallel_ranges(threads_, table.rows(), 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p)
        for (std::int64_t i = 0; i < half; ++i) {
          const double angle =
              static_cast<double>(p) * rope_frequency(r.theta, head_dim, i, r.scaling);
          out[p * head_dim + i] = static_cast<float>(std::cos(angle));
          out[p * head_dim + half + i] = static_cast<float>(std::sin(angle));
        }
    });
  }
  return table.as<float>();
}

void CpuKernels::rotary(const Rotary& r, const Tensor& x) {
  kernel_checks::rotary(r, x);
  refuse_f64("rotary", x);
  const std::int64_t columns = x.columns(), half = r.head_dim / 2;
  const float* table = rotary_table(r, r.first_position + r.tokens);
  const vec::F32 sign = vec::set1(r.inverse ? -1.0f : 1.0f);
  parallel_ranges(
      threads_, x.rows(), 1 + 8192 / (r.heads * r.head_dim + 1),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const float* cosine = table + (r.first_position + row % r.tokens) * r.head_dim;
          for (std::int64_t h = 0; h < r.heads; ++h) {
            const auto head = vec::Writer(x).at(row * columns + h * r.head_dim);
            vec::each(0, half, [&](std::int64_t i, auto n) {
              const vec::F32 a = head.reader().load(i, n), b = head.reader().load(half + i, n);
              const vec::F32 c = vec::load(cosine + i, n),
                             s = sign * vec::load(cosine + half + i, n);
              head.store(i, vec::fma(a, c, -(b * s)), n);
              head.store(half + i, vec::fma(b, c, a * s), n);
            });
          }
        }
      });
}

}  // namespace trireme
