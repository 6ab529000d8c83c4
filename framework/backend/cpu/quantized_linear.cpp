// y = x W^T + b with W in 8 or 4 bits, at the rate at which W is read. Legend and arithmetic:
// quantized_product.h.
#include <algorithm>
#include <bit>

#include "framework/backend/cpu/byte_sums.h"
#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/quantized_product.h"
#include "framework/base/error.h"

namespace trireme {

namespace quantized {

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

namespace {

constexpr std::int64_t kAhead = 2048;  // bytes of W that are asked for before they are multiplied
constexpr float kLeast = 1e-30f;       // a smaller group of x counts as zero
constexpr int kMostRows = kVectors == 1 ? 4 : 2;  // of x at a time: their sums fit the registers

// Four bytes of x in every lane.
inline U32 four_bytes(const std::int8_t* p) {
  std::uint32_t word;
  std::memcpy(&word, p, 4);
  return U32{} + word;
}

// A block by rows [row, row + C) of x.
template <int C>
void int4_rows(const ByteProduct& p, std::int64_t b, std::int64_t row) {
  const std::uint8_t* codes = p.block(b);
  const std::int64_t groups = p.x.groups;
  F32 y[C][kVectors] = {};
  for (std::int64_t g = 0; g < groups; ++g, codes += kInt4Group) {
    const std::int8_t* x = p.x.row(row) + g * kQuantGroup;
    HalfByteSum low[C][kVectors], high[C][kVectors];
#pragma GCC unroll 8
    for (int quad = 0; quad < 8; ++quad) {
      if (C == 1 || row == 0) __builtin_prefetch(codes + 64 * quad + kAhead, 0, 2);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const U32 both = vec::load_as<U32>(codes + 64 * quad + 4 * vec::kLanes * v);
        const U32 first = both & 0x0f0f0f0fu, second = both >> 4 & 0x0f0f0f0fu;
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
          const std::int8_t* at = x + c * groups * kQuantGroup + 4 * quad;
          low[c][v].add(first, four_bytes(at));
          high[c][v].add(second, four_bytes(at + 32));
        }
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const Int4Scales scales(codes, v);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        const std::int64_t at = (row + c) * groups + g;
        y[c][v] = scales.add(y[c][v], low[c][v].whole() + high[c][v].whole(), p.x.scale[at],
                             p.x.total[at]);
      }
    }
  }
  for (int c = 0; c < C; ++c)
    for (int v = 0; v < kVectors; ++v) put(p, b, row + c, y[c][v], v);
}

template <int C>
void int8_rows(const ByteProduct& p, std::int64_t b, std::int64_t row) {
  const std::uint8_t* codes = p.block(b);
  const std::int64_t groups = p.x.groups;
  F32 y[C][kVectors] = {};
  for (std::int64_t g = 0; g < groups; ++g, codes += kInt8Group) {
    const std::int8_t* x = p.x.row(row) + g * kQuantGroup;
    ByteSum even[C][kVectors], odd[C][kVectors];
#pragma GCC unroll 16
    for (int quad = 0; quad < 16; ++quad) {
      if (C == 1 || row == 0) __builtin_prefetch(codes + 64 * quad + kAhead, 0, 2);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const WeightBytes w(vec::load_as<U32>(codes + 64 * quad + 4 * vec::kLanes * v));
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c)
          (quad % 2 ? odd : even)[c][v].add(w, four_bytes(x + c * groups * kQuantGroup + 4 * quad));
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const std::int64_t at = (row + c) * groups + g;
        y[c][v] =
            add_int8(y[c][v], even[c][v].sum + odd[c][v].sum + WeightBytes::rest(p.x.less[at]),
                     p.x.scale[at]);
      }
  }
  for (int c = 0; c < C; ++c)
    for (int v = 0; v < kVectors; ++v) put(p, b, row + c, y[c][v], v);
}

template <int C>
void some_rows(const ByteProduct& p, std::int64_t b, std::int64_t row) {
  p.shape.format == WeightFormat::kInt4 ? int4_rows<C>(p, b, row) : int8_rows<C>(p, b, row);
}

// Blocks [begin, end) of all rows.
void vector_blocks(const ByteProduct& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t b = begin; b < end; ++b) {
    std::int64_t row = 0;
    for (; row + kMostRows <= p.rows; row += kMostRows) some_rows<kMostRows>(p, b, row);
    for (; row + 2 <= p.rows; row += 2) some_rows<2>(p, b, row);
    if (row < p.rows) some_rows<1>(p, b, row);
  }
}

struct ByteRow {
  std::int8_t* bytes;
  float *scale, *total;
  std::int32_t* less;
};

// Up to 64 elements from `at` on, as bytes; what is missing is zero.
void take_group(const vec::Reader& x, std::int64_t at, std::int64_t count, const ByteRow& to) {
  constexpr int kParts = static_cast<int>(kQuantGroup) / vec::kLanes;
  F32 v[kParts];
  U32 most{};
  for (int i = 0; i < kParts; ++i) {
    const std::int64_t first = i * vec::kLanes;
    const auto n = static_cast<int>(std::clamp<std::int64_t>(count - first, 0, vec::kLanes));
    v[i] = x.load(at + first, n);
    const U32 size = vec::bits(v[i]) & 0x7fffffffu;  // in this order NaN is largest
    most = size > most ? size : most;
  }
  const float largest = std::bit_cast<float>(vec::largest(most));
  const float inverse = largest < kLeast ? 0.0f : 127.0f / largest;
  F32 total{};
  for (int i = 0; i < kParts; ++i) {
    const F32 whole = vec::round(v[i] * inverse);
    total += whole;
    vec::store_bytes(to.bytes + i * vec::kLanes, whole);
  }
  const float sum = vec::sum(total);  // of whole numbers: exact
  *to.scale = largest < kLeast ? 0.0f : largest / 127.0f;
  *to.total = *to.scale * sum;
  *to.less = -128 * static_cast<std::int32_t>(sum);
}

std::int64_t up(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Rows [first, first + rows) of x, and zeros up to `padded` of them, into `memory`, whose size
// byte_rows_size() says.
ByteRows take_rows(int threads, const Tensor& x, std::int64_t first, std::int64_t rows,
                   std::int64_t padded, std::byte* memory) {
  const std::int64_t k = x.columns(), groups = (k + kQuantGroup - 1) / kQuantGroup;
  auto* bytes = reinterpret_cast<std::int8_t*>(memory);
  auto* scale = reinterpret_cast<float*>(memory + padded * groups * kQuantGroup);
  auto* total = scale + up(padded * groups * 4) / 4;
  auto* less = reinterpret_cast<std::int32_t*>(total + up(padded * groups * 4) / 4);
  const vec::Reader from(x);
  parallel_ranges(threads, padded * groups, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / groups, at = i % groups * kQuantGroup;
      const std::int64_t count = row < rows ? std::min(kQuantGroup, k - at) : 0;
      take_group(from, (first + row) * k + at, count,
                 {bytes + i * kQuantGroup, scale + i, total + i, less + i});
    }
  });
  return {padded, groups, bytes, scale, total, less};
}

std::int64_t byte_rows_size(std::int64_t padded, std::int64_t columns) {
  const std::int64_t groups = (columns + kQuantGroup - 1) / kQuantGroup;
  return padded * groups * kQuantGroup + 3 * up(padded * groups * 4);
}

}  // namespace

#endif

}  // namespace quantized

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

void CpuInferKernels::byte_linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias,
                                  const Tensor& y) {
  using namespace quantized;
  constexpr std::int64_t kRowsAtOnce = 256;  // their bytes stay in the second cache level
  constexpr std::int64_t kVectorRows = 8;    // more are tiles' work
  const std::int64_t k = x.columns();
  const auto padded = [this](std::int64_t rows) {
    return byte_tiles_ && rows > kVectorRows ? (rows + 15) / 16 * 16 : rows;
  };
  const Tensor memory = scratch(byte_rows_size(padded(std::min(kRowsAtOnce, x.rows())), k));
  for (std::int64_t first = 0; first < x.rows(); first += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, x.rows() - first);
    const ByteProduct p{.shape = w.shape,
                        .blob = w.blob.as<std::uint8_t>(),
                        .x = take_rows(threads_, x, first, rows, padded(rows),
                                       static_cast<std::byte*>(memory.data())),
                        .first = first,
                        .rows = rows,
                        .bias = bias,
                        .y = y};
    const bool by_tiles = byte_tiles_ && rows > kVectorRows;
    const std::int64_t each = apart_bytes(w.shape);
    const Tensor apart = by_tiles && each > 0 ? scratch(threads_ * each) : Tensor();
    parallel_ranges(threads_, w.shape.blocks(), 1 + 65536 / (kQuantRows * k * rows + 1),
                    [&](std::int64_t begin, std::int64_t end) {
                      if (!by_tiles) return vector_blocks(p, begin, end);
                      tile_blocks(
                          p, begin, end,
                          static_cast<std::uint8_t*>(apart.data()) + omp_get_thread_num() * each);
                    });
  }
}

#else

void CpuInferKernels::byte_linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias,
                                  const Tensor& y) {
  wide_linear(x, w, bias, y);
}

#endif

void CpuInferKernels::linear(const Tensor& x, const QuantizedMatrix& w, const Tensor& bias,
                             const Tensor& y) {
  infer_checks::linear(x, w, bias, y);
  check(x.dtype() != DType::kF64, "linear: the cpu backend computes f32, bf16 and f16, not f64");
  if (y.elements() == 0) return;
  x.dtype() != DType::kF32&& quantized::kMultipliesBytes ? byte_linear(x, w, bias, y)
                                                         : wide_linear(x, w, bias, y);
}

}  // namespace trireme
