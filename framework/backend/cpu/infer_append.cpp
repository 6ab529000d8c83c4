// Rotation by position, and keys and values into their pages. Legend: see infer_kernels.h.
#include <algorithm>
#include <cmath>

#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/infer_pages.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

void rotate(const PagedAttention& a, const Tensor& qkv, std::int64_t row, const float* cosine) {
  const std::int64_t half = a.head_dim / 2;
  for (std::int64_t h = 0; h < a.heads + a.kv_heads; ++h) {
    const auto head = vec::Writer(qkv).at(row * qkv.columns() + h * a.head_dim);
    vec::each(0, half, [&](std::int64_t i, auto n) {
      const vec::F32 x = head.reader().load(i, n), y = head.reader().load(half + i, n);
      const vec::F32 c = vec::load(cosine + i, n), s = vec::load(cosine + half + i, n);
      head.store(i, vec::fma(x, c, -(y * s)), n);
      head.store(half + i, vec::fma(y, c, x * s), n);
    });
  }
}

// Keys and values of a bf16 row, whose words are copied as they are. What stands behind the last
// position of a pair is multiplied with 0, so it must be a number.
void write_words(const PagedAttention& a, const PagedSequence& s, std::int64_t r, const Tensor& qkv,
                 const KvPages& pages) {
  const std::int64_t position = s.first_position + r, in_page = position % kPageTokens;
  const std::int64_t page = s.pages[static_cast<std::size_t>(position / kPageTokens)];
  const auto* row =
      static_cast<const std::uint16_t*>(qkv.data()) + (s.first_row + r) * qkv.columns();
  const bool clears = position % 2 == 0 && r + 1 == s.rows;
  for (std::int64_t g = 0; g < a.kv_heads; ++g) {
    const auto* key = row + (a.heads + g) * a.head_dim;
    const auto* value = key + a.kv_heads * a.head_dim;
    auto* keys = page_of<BF16Page>(pages.keys, a, page, g) + 2 * in_page;
    auto* values = page_of<BF16Page>(pages.values, a, page, g) + in_page / 2 * a.head_dim * 2;
    for (std::int64_t d = 0; d < a.head_dim; d += 2) {
      keys[d * kPageTokens] = key[d];
      keys[d * kPageTokens + 1] = key[d + 1];
    }
    for (std::int64_t d = 0; d < a.head_dim; ++d) values[2 * d + in_page % 2] = value[d];
    if (clears)
      for (std::int64_t d = 0; d < a.head_dim; ++d) values[2 * d + 1] = 0;
  }
}

// The same in f32.
void write(const PagedAttention& a, const PagedSequence& s, std::int64_t r, const Tensor& qkv,
           const KvPages& pages) {
  const std::int64_t position = s.first_position + r, in_page = position % kPageTokens;
  const std::int64_t page = s.pages[static_cast<std::size_t>(position / kPageTokens)];
  const auto row = vec::Reader(qkv).at((s.first_row + r) * qkv.columns());
  for (std::int64_t g = 0; g < a.kv_heads; ++g) {
    auto* keys = page_of<F32Page>(pages.keys, a, page, g) + in_page;
    auto* values = page_of<F32Page>(pages.values, a, page, g) + in_page * a.head_dim;
    const auto key = row.at((a.heads + g) * a.head_dim),
               value = row.at((a.heads + a.kv_heads + g) * a.head_dim);
    for (std::int64_t d = 0; d < a.head_dim; ++d) keys[d * kPageTokens] = key.one(d);
    vec::each(0, a.head_dim,
              [&](std::int64_t d, auto n) { vec::store(values + d, value.load(d, n), n); });
  }
}

}  // namespace

const float* CpuInferKernels::rotary_table(const PagedAttention& a, std::int64_t positions) {
  Tensor& table = rotary_tables_[{a.head_dim, a.theta, a.scaling}];
  const std::int64_t have = table ? table.rows() : 0, half = a.head_dim / 2;
  if (have >= positions) return table.as<float>();
  table = owner_.allocate({std::max({positions, 2 * have, std::int64_t{64}}), a.head_dim},
                          DType::kF32, MemoryKind::kWorkspace);
  auto* out = table.as<float>();
  parallel_ranges(threads_, table.rows(), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(p) * rope_frequency(a.theta, a.head_dim, i, a.scaling);
        out[p * a.head_dim + i] = static_cast<float>(std::cos(angle));
        out[p * a.head_dim + half + i] = static_cast<float>(std::sin(angle));
      }
  });
  return out;
}

void CpuInferKernels::append(const PagedAttention& a, const Tensor& qkv, const KvPages& pages) {
  infer_checks::append(a, qkv, pages);
  check(qkv.dtype() != DType::kF64, "paged attention: the cpu backend computes no f64");
  std::int64_t positions = 0;
  for (const PagedSequence& s : a.sequences)
    positions = std::max(positions, s.first_position + s.rows);
  const float* table = a.rotary ? rotary_table(a, positions) : nullptr;
  const auto range = [&](const PagedSequence& s, std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (table) rotate(a, qkv, s.first_row + r, table + (s.first_position + r) * a.head_dim);
      qkv.dtype() == DType::kBF16 ? write_words(a, s, r, qkv, pages) : write(a, s, r, qkv, pages);
    }
  };
  if (a.sequences.size() == 1)
    return parallel_ranges(
        threads_, a.sequences[0].rows, 4,
        [&](std::int64_t begin, std::int64_t end) { range(a.sequences[0], begin, end); });
  parallel_ranges(threads_, std::ssize(a.sequences), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const PagedSequence& s = a.sequences[static_cast<std::size_t>(i)];
      range(s, 0, s.rows);
    }
  });
}

}  // namespace trireme
