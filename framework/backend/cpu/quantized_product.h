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

#include <algorithm>
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

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
inline constexpr bool kMultipliesBytes = true;

using vec::F32;
using vec::I32;
using vec::U32;
inline constexpr int kVectors = static_cast<int>(kQuantRows) / vec::kLanes;  // of a block's outputs

// What a group adds to a vector of outputs of a row, the v-th of a block.
struct Int4Scales {
  Int4Scales(const std::uint8_t* group, int v)
      : scale(lanes(group + kInt4Codes, v)),
        minimum(lanes(group + kInt4Codes + 2 * kQuantRows, v)) {}
  F32 add(F32 y, I32 sum, float scale_x, float total_x) const {
    y = vec::fma(__builtin_convertvector(sum, F32), scale * scale_x, y);
    return vec::fma(minimum, vec::set1(total_x), y);
  }
  static F32 lanes(const std::uint8_t* bf16, int v) {
    return vec::from_bf16(vec::load_as<vec::U16>(bf16 + 2 * vec::kLanes * v));
  }
  F32 scale, minimum;
};
inline F32 add_int8(F32 y, I32 sum, float scale_x) {
  return vec::fma(__builtin_convertvector(sum, F32), vec::set1(scale_x), y);
}

// The v-th vector of outputs of block b of a row of y, from their sums.
inline void put(const ByteProduct& p, std::int64_t b, std::int64_t row, F32 sum, int v) {
  const std::int64_t lane = v * vec::kLanes, n = b * kQuantRows + lane;
  const std::int64_t count = std::min<std::int64_t>(vec::kLanes, p.shape.rows - n);
  if (count <= 0) return;
  if (p.shape.format == WeightFormat::kInt8)
    sum *= vec::load_as<F32>(p.block(b) + p.shape.groups() * kInt8Group + 4 * lane);
  const auto lanes = static_cast<int>(count);
  if (p.bias) sum += vec::Reader(p.bias).load(n, lanes);
  vec::Writer(p.y).store((p.first + row) * p.shape.rows + n, sum, lanes);
}
#else
inline constexpr bool kMultipliesBytes = false;
#endif

}  // namespace trireme::quantized
