// Products of rows in 8 bits with weights of 8 or 4 bits: what the vectors' and the tiles' way
// share, so that both give an output the same bits.
//
// A row of x becomes signed bytes, a scale for each group of 64 inputs. The products of a group are
// added up as integers, in any order, since that is exact; groups follow in ascending order, each
// with a fused multiplication and addition in f32:
//
//   int4   y += sum * (scale_w * scale_x);  y += minimum_w * total_x     (of the group)
//   int8   y += (sum - 128 * total of bytes) * scale_x, and at the end y *= scale_w
//
// Legend: M rows of x, G groups, 16 outputs a block (framework/backend/quantized.h).
#pragma once

#include <cstdint>

#include "framework/backend/cpu/vector.h"
#include "framework/backend/quantized.h"

namespace trireme::quantized {

// Rows of x, taken to bytes. For tiles `rows` is a multiple of 16: those beyond x's are zero.
struct ByteRows {
  std::int64_t rows = 0, groups = 0;
  const std::int8_t* bytes = nullptr;  // (M, G * 64)
  const float* scale = nullptr;        // (M, G)
  const float* total = nullptr;        // (M, G): scale * sum of the group's bytes
  const std::int32_t* less = nullptr;  // (M, G): -128 * sum of the group's bytes

  const std::int8_t* row(std::int64_t r) const { return bytes + r * groups * kQuantGroup; }
};

struct ByteProduct {
  QuantizedShape shape;
  const std::uint8_t* blob;
  ByteRows x;
  std::int64_t first = 0, rows = 0;  // rows of y that the first rows of x are
  Tensor bias, y;

  const std::uint8_t* block(std::int64_t b) const { return blob + b * shape.block_bytes(); }
};

// Blocks [begin, end) of all rows by matrix tiles; nothing in a build without them. `apart`: room
// for apart_bytes(), of this thread.
std::int64_t apart_bytes(const QuantizedShape& shape);
void tile_blocks(const ByteProduct& p, std::int64_t begin, std::int64_t end, std::uint8_t* apart);

#if defined(__AVX512VNNI__) && defined(__AVX512F__) && defined(__AVX512BW__) && \
    defined(__AVX512VL__)
inline constexpr bool kMultipliesBytes = true;

// 16 bf16 numbers as f32.
inline __m512 from_bf16(const std::uint8_t* p) {
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(
      vec::kAll,
      _mm512_maskz_cvtepu16_epi32(vec::kAll,
                                  _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
      16));
}
inline __m512 to_float(__m512i x) { return _mm512_maskz_cvtepi32_ps(vec::kAll, x); }

// What a group adds to 16 outputs of a row.
struct Int4Scales {
  explicit Int4Scales(const std::uint8_t* group)
      : scale(from_bf16(group + kInt4Codes)),
        minimum(from_bf16(group + kInt4Codes + 2 * kQuantRows)) {}
  __m512 add(__m512 y, __m512i sum, float scale_x, float total_x) const {
    y = _mm512_fmadd_ps(to_float(sum), _mm512_mul_ps(scale, _mm512_set1_ps(scale_x)), y);
    return _mm512_fmadd_ps(minimum, _mm512_set1_ps(total_x), y);
  }
  __m512 scale, minimum;
};
inline __m512 add_int8(__m512 y, __m512i sum, float scale_x, std::int32_t less) {
  return _mm512_fmadd_ps(to_float(_mm512_add_epi32(sum, _mm512_set1_epi32(less))),
                         _mm512_set1_ps(scale_x), y);
}

// Outputs of block b of a row of y, from their sums.
inline void put(const ByteProduct& p, std::int64_t b, std::int64_t row, __m512 sum) {
  const std::int64_t n = b * kQuantRows;
  const int count = static_cast<int>(std::min(kQuantRows, p.shape.rows - n));
  if (p.shape.format == WeightFormat::kInt8)
    sum = _mm512_mul_ps(sum, _mm512_loadu_ps(p.block(b) + p.shape.groups() * kInt8Group));
  vec::F32 y = (vec::F32)sum;
  if (p.bias) y += vec::Reader(p.bias).load(n, count);
  vec::Writer(p.y).store((p.first + row) * p.shape.rows + n, y, count);
}
#else
inline constexpr bool kMultipliesBytes = false;
#endif

}  // namespace trireme::quantized
