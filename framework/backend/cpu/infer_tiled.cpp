// Weights in the order of the CPU's matrix tiles (AMX), and their products. A block of 16 outputs
// is, 32 inputs after the other, [16 pairs of inputs][16 outputs][2] bf16: a tile as it is
// multiplied from the right, so W is read from its begin to its end, and rows of x are tiles from
// the left as they lie in memory. The products are those of infer_linear_tiles.cpp, added up in the
// same order: the same bits. Up to 16 rows take as much of the CPU as there are rows of them.
//
// Legend: M rows of x, N outputs, K inputs; W (N, K); a step: 32 inputs.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/matrix_tiles.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::int64_t kOutputs = 16, kStep = 32;  // of a tile

}  // namespace

bool CpuInferKernels::tiles(const Tensor& w) const {
  return tiles_ && w.dtype() == DType::kBF16 && w.rows() % kOutputs == 0 &&
         w.columns() % kStep == 0 && w.elements() > 0;
}

#if defined(__AMX_BF16__) && defined(__AMX_TILE__) && defined(__AVX512F__)

namespace {

constexpr std::int64_t kTile = kOutputs * kStep;   // elements
constexpr std::int64_t kRowsAtOnce = 256;          // packed rows stay in the second cache level
constexpr std::int64_t kLine = 64, kAhead = 2048;  // bytes; W is asked for so far ahead
constexpr std::int64_t kWords = kStep / 2;         // pairs of inputs

// Rows of x as tiles: 16 rows of one step lie `row_bytes` apart.
struct TileRows {
  const std::uint16_t* at;
  std::int64_t row_bytes, step;  // step: elements to the next step of the same rows
};

struct TiledProduct {
  std::int64_t n, k;
  const std::uint16_t* w;
  const Tensor& bias;
  const Tensor& y;
  std::int64_t steps() const { return k / kStep; }
  const std::uint16_t* block(std::int64_t b) const { return w + b * kOutputs * k; }
};

// `rows` rows of sums to the outputs of block b, of rows from `row` of y on.
inline void put(const TiledProduct& p, const float* sums, std::int64_t b, std::int64_t row,
                std::int64_t rows) {
  const std::int64_t n = b * kOutputs;
  const vec::F32 add = p.bias ? vec::Reader(p.bias).load(n, vec::Whole{}) : vec::F32{};
  for (std::int64_t r = 0; r < rows; ++r)
    vec::Writer(p.y).store((row + r) * p.n + n, vec::load(sums + r * kOutputs) + add, vec::Whole{});
}

// One block by up to 16 rows.
inline void narrow(const TiledProduct& p, std::int64_t b, const TileRows& x, std::int64_t row,
                   std::int64_t rows) {
  const std::uint16_t* w = p.block(b);
  _tile_zero(0);
  for (std::int64_t s = 0; s < p.steps(); ++s, w += kTile) {
    _tile_loadd(4, x.at + s * x.step, x.row_bytes);
#pragma GCC unroll 16
    for (std::int64_t line = 0; line < 2 * kTile; line += kLine)
      __builtin_prefetch(reinterpret_cast<const char*>(w) + kAhead + line, 0, 3);
    _tile_loadd(6, w, kLine);
    _tile_dpbf16ps(0, 4, 6);
  }
  alignas(64) float sums[256];
  _tile_stored(0, sums, kLine);
  asm volatile("" : : : "memory");
  put(p, sums, b, row, rows);
}

// Two blocks by two groups of 16 rows, of which `rows` are wanted.
inline void wide(const TiledProduct& p, std::int64_t b, const TileRows& x, const TileRows& below,
                 std::int64_t row, std::int64_t rows) {
  const std::uint16_t *left = p.block(b), *right = p.block(b + 1);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t s = 0; s < p.steps(); ++s, left += kTile, right += kTile) {
    _tile_loadd(6, left, kLine);
    _tile_loadd(4, x.at + s * x.step, x.row_bytes);
    _tile_loadd(7, right, kLine);
    _tile_loadd(5, below.at + s * below.step, below.row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float sums[4][256];
  _tile_stored(0, sums[0], kLine);
  _tile_stored(1, sums[1], kLine);
  _tile_stored(2, sums[2], kLine);
  _tile_stored(3, sums[3], kLine);
  asm volatile("" : : : "memory");
  put(p, sums[0], b, row, 16);
  put(p, sums[1], b + 1, row, 16);
  put(p, sums[2], b, row + 16, rows - 16);
  put(p, sums[3], b + 1, row + 16, rows - 16);
}

// Blocks [begin, end) by packed rows [0, rows), which are rows from `first` of y on.
void packed_blocks(const TiledProduct& p, const std::uint16_t* packed, std::int64_t first,
                   std::int64_t rows, std::int64_t begin, std::int64_t end) {
  const MatrixTileSession session;
  const auto group = [&](std::int64_t row) { return TileRows{packed + row * p.k, kLine, kTile}; };
  asm volatile("" : : : "memory");
  for (std::int64_t b = begin; b < end; b += 2)
    for (std::int64_t row = 0; row < rows; row += 32) {
      const std::int64_t left = std::min<std::int64_t>(32, rows - row);
      if (left > 16 && b + 1 < end) {
        wide(p, b, group(row), group(row + 16), first + row, left);
        continue;
      }
      for (std::int64_t one = b; one < std::min(b + 2, end); ++one)
        for (std::int64_t half = 0; half < left; half += 16)
          narrow(p, one, group(row + half), first + row + half,
                 std::min<std::int64_t>(16, left - half));
    }
}

// Blocks [begin, end) by up to 16 rows where they lie.
void few_rows(const TiledProduct& p, const Tensor& x, std::int64_t begin, std::int64_t end) {
  const MatrixTileSession session(static_cast<int>(x.rows()));
  const TileRows rows{static_cast<const std::uint16_t*>(x.data()), 2 * p.k, kStep};
  asm volatile("" : : : "memory");
  for (std::int64_t b = begin; b < end; ++b) narrow(p, b, rows, 0, x.rows());
}

// 16 rows of x from `row` on, the missing ones zero, step after step.
void pack(const Tensor& x, std::int64_t row, std::uint16_t* to) {
  const std::int64_t k = x.columns();
  const auto* from = static_cast<const std::uint16_t*>(x.data()) + row * k;
  const std::int64_t rows = std::min<std::int64_t>(16, x.rows() - row);
  for (std::int64_t s = 0; s < k / kStep; ++s, to += kTile)
    for (std::int64_t r = 0; r < 16; ++r)
      if (r < rows)
        std::memcpy(to + r * kStep, from + r * k + s * kStep, kLine);
      else
        std::memset(to + r * kStep, 0, kLine);
}

// `rows` (16, K): a copy of what becomes `block`.
void tile_block(const std::uint32_t* rows, std::int64_t k, std::uint32_t* block) {
  const std::int64_t words = k / 2;
  for (std::int64_t word = 0; word < words; ++word)
    for (std::int64_t output = 0; output < kOutputs; ++output)
      block[word * kOutputs + output] = rows[output * words + word];
}

}  // namespace

void CpuInferKernels::tile(const Tensor& w) {
  check(tiles(w), "tile: a weight of ", w.shape(), " of ", name_of(w.dtype()),
        " has no order of tiles here");
  const std::int64_t bytes = 2 * kOutputs * w.columns();
  const Tensor copies = scratch(threads_ * bytes);
  parallel_ranges(threads_, w.rows() / kOutputs, 1, [&](std::int64_t begin, std::int64_t end) {
    auto* copy = static_cast<std::byte*>(copies.data()) + omp_get_thread_num() * bytes;
    for (std::int64_t b = begin; b < end; ++b) {
      auto* block = static_cast<std::byte*>(w.data()) + b * bytes;
      std::memcpy(copy, block, static_cast<std::size_t>(bytes));
      tile_block(reinterpret_cast<const std::uint32_t*>(copy), w.columns(),
                 reinterpret_cast<std::uint32_t*>(block));
    }
  });
}

void CpuInferKernels::tiled_linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                                   const Tensor& y) {
  infer_checks::linear(x, w, bias, y);
  check(tiles(w), "linear: a weight of ", w.shape(), " has no order of tiles here");
  const TiledProduct p{w.rows(), w.columns(), static_cast<const std::uint16_t*>(w.data()), bias, y};
  const std::int64_t blocks = p.n / kOutputs, grain = 1 + 65536 / (kOutputs * p.k);
  if (x.rows() <= 16) {
    if (x.rows() == 0) return;
    return parallel_ranges(threads_, blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      few_rows(p, x, begin, end);
    });
  }
  const Tensor packed = scratch(std::min(kRowsAtOnce, (x.rows() + 15) / 16 * 16) * p.k * 2);
  auto* words = static_cast<std::uint16_t*>(packed.data());
  for (std::int64_t row = 0; row < x.rows(); row += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, x.rows() - row);
    parallel_ranges(threads_, (rows + 15) / 16, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t g = begin; g < end; ++g) pack(x, row + g * 16, words + g * 16 * p.k);
    });
    parallel_ranges(threads_, blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      packed_blocks(p, words, row, rows, begin, end);
    });
  }
}

void CpuInferKernels::tiled_lookup(const Tensor& ids, const Tensor& table, std::int64_t first_row,
                                   const Tensor& out) {
  infer_checks::tiled_lookup(ids, table, out);
  check(out.dtype() != DType::kF64, "lookup: the cpu backend computes f32, bf16 and f16, not f64");
  check(tiles(table), "lookup: a table of ", table.shape(), " has no order of tiles here");
  const std::int64_t k = table.columns(), words = k / 2;
  const Tensor rows = scratch(threads_ * k * 2);
  const auto* id = ids.as<std::int32_t>();
  const auto* from = static_cast<const std::uint32_t*>(table.data());
  const vec::Writer to(out);
  parallel_ranges(threads_, ids.elements(), 8, [&](std::int64_t begin, std::int64_t end) {
    auto* row = static_cast<std::uint16_t*>(rows.data()) + omp_get_thread_num() * k;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t at = id[r] - first_row;
      const bool here = at >= 0 && at < table.rows();
      const auto* lane = from + at / kOutputs * kOutputs * words + at % kOutputs;
      for (std::int64_t word = 0; word < words && here; ++word)
        std::memcpy(row + 2 * word, lane + word * kOutputs, 4);
      vec::each(0, k, [&](std::int64_t c, auto n) {
        to.store(r * k + c, here ? vec::from_bf16(vec::load(row + c, n)) : vec::F32{}, n);
      });
    }
  });
}

#else

void CpuInferKernels::tile(const Tensor& w) { InferKernels::tile(w); }
void CpuInferKernels::tiled_linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                                   const Tensor& y) {
  InferKernels::tiled_linear(x, w, bias, y);
}
void CpuInferKernels::tiled_lookup(const Tensor& ids, const Tensor& table, std::int64_t first_row,
                                   const Tensor& out) {
  InferKernels::tiled_lookup(ids, table, first_row, out);
}

#endif

}  // namespace trireme
