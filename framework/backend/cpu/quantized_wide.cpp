// Weights of 8 and 4 bits by their values in f32: products with f32 rows (and with 16-bit ones
// where the CPU has no products of bytes), rows of a table, and the way from values to bytes. Each
// output is four sums, of every fourth input in ascending order, added up at the end, whatever the
// number of rows.
#include <algorithm>

#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

using vec::F32;

constexpr int kVectors = static_cast<int>(kQuantRows) / vec::kLanes;  // of a block's outputs
constexpr int kRowsAtOnce = vec::kLanes == 16 ? 4 : 1;                // of x
constexpr int kChains = 4;

F32 bf16_lanes(const std::uint8_t* p) { return vec::from_bf16(vec::load_as<vec::U16>(p)); }
F32 whole(vec::U32 x) { return __builtin_convertvector((vec::I32)x, F32); }

// A block's values, (groups * 64 inputs, 16 outputs).
void int4_values(const std::uint8_t* block, std::int64_t groups, float* to) {
  for (std::int64_t g = 0; g < groups; ++g, block += kInt4Group, to += kQuantGroup * kQuantRows)
    for (int v = 0; v < kVectors; ++v) {
      const int lane = v * vec::kLanes;
      const F32 scale = bf16_lanes(block + kInt4Codes + 2 * lane);
      const F32 minimum = bf16_lanes(block + kInt4Codes + 2 * (kQuantRows + lane));
      for (int quad = 0; quad < 8; ++quad) {
        const auto word = vec::load_as<vec::U32>(block + (quad * kQuantRows + lane) * 4);
        for (int i = 0; i < 4; ++i) {
          float* at = to + (4 * quad + i) * kQuantRows + lane;
          vec::store(at, vec::fma(whole(word >> (8 * i) & 15u), scale, minimum));
          vec::store(at + 32 * kQuantRows,
                     vec::fma(whole(word >> (8 * i + 4) & 15u), scale, minimum));
        }
      }
    }
}

void int8_values(const std::uint8_t* block, std::int64_t groups, float* to) {
  const auto* scales = reinterpret_cast<const float*>(block + groups * kInt8Group);
  for (std::int64_t g = 0; g < groups; ++g, block += kInt8Group, to += kQuantGroup * kQuantRows)
    for (int v = 0; v < kVectors; ++v) {
      const int lane = v * vec::kLanes;
      const F32 scale = vec::load(scales + lane);
      for (int quad = 0; quad < 16; ++quad) {
        const auto word = vec::load_as<vec::U32>(block + (quad * kQuantRows + lane) * 4);
        for (int i = 0; i < 4; ++i)
          vec::store(to + (4 * quad + i) * kQuantRows + lane,
                     (whole(word >> (8 * i) & 255u) - 128.0f) * scale);
      }
    }
}

// This thread's part of what all of them share.
float* memory_of(const Tensor& memory, std::int64_t elements) {
  return static_cast<float*>(memory.data()) + omp_get_thread_num() * elements;
}

struct Rows {
  const float* x;
  std::int64_t k;
  Tensor bias, y;
  std::int64_t outputs;
};

// Outputs from n on of C rows.
template <int C>
void rows_by_block(const Rows& p, const float* values, std::int64_t n, std::int64_t row) {
  F32 sum[C][kChains][kVectors] = {};
  const float* x = p.x + row * p.k;
  const auto step = [&](std::int64_t k, int chain) {
    F32 w[kVectors];
    for (int v = 0; v < kVectors; ++v) w[v] = vec::load(values + k * kQuantRows + v * vec::kLanes);
    for (int c = 0; c < C; ++c) {
      const F32 in = vec::set1(x[c * p.k + k]);
      for (int v = 0; v < kVectors; ++v) sum[c][chain][v] = vec::fma(in, w[v], sum[c][chain][v]);
    }
  };
  std::int64_t k = 0;
  for (; k + kChains <= p.k; k += kChains)
#pragma GCC unroll 4
    for (int chain = 0; chain < kChains; ++chain) step(k + chain, chain);
  for (; k < p.k; ++k) step(k, static_cast<int>(k % kChains));
  for (int c = 0; c < C; ++c)
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = n + v * vec::kLanes;
      const auto count = static_cast<int>(std::clamp<std::int64_t>(p.outputs - at, 0, vec::kLanes));
      if (count == 0) continue;
      F32 y = (sum[c][0][v] + sum[c][1][v]) + (sum[c][2][v] + sum[c][3][v]);
      if (p.bias) y += vec::Reader(p.bias).load(at, count);
      vec::Writer(p.y).store((row + c) * p.outputs + at, y, count);
    }
}

}  // namespace

void CpuInferKernels::wide_linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias,
                                  const Tensor& y) {
  Tensor in = x;
  if (x.dtype() != DType::kF32) {
    in = owner_.allocate(x.shape(), DType::kF32, MemoryKind::kWorkspace);
    kernels_.cast(x, in);
  }
  const std::int64_t groups = w.shape.groups(), m = x.rows();
  const std::int64_t values = groups * kQuantGroup * kQuantRows;
  const Tensor memory = scratch(threads_ * values * static_cast<std::int64_t>(sizeof(float)));
  const Rows rows{in.as<float>(), w.shape.columns, bias, y, w.shape.rows};
  const auto* blob = w.blob.as<std::uint8_t>();
  parallel_ranges(threads_, w.shape.blocks(), 1 + 65536 / (kQuantRows * w.shape.columns * m + 1),
                  [&](std::int64_t begin, std::int64_t end) {
                    float* own = memory_of(memory, values);
                    for (std::int64_t b = begin; b < end; ++b) {
                      const std::uint8_t* block = blob + b * w.shape.block_bytes();
                      w.shape.format == WeightFormat::kInt4 ? int4_values(block, groups, own)
                                                            : int8_values(block, groups, own);
                      std::int64_t row = 0;
                      for (; row + kRowsAtOnce <= m; row += kRowsAtOnce)
                        rows_by_block<kRowsAtOnce>(rows, own, b * kQuantRows, row);
                      for (; row < m; ++row) rows_by_block<1>(rows, own, b * kQuantRows, row);
                    }
                  });
}

void CpuInferKernels::lookup(const Tensor& ids, const QuantizedMatrix& table,
                             std::int64_t first_row, const Tensor& out) {
  infer_checks::lookup(ids, table, out);
  check(out.dtype() != DType::kF64, "lookup: the cpu backend computes f32, bf16 and f16, not f64");
  const std::int64_t columns = table.shape.columns;
  const Tensor memory = scratch(threads_ * columns * static_cast<std::int64_t>(sizeof(float)));
  const auto* id = ids.as<std::int32_t>();
  const auto* blob = table.blob.as<std::uint8_t>();
  const vec::Writer to(out);
  parallel_ranges(threads_, ids.elements(), 8, [&](std::int64_t begin, std::int64_t end) {
    float* row = memory_of(memory, columns);
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t at = id[r] - first_row;
      if (at >= 0 && at < table.shape.rows)
        dequantize_row(table.shape, blob, at, row);
      else
        std::fill_n(row, columns, 0.0f);
      vec::each(0, columns, [&](std::int64_t c, auto n) {
        to.store(r * columns + c, vec::load(row + c, n), n);
      });
    }
  });
}

void CpuInferKernels::quantize(const Tensor& values, const QuantizedCut& cut,
                               const QuantizedMatrix& to) {
  infer_checks::quantize(values, cut, to);
  const auto all =
      std::span<const float>(values.as<float>(), static_cast<std::size_t>(values.elements()));
  const std::int64_t step = kQuantRows * cut.whole_columns;
  auto* blob = to.blob.as<std::uint8_t>();
  parallel_ranges(threads_, to.shape.blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t count = std::min(step, values.elements() - b * step);
      quantize_block(
          to.shape, cut,
          all.subspan(static_cast<std::size_t>(b * step), static_cast<std::size_t>(count)),
          blob + b * to.shape.block_bytes());
    }
  });
}

}  // namespace trireme
