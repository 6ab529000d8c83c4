// The same products of bf16 on the CPU's matrix tiles (AMX). Tiles of W are its rows as they lie in
// memory, (16 outputs, 32 inputs); rows of x are packed, 16 at a time, as (pairs of inputs, 16
// rows): what is multiplied is (W x^T), turned round on the way out. So one copy of the weights
// serves any number of rows, each output is the same sum for all of them, and W comes from memory
// once for up to kRowsAtOnce rows.
//
// Where K is no multiple of 32, rows of x are packed with zeros behind them, and so are the last
// inputs of each band of W, in a tile's worth of memory: what lies behind a row is another row, or
// nothing.
//
// Legend: M rows of x, N outputs, K inputs; W (N, K).
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/matrix_tiles.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"

namespace trireme {

#if defined(__AMX_BF16__) && defined(__AMX_TILE__) && defined(__AVX512F__)

namespace {

constexpr std::int64_t kBand = 32;         // outputs of a step: two tiles
constexpr std::int64_t kRowsAtOnce = 256;  // packed rows that stay in the second cache level

struct TileProduct {
  std::int64_t m, n, k, groups;  // groups of 16 rows
  const std::uint16_t* w;
  const std::uint32_t* packed;  // (groups, words, 16)
  std::int64_t first;           // row of y that packed row 0 is
  const Tensor& bias;
  const Tensor& y;
  std::int64_t whole() const { return k / 32 * 32; }         // inputs that fill tiles
  std::int64_t words() const { return (k + 31) / 32 * 16; }  // of a packed row
};

// 16 rows of x, the missing ones and what is behind the last input zero. (words, 16) of them.
void pack_group(const Tensor& x, std::int64_t row, std::int64_t words, std::uint32_t* to) {
  const std::int64_t k = x.columns(), pairs = k / 2;
  const auto* from = static_cast<const std::uint16_t*>(x.data()) + row * k;
  const std::int64_t rows = std::min<std::int64_t>(16, x.rows() - row);
  const auto pair = [&](std::int64_t r, std::int64_t w) {
    std::uint32_t two = 0;
    if (r < rows) std::memcpy(&two, from + r * k + 2 * w, sizeof two);
    return two;
  };
  for (std::int64_t w = 0; w < pairs; ++w)
    for (std::int64_t r = 0; r < 16; ++r) to[w * 16 + r] = pair(r, w);
  std::fill(to + pairs * 16, to + words * 16, 0u);
  for (std::int64_t r = 0; r < rows && k % 2 != 0; ++r) to[pairs * 16 + r] = from[r * k + k - 1];
}

// The last inputs of 32 outputs from n on, with zeros behind them; (32, 32).
void pack_rest(const TileProduct& p, std::int64_t n, std::uint16_t* to) {
  const std::int64_t rest = p.k - p.whole();
  for (std::int64_t r = 0; r < kBand; ++r) {
    std::memcpy(to + r * 32, p.w + (n + r) * p.k + p.whole(), static_cast<std::size_t>(2 * rest));
    std::fill(to + r * 32 + rest, to + (r + 1) * 32, std::uint16_t{0});
  }
}

// A 16 x 16 matrix turned round: 32-bit words, then pairs, then quarters of vectors change places.
inline void transpose(__m512 (&r)[16]) {
  __m512 t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_maskz_unpacklo_ps(0xffff, r[i], r[i + 1]);
    t[i + 1] = _mm512_maskz_unpackhi_ps(0xffff, r[i], r[i + 1]);
  }
  const auto lower = [](__m512 a, __m512 b) {
    return _mm512_castpd_ps(
        _mm512_maskz_unpacklo_pd(0xff, _mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  const auto upper = [](__m512 a, __m512 b) {
    return _mm512_castpd_ps(
        _mm512_maskz_unpackhi_pd(0xff, _mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = lower(t[i], t[i + 2]);
    r[i + 1] = upper(t[i], t[i + 2]);
    r[i + 2] = lower(t[i + 1], t[i + 3]);
    r[i + 3] = upper(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_maskz_shuffle_f32x4(0xffff, r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_maskz_shuffle_f32x4(0xffff, r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_maskz_shuffle_f32x4(0xffff, r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_maskz_shuffle_f32x4(0xffff, r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_maskz_shuffle_f32x4(0xffff, t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_maskz_shuffle_f32x4(0xffff, t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_maskz_shuffle_f32x4(0xffff, t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_maskz_shuffle_f32x4(0xffff, t[i + 4], t[i + 12], 0xdd);
  }
}

// sums (16 outputs, 16 rows) from tile memory to columns [n, n + 16) of rows of y, but none below
// `begin`, which are another band's.
void put(const TileProduct& p, const float* sums, std::int64_t n, std::int64_t begin,
         std::int64_t group) {
  const std::int64_t rows = std::min<std::int64_t>(16, p.m - group * 16);
  const vec::F32 add = p.bias ? vec::Reader(p.bias).load(n, vec::Whole{}) : vec::F32{};
  __m512 turned[16];
  if (rows > 2) {
    for (int i = 0; i < 16; ++i) turned[i] = _mm512_load_ps(sums + 16 * i);
    transpose(turned);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const vec::F32 row =
        (rows > 2 ? (vec::F32)turned[r] : (vec::F32)vec::gather(sums + r, 16)) + add;
    const vec::Writer to = vec::Writer(p.y).at((p.first + group * 16 + r) * p.n + n);
    if (n >= begin)
      to.store(0, row, vec::Whole{});
    else
      for (int i = static_cast<int>(begin - n); i < 16; ++i) to.one(i, row[i]);
  }
}

constexpr std::int64_t kRowBytes = 64;

// 32 outputs from n on by one group of rows. The CPU's own prefetchers follow 32 rows at a time
// better than instructions did (measured: 10 % of a product of one row).
inline void narrow_band(const TileProduct& p, std::int64_t n, std::int64_t begin,
                        std::int64_t group, const std::uint16_t* rest) {
  const std::int64_t w_bytes = 2 * p.k, whole = p.whole();
  const std::uint16_t* low = p.w + n * p.k;
  const std::uint16_t* high = low + 16 * p.k;
  const std::uint32_t* x = p.packed + group * p.words() * 16;
  _tile_zero(0);
  _tile_zero(1);
  for (std::int64_t k = 0; k < whole; k += 32) {
    _tile_loadd(4, low + k, w_bytes);
    _tile_loadd(6, x + k / 2 * 16, kRowBytes);
    _tile_loadd(5, high + k, w_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
  }
  if (whole < p.k) {
    _tile_loadd(4, rest, kRowBytes);
    _tile_loadd(6, x + whole / 2 * 16, kRowBytes);
    _tile_loadd(5, rest + 16 * 32, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
  }
  alignas(64) float sums[2][256];
  _tile_stored(0, sums[0], kRowBytes);
  _tile_stored(1, sums[1], kRowBytes);
  asm volatile("" : : : "memory");
  put(p, sums[0], n, begin, group);
  put(p, sums[1], n + 16, begin, group);
}

// The same by two groups.
inline void wide_band(const TileProduct& p, std::int64_t n, std::int64_t begin, std::int64_t group,
                      const std::uint16_t* rest) {
  const std::int64_t w_bytes = 2 * p.k, whole = p.whole();
  const std::uint16_t* low = p.w + n * p.k;
  const std::uint16_t* high = low + 16 * p.k;
  const std::uint32_t* left = p.packed + group * p.words() * 16;
  const std::uint32_t* right = left + p.words() * 16;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t k = 0; k < whole; k += 32) {
    _tile_loadd(4, low + k, w_bytes);
    _tile_loadd(6, left + k / 2 * 16, kRowBytes);
    _tile_loadd(7, right + k / 2 * 16, kRowBytes);
    _tile_loadd(5, high + k, w_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  if (whole < p.k) {
    _tile_loadd(4, rest, kRowBytes);
    _tile_loadd(6, left + whole / 2 * 16, kRowBytes);
    _tile_loadd(7, right + whole / 2 * 16, kRowBytes);
    _tile_loadd(5, rest + 16 * 32, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 5, 6);
    _tile_dpbf16ps(2, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float sums[4][256];
  _tile_stored(0, sums[0], kRowBytes);
  _tile_stored(1, sums[1], kRowBytes);
  _tile_stored(2, sums[2], kRowBytes);
  _tile_stored(3, sums[3], kRowBytes);
  asm volatile("" : : : "memory");
  put(p, sums[0], n, begin, group);
  put(p, sums[1], n + 16, begin, group);
  put(p, sums[2], n, begin, group + 1);
  put(p, sums[3], n + 16, begin, group + 1);
}

// Bands [begin, end). The last one of all may begin earlier, where another's outputs are.
void bands(const TileProduct& p, std::int64_t begin, std::int64_t end) {
  const MatrixTileSession session;
  alignas(64) std::uint16_t rest[kBand * 32];
  asm volatile("" : : : "memory");
  for (std::int64_t band = begin; band < end; ++band) {
    const std::int64_t n = std::min(band * kBand, p.n - kBand);
    if (p.whole() < p.k) {
      pack_rest(p, n, rest);
      asm volatile("" : : : "memory");
    }
    std::int64_t group = 0;
    for (; group + 2 <= p.groups; group += 2) wide_band(p, n, band * kBand, group, rest);
    if (group < p.groups) narrow_band(p, n, band * kBand, group, rest);
  }
}

}  // namespace

void CpuInferKernels::tile_linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                                  const Tensor& y) {
  const std::int64_t n = w.rows(), k = x.columns();
  const std::int64_t at_once = std::min(kRowsAtOnce, (x.rows() + 15) / 16 * 16);
  const std::int64_t row_words = (k + 31) / 32 * 16;
  const Tensor packed = scratch(at_once * row_words * 4);
  auto* words = static_cast<std::uint32_t*>(packed.data());
  for (std::int64_t row = 0; row < x.rows(); row += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, x.rows() - row), groups = (rows + 15) / 16;
    parallel_ranges(threads_, groups, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t g = begin; g < end; ++g)
        pack_group(x, row + g * 16, row_words, words + g * row_words * 16);
    });
    const TileProduct p{rows,  n,   k,    groups, static_cast<const std::uint16_t*>(w.data()),
                        words, row, bias, y};
    parallel_ranges(threads_, (n + kBand - 1) / kBand, 1 + 65536 / (kBand * k),
                    [&](std::int64_t begin, std::int64_t end) { bands(p, begin, end); });
  }
}

#else

void CpuInferKernels::tile_linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                                  const Tensor& y) {
  row_linear(x, w, bias, y);
}

#endif

}  // namespace trireme
