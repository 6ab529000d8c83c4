// The matrix products inside attention: C (64, N) = or += A (64, K) x B (K, N) with N a multiple of
// 16, everything in cache.
//
// Operands are 32-bit words along the reduction: a word is one f32, or a pair of bf16 (k, k + 1) on
// CPUs that multiply such pairs. A is read by broadcast with two strides, so its transpose is free;
// B rows are contiguous. A type of words says how f32 become words and who multiplies them.
#pragma once

#include "framework/backend/cpu/matrix_tiles.h"
#include "framework/backend/cpu/vector.h"

namespace trireme {

inline constexpr std::int64_t kTile = 64;  // queries and keys per block

// Words of f32.
struct F32Words {
  using Element = float;
  using Word = float;
  static constexpr int kPair = 1;          // elements per word
  static constexpr int kDimMultiple = 16;  // head sizes are padded to it
  static constexpr bool kMatrixTiles = false;
  struct Session {  // alive while a thread multiplies
    explicit Session(int = 16) {}
  };
  static vec::F32 broadcast(const Word* a) { return vec::set1(*a); }
  static vec::F32 multiply_add(vec::F32 a, vec::F32 b, vec::F32 c) { return vec::fma(a, b, c); }
  static void store(Element* to, vec::F32 v) { vec::store(to, v); }
};

#if defined(__AVX512BF16__) && defined(__AVX512VL__)
// Pairs of bf16. Products are exact in f32; the CPU adds a pair without intermediate rounding and
// takes denormals as zero.
struct BF16Words {
  using Element = std::uint16_t;
  using Word = std::uint32_t;
  static constexpr int kPair = 2;
  static constexpr int kDimMultiple = 16;
  static constexpr bool kMatrixTiles = false;
  struct Session {
    explicit Session(int = 16) {}
  };
  static vec::F32 broadcast(const Word* a) { return vec::from_bits(vec::U32{} + *a); }
  static vec::F32 multiply_add(vec::F32 a, vec::F32 b, vec::F32 c) {
    return (vec::F32)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
  }
  static vec::U16 narrow(vec::F32 v) { return (vec::U16)_mm512_cvtneps_pbh((__m512)v); }
  static void store(Element* to, vec::F32 v) { vec::store_as(to, narrow(v)); }
};
using BF16OnThisCpu = BF16Words;
#else
using BF16OnThisCpu = F32Words;
#endif

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512VL__)
// The same pairs, multiplied by AMX, whose operand formats are these very words. A must have its
// words side by side (word stride 1).
struct MatrixTileWords : BF16Words {
  static constexpr int kDimMultiple = 32;
  static constexpr bool kMatrixTiles = true;
  using Session = MatrixTileSession;
};
#else
using MatrixTileWords = BF16OnThisCpu;
#endif

// Calls f with the words for operands of type `dtype`; `tiles`: the CPU's matrix tiles may be used.
template <typename F>
void with_words(DType dtype, bool tiles, F f) {
  if (dtype != DType::kBF16) return f(F32Words{});
  if (tiles) return f(MatrixTileWords{});
  f(BF16OnThisCpu{});
}

// Two rows (2k, 2k + 1) of bf16 as one row of words.
inline vec::U32 interleave(vec::U16 even, vec::U16 odd) {
  return vec::widen(even) | (vec::widen(odd) << 16);
}

// Word (row r, word k) is at data[r * row + k * word].
template <typename W>
struct TileA {
  const typename W::Word* data;
  std::int64_t row, word;
};

template <typename W, int R, int V>
inline void tile_kernel(std::int64_t words, const TileA<W>& a, const typename W::Word* b,
                        std::int64_t b_row, float* c, std::int64_t c_row, bool accumulate) {
  vec::F32 sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      sum[r][v] = accumulate ? vec::load(c + r * c_row + v * vec::kLanes) : vec::F32{};
  const typename W::Word* a_word = a.data;
  for (std::int64_t k = 0; k < words; ++k, a_word += a.word, b += b_row) {
    vec::F32 right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = vec::load_as<vec::F32>(b + v * vec::kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const vec::F32 left = W::broadcast(a_word + r * a.row);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = W::multiply_add(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) vec::store(c + r * c_row + v * vec::kLanes, sum[r][v]);
}

template <typename W, int V>
inline void tile_panel(std::int64_t words, TileA<W> a, const typename W::Word* b,
                       std::int64_t b_row, float* c, std::int64_t c_row, bool accumulate) {
  std::int64_t r = 0;
  for (; r + 6 <= kTile; r += 6, a.data += 6 * a.row)
    tile_kernel<W, 6, V>(words, a, b, b_row, c + r * c_row, c_row, accumulate);
  static_assert(kTile % 6 == 4);
  tile_kernel<W, 4, V>(words, a, b, b_row, c + r * c_row, c_row, accumulate);
}

template <typename W>
void vector_product(std::int64_t columns, std::int64_t words, const TileA<W>& a,
                    const typename W::Word* b, std::int64_t b_row, float* c, std::int64_t c_row,
                    bool accumulate) {
  constexpr int kWide = vec::kLanes == 16 ? 4 : 2;
  constexpr std::int64_t kPanel = kWide * vec::kLanes;
  std::int64_t n = 0;
  for (; n + kPanel <= columns; n += kPanel)
    tile_panel<W, kWide>(words, a, b + n, b_row, c + n, c_row, accumulate);
  if constexpr (vec::kLanes == 16) {
    const std::int64_t left = (columns - n) / vec::kLanes;
    if (left == 3) tile_panel<W, 3>(words, a, b + n, b_row, c + n, c_row, accumulate);
    if (left == 2) tile_panel<W, 2>(words, a, b + n, b_row, c + n, c_row, accumulate);
    if (left == 1) tile_panel<W, 1>(words, a, b + n, b_row, c + n, c_row, accumulate);
  } else if (n < columns) {
    for (; n < columns; n += vec::kLanes)
      tile_panel<W, 1>(words, a, b + n, b_row, c + n, c_row, accumulate);
  }
}

// C (kTile, columns), `words` words along the reduction.
template <typename W>
void tile_product(std::int64_t columns, std::int64_t words, const TileA<W>& a,
                  const typename W::Word* b, std::int64_t b_row, float* c, std::int64_t c_row,
                  bool accumulate) {
  if constexpr (W::kMatrixTiles)
    matrix_tile_product(kTile, columns, words, {a.data, a.row}, {b, b_row}, c, c_row, accumulate);
  else
    vector_product<W>(columns, words, a, b, b_row, c, c_row, accumulate);
}

}  // namespace trireme
