// The few vector operations that compilers cannot write from plain expressions, for the instruction
// set of the build: AVX-512, AVX2 + FMA, or anything else (slow, but the same semantics).
//
// The width follows the build's -march. Beside this file only products of bytes (byte_sums.h), of
// bf16 pairs and of matrix tiles ask for the instruction set.
// `n` of a partial load or store is in [0, kLanes]; missing lanes read as zero and are not written.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace trireme::vec {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

using F32 = float __attribute__((vector_size(4 * kLanes)));
using I32 = std::int32_t __attribute__((vector_size(4 * kLanes)));
using U32 = std::uint32_t __attribute__((vector_size(4 * kLanes)));
using U64 = std::uint64_t __attribute__((vector_size(4 * kLanes)));  // half as many lanes
using F64 = double __attribute__((vector_size(4 * kLanes)));         // half as many lanes
using U16 = std::uint16_t __attribute__((vector_size(2 * kLanes)));
using HalfF32 = float __attribute__((vector_size(2 * kLanes)));

// Unaligned loads and stores of whole vectors, any type.
template <typename V, typename T>
inline V load_as(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <typename V, typename T>
inline void store_as(T* p, V v) {
  std::memcpy(p, &v, sizeof v);
}

// Pairwise over the lanes: halves, quarters, ...
template <typename F>
inline float fold4(__m128 v, F f) {
  v = f(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(f(v, _mm_shuffle_ps(v, v, 1)));
}
inline __m128 add4(__m128 a, __m128 b) { return _mm_add_ps(a, b); }
// Four of fold4 with add4.
inline __m128 add_up4(__m128 a, __m128 b, __m128 c, __m128 d) {
  const __m128 ab = _mm_add_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a));
  const __m128 cd = _mm_add_ps(_mm_movelh_ps(c, d), _mm_movehl_ps(d, c));
  return _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xdd));
}
inline __m128 max4(__m128 a, __m128 b) { return _mm_max_ps(a, b); }

#if defined(__AVX2__)
inline std::uint32_t largest8(__m256i a) {
  __m128i v = _mm_max_epu32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  v = _mm_max_epu32(v, _mm_shuffle_epi32(v, 0x4e));
  v = _mm_max_epu32(v, _mm_shuffle_epi32(v, 0xb1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(v));
}
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)

// All lanes. Zero-masked forms are used where g++ 12's plain ones warn of an uninitialised operand
// (GCC bug 105593); the instructions are the same.
inline constexpr __mmask16 kAll = 0xffff;

inline F32 fma(F32 a, F32 b, F32 c) {
  return (F32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
inline F32 sqrt(F32 a) { return (F32)_mm512_maskz_sqrt_ps(kAll, (__m512)a); }
// NaN in b is kept.
inline F32 max(F32 a, F32 b) { return (F32)_mm512_maskz_max_ps(kAll, (__m512)a, (__m512)b); }
inline F32 min(F32 a, F32 b) { return (F32)_mm512_maskz_min_ps(kAll, (__m512)a, (__m512)b); }
inline F32 round(F32 a) { return (F32)_mm512_maskz_roundscale_ps(kAll, (__m512)a, 8); }
// 1 / a within 1e-7 relative, for 1 <= a < 1e38.
inline F32 reciprocal(F32 a) {
  const F32 y = (F32)_mm512_maskz_rcp14_ps(kAll, (__m512)a);
  return fma(y, fma(-a, y, F32{} + 1.0f), y);
}
inline __m256 lower(F32 a) { return (__m256)__builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7); }
inline __m256 upper(F32 a) {
  return (__m256)__builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
}
inline F64 widen(HalfF32 a) { return (F64)_mm512_maskz_cvtps_pd(0xff, (__m256)a); }
inline __m128 quarters(F32 a) {  // added up
  const __m256 v = (__m256)(lower(a) + upper(a));
  return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}
inline float largest(F32 a) {
  const __m256 v = _mm256_max_ps((__m256)lower(a), (__m256)upper(a));
  return fold4(_mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)), max4);
}
inline std::uint32_t largest(U32 a) {
  const auto low = (__m256i)__builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7);
  const auto high = (__m256i)__builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15);
  return largest8(_mm256_max_epu32(low, high));
}
inline __mmask16 first_lanes(int n) {
  return static_cast<__mmask16>(_bzhi_u32(0xffffu, static_cast<unsigned>(n)));
}
inline F32 load_partial(const float* p, int n) {
  return (F32)_mm512_maskz_loadu_ps(first_lanes(n), p);
}
inline void store_partial(float* p, F32 v, int n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), (__m512)v);
}
inline U16 load_partial(const std::uint16_t* p, int n) {
  return (U16)_mm256_maskz_loadu_epi16(first_lanes(n), p);
}
inline void store_partial(std::uint16_t* p, U16 v, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), (__m256i)v);
}
inline U32 widen(U16 v) { return __builtin_convertvector(v, U32); }
inline U16 narrow(U32 v) { return __builtin_convertvector(v, U16); }  // below 2^16
inline F32 from_f16(U16 v) { return (F32)_mm512_maskz_cvtph_ps(kAll, (__m256i)v); }
inline U16 to_f16(F32 v) { return (U16)_mm512_maskz_cvtps_ph(kAll, (__m512)v, 0); }
// Whole numbers in -127 .. 127.
inline void store_bytes(std::int8_t* p, F32 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm512_maskz_cvtsepi32_epi8(kAll, _mm512_maskz_cvtps_epi32(kAll, (__m512)v)));
}
// p[0], p[stride], p[2 stride], ... of 32-bit words.
inline U32 gather(const void* p, int stride) {
  const auto lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return (U32)_mm512_mask_i32gather_epi32(
      _mm512_setzero_si512(), kAll, _mm512_mullo_epi32(lane, _mm512_set1_epi32(stride)), p, 4);
}
// 64-bit products of the low halves of the lanes.
inline U64 multiply_low(U64 a, U64 b) {
  return (U64)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);
}

#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

inline F32 fma(F32 a, F32 b, F32 c) {
  return (F32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
inline F32 sqrt(F32 a) { return (F32)_mm256_sqrt_ps((__m256)a); }
inline F32 max(F32 a, F32 b) { return (F32)_mm256_max_ps((__m256)a, (__m256)b); }
inline F32 min(F32 a, F32 b) { return (F32)_mm256_min_ps((__m256)a, (__m256)b); }
inline F32 round(F32 a) {
  return (F32)_mm256_round_ps((__m256)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline F32 reciprocal(F32 a) { return 1.0f / a; }
inline HalfF32 lower(F32 a) { return __builtin_shufflevector(a, a, 0, 1, 2, 3); }
inline HalfF32 upper(F32 a) { return __builtin_shufflevector(a, a, 4, 5, 6, 7); }
inline F64 widen(HalfF32 a) { return (F64)_mm256_cvtps_pd((__m128)a); }
inline __m128 quarters(F32 a) {  // added up
  return _mm_add_ps(_mm256_castps256_ps128((__m256)a), _mm256_extractf128_ps((__m256)a, 1));
}
inline float largest(F32 a) {
  return fold4(_mm_max_ps(_mm256_castps256_ps128((__m256)a), _mm256_extractf128_ps((__m256)a, 1)),
               max4);
}
inline std::uint32_t largest(U32 a) { return largest8((__m256i)a); }
inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}
inline F32 load_partial(const float* p, int n) {
  return (F32)_mm256_maskload_ps(p, first_lanes(n));
}
inline void store_partial(float* p, F32 v, int n) {
  if (n == 4) return _mm_storeu_ps(p, _mm256_castps256_ps128((__m256)v));  // masks are slow on some
  _mm256_maskstore_ps(p, first_lanes(n), (__m256)v);
}
inline U16 load_partial(const std::uint16_t* p, int n) {
  U16 v{};
  std::memcpy(&v, p, 2 * static_cast<std::size_t>(n));
  return v;
}
inline void store_partial(std::uint16_t* p, U16 v, int n) {
  if (n == 4) return _mm_storel_epi64(reinterpret_cast<__m128i*>(p), (__m128i)v);
  std::memcpy(p, &v, 2 * static_cast<std::size_t>(n));
}
// g++ 12 makes five instructions of __builtin_convertvector here.
inline U32 widen(U16 v) { return (U32)_mm256_cvtepu16_epi32((__m128i)v); }
inline U16 narrow(U32 v) {  // below 2^16
  return (U16)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)v),
                               _mm256_extracti128_si256((__m256i)v, 1));
}
inline F32 from_f16(U16 v) { return (F32)_mm256_cvtph_ps((__m128i)v); }
inline U16 to_f16(F32 v) { return (U16)_mm256_cvtps_ph((__m256)v, 0); }
inline void store_bytes(std::int8_t* p, F32 v) {
  const __m256i whole = _mm256_cvtps_epi32((__m256)v);
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}
inline U32 gather(const void* p, int stride) {
  const auto lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  return (U32)_mm256_i32gather_epi32(static_cast<const int*>(p),
                                     _mm256_mullo_epi32(lane, _mm256_set1_epi32(stride)), 4);
}
inline U64 multiply_low(U64 a, U64 b) { return (U64)_mm256_mul_epu32((__m256i)a, (__m256i)b); }

#else

inline HalfF32 lower(F32 a) { return __builtin_shufflevector(a, a, 0, 1); }
inline HalfF32 upper(F32 a) { return __builtin_shufflevector(a, a, 2, 3); }
inline F64 widen(HalfF32 a) { return __builtin_convertvector(a, F64); }
inline __m128 quarters(F32 a) { return (__m128)a; }
inline float largest(F32 a) { return fold4((__m128)a, max4); }
template <typename F>
inline F32 by_lane(F f) {
  F32 r{};
  for (int i = 0; i < kLanes; ++i) r[i] = f(i);
  return r;
}
inline F32 fma(F32 a, F32 b, F32 c) {
  return by_lane([&](int i) { return std::fma(a[i], b[i], c[i]); });
}
inline F32 sqrt(F32 a) {
  return by_lane([&](int i) { return std::sqrt(a[i]); });
}
inline F32 max(F32 a, F32 b) { return a > b ? a : b; }
inline F32 min(F32 a, F32 b) { return a < b ? a : b; }
inline F32 round(F32 a) {
  return by_lane([&](int i) { return std::nearbyint(a[i]); });
}
inline F32 reciprocal(F32 a) { return 1.0f / a; }
inline F32 load_partial(const float* p, int n) {
  F32 v{};
  std::memcpy(&v, p, 4 * static_cast<std::size_t>(n));
  return v;
}
inline void store_partial(float* p, F32 v, int n) {
  std::memcpy(p, &v, 4 * static_cast<std::size_t>(n));
}
inline U16 load_partial(const std::uint16_t* p, int n) {
  U16 v{};
  std::memcpy(&v, p, 2 * static_cast<std::size_t>(n));
  return v;
}
inline void store_partial(std::uint16_t* p, U16 v, int n) {
  std::memcpy(p, &v, 2 * static_cast<std::size_t>(n));
}
inline U32 widen(U16 v) { return __builtin_convertvector(v, U32); }
inline U16 narrow(U32 v) { return __builtin_convertvector(v, U16); }  // below 2^16
inline F32 from_f16(U16 v) {
  return by_lane([&](int i) {
    _Float16 h;
    const std::uint16_t bits = v[i];
    std::memcpy(&h, &bits, 2);
    return static_cast<float>(h);
  });
}
inline U16 to_f16(F32 v) {
  U16 r{};
  for (int i = 0; i < kLanes; ++i) {
    const _Float16 h = static_cast<_Float16>(v[i]);
    std::uint16_t bits;
    std::memcpy(&bits, &h, 2);
    r[i] = bits;
  }
  return r;
}
inline U32 gather(const void* p, int stride) {
  U32 r{};
  for (int i = 0; i < kLanes; ++i)
    std::memcpy(reinterpret_cast<std::uint32_t*>(&r) + i,
                static_cast<const char*>(p) + 4 * i * stride, 4);
  return r;
}
inline U64 multiply_low(U64 a, U64 b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }

#endif

// All lanes added up, pairwise; four vectors at once, to the same bits.
inline float sum(F32 a) { return fold4(quarters(a), add4); }
inline __m128 sums(F32 a, F32 b, F32 c, F32 d) {
  return add_up4(quarters(a), quarters(b), quarters(c), quarters(d));
}

}  // namespace trireme::vec
