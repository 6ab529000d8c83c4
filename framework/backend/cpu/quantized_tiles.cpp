// Products of bytes on the CPU's matrix tiles (AMX): 16 rows of x by 16 outputs by a group of 64
// inputs at a time. A group of an int8 block is a tile as it lies in memory; one of int4 is taken
// apart once for all rows. Legend and arithmetic: quantized_product.h.
#include <cpuid.h>

#include <algorithm>

#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/matrix_tiles.h"
#include "framework/backend/cpu/quantized_product.h"

namespace trireme {

#if defined(__AMX_INT8__) && defined(__AMX_TILE__) && defined(__AVX512VNNI__) && \
    defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)

bool has_byte_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & (1u << 25));
}

namespace quantized {

namespace {

constexpr std::int64_t kTileBytes = 1024;
constexpr std::int64_t kAhead = 2048;  // bytes of W that are asked for before they are taken
constexpr int kAtOnce = 4;             // groups, whose sums wait in tiles

// The half bytes of a block's groups as bytes, (groups, 16 quads, 16 outputs, 4).
void take_apart(const std::uint8_t* block, std::int64_t groups, std::uint8_t* to) {
  const __m512i low_half = _mm512_set1_epi8(15);
  for (std::int64_t g = 0; g < groups; ++g, block += kInt4Group, to += kTileBytes)
    for (int quad = 0; quad < 8; ++quad) {
      __builtin_prefetch(block + 64 * quad + kAhead, 0, 2);
      const __m512i both = _mm512_loadu_si512(block + 64 * quad);
      _mm512_storeu_si512(to + 64 * quad, _mm512_and_si512(both, low_half));
      _mm512_storeu_si512(to + 64 * (quad + 8),
                          _mm512_and_si512(_mm512_srli_epi16(both, 4), low_half));
    }
}

// Sums of up to four groups from g on, by rows [row, row + 16).
inline void sums_of(const ByteProduct& p, const std::uint8_t* w, std::int64_t row, std::int64_t g,
                    std::int64_t count, std::int32_t (&sums)[kAtOnce][256]) {
  const std::int64_t stride = p.x.groups * kQuantGroup;
  const std::int8_t* x = p.x.row(row) + g * kQuantGroup;
  w += g * kTileBytes;
  _tile_zero(0);
  _tile_loadd(4, x, stride);
  _tile_loadd(5, w, 64);
  _tile_dpbsud(0, 4, 5);
  _tile_stored(0, sums[0], 64);
  if (count < 2) return;
  _tile_zero(1);
  _tile_loadd(6, x + 64, stride);
  _tile_loadd(7, w + kTileBytes, 64);
  _tile_dpbsud(1, 6, 7);
  _tile_stored(1, sums[1], 64);
  if (count < 3) return;
  _tile_zero(2);
  _tile_loadd(4, x + 128, stride);
  _tile_loadd(5, w + 2 * kTileBytes, 64);
  _tile_dpbsud(2, 4, 5);
  _tile_stored(2, sums[2], 64);
  if (count < 4) return;
  _tile_zero(3);
  _tile_loadd(6, x + 192, stride);
  _tile_loadd(7, w + 3 * kTileBytes, 64);
  _tile_dpbsud(3, 6, 7);
  _tile_stored(3, sums[3], 64);
}

inline void ask_for(const std::uint8_t* tiles) {
  for (std::int64_t line = 0; line < kAtOnce * kTileBytes; line += 64)
    __builtin_prefetch(tiles + line, 0, 2);
}

using Sums = std::int32_t[kAtOnce][256];

// Adds the sums of `count` groups from g on to the outputs of R rows.
template <bool kInt4, int R>
inline void add_sums(const ByteProduct& p, std::int64_t b, std::int64_t row, std::int64_t g,
                     std::int64_t count, const Sums& sums, F32 (&y)[R]) {
  const std::int64_t groups = p.x.groups;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = row * groups + g + i;
    const std::int32_t* from = sums[i];
    if constexpr (kInt4) {
      const Int4Scales scales(p.block(b) + (g + i) * kInt4Group, 0);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
        y[r] = scales.add(y[r], vec::load_as<I32>(from + 16 * r), p.x.scale[at + r * groups],
                          p.x.total[at + r * groups]);
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
        y[r] = add_int8(y[r], vec::load_as<I32>(from + 16 * r) + p.x.less[at + r * groups],
                        p.x.scale[at + r * groups]);
    }
  }
}

// A block by the rows [row, row + 16), of which R are wanted. `w`: its groups as tiles. The tiles
// are some groups ahead of the vectors.
template <bool kInt4, int R>
void block_rows(const ByteProduct& p, std::int64_t b, const std::uint8_t* w, std::int64_t row,
                Sums (&sums)[2]) {
  const std::int64_t groups = p.x.groups;
  F32 y[R] = {};
  const auto multiply = [&](std::int64_t g) {
    if (!kInt4 && row == 0) ask_for(w + (g + kAtOnce) * kTileBytes);
    asm volatile("" : : : "memory");  // tile loads do not say that they read memory
    sums_of(p, w, row, g, std::min<std::int64_t>(kAtOnce, groups - g), sums[g / kAtOnce % 2]);
    asm volatile("" : : : "memory");
  };
  multiply(0);
  for (std::int64_t g = 0; g < groups; g += kAtOnce) {
    if (g + kAtOnce < groups) multiply(g + kAtOnce);
    add_sums<kInt4>(p, b, row, g, std::min<std::int64_t>(kAtOnce, groups - g),
                    sums[g / kAtOnce % 2], y);
  }
  const std::int64_t rows = std::min<std::int64_t>(R, p.rows - row);
  for (std::int64_t r = 0; r < rows; ++r) put(p, b, row + r, y[r], 0);
}

template <bool kInt4>
void by_tiles(const ByteProduct& p, std::int64_t b, const std::uint8_t* w, Sums (&sums)[2]) {
  std::int64_t row = 0;
  for (; row + 8 < p.rows; row += 16) block_rows<kInt4, 16>(p, b, w, row, sums);
  if (row < p.rows) block_rows<kInt4, 8>(p, b, w, row, sums);
}

}  // namespace

std::int64_t apart_bytes(const QuantizedShape& shape) {
  return shape.format == WeightFormat::kInt4 ? shape.groups() * kTileBytes : 0;
}

void tile_blocks(const ByteProduct& p, std::int64_t begin, std::int64_t end, std::uint8_t* apart) {
  const MatrixTileSession session;
  alignas(64) Sums sums[2];
  for (std::int64_t b = begin; b < end; ++b) {
    const std::uint8_t* w = p.block(b);
    if (p.shape.format == WeightFormat::kInt4) {
      take_apart(w, p.x.groups, apart);
      w = apart;
    }
    p.shape.format == WeightFormat::kInt4 ? by_tiles<true>(p, b, w, sums)
                                          : by_tiles<false>(p, b, w, sums);
  }
}

}  // namespace quantized

#else

bool has_byte_tiles() { return false; }
std::int64_t quantized::apart_bytes(const QuantizedShape&) { return 0; }
void quantized::tile_blocks(const ByteProduct&, std::int64_t, std::int64_t, std::uint8_t*) {}

#endif

}  // namespace trireme
