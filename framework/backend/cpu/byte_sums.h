// Sums of products of bytes, exact whatever the instruction set. A lane of W has four unsigned
// bytes, one of x four signed ones in -127 .. 127. VNNI adds up all four products in 32 bits;
// without it two of them become a 16-bit sum that saturates, so they are kept below that.
#pragma once

#include "framework/backend/cpu/vector.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

namespace trireme::quantized {

using vec::I32;
using vec::U32;

#if (defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__)) || \
    (defined(__AVXVNNI__) && !defined(__AVX512F__))

inline I32 add_products(I32 sum, U32 w, U32 x) {
#if defined(__AVX512VNNI__)
  return (I32)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, (__m512i)x);
#else
  return (I32)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)w, (__m256i)x);
#endif
}

// Codes of int8, which are 128 more than what they stand for: `less` of a group of x mends it.
struct WeightBytes {
  explicit WeightBytes(U32 bytes) : codes(bytes) {}
  static I32 rest(std::int32_t less) { return I32{} + less; }
  U32 codes;
};
struct ByteSum {
  void add(const WeightBytes& w, U32 x) { sum = add_products(sum, w.codes, x); }
  I32 sum{};
};

// Half bytes, of at most 8 quads of inputs.
struct HalfByteSum {
  void add(U32 w, U32 x) { sum = add_products(sum, w, x); }
  I32 whole() const { return sum; }
  I32 sum{};
};

#else

using I16 = std::int16_t __attribute__((vector_size(4 * vec::kLanes)));

#if defined(__AVX512BW__) && defined(__AVX512VL__)
inline I16 pairs(U32 w, U32 x) { return (I16)_mm512_maddubs_epi16((__m512i)w, (__m512i)x); }
inline I32 quads(I16 sums) {
  return (I32)_mm512_madd_epi16((__m512i)sums, (__m512i)(I16{} + std::int16_t{1}));
}
inline U32 sizes(U32 x) { return (U32)_mm512_abs_epi8((__m512i)x); }
// x, negated where `sign` is negative.
inline U32 with_sign(U32 x, U32 sign) {
  return (U32)_mm512_mask_sub_epi8((__m512i)x, _mm512_movepi8_mask((__m512i)sign),
                                   _mm512_setzero_si512(), (__m512i)x);
}
#else
inline I16 pairs(U32 w, U32 x) { return (I16)_mm256_maddubs_epi16((__m256i)w, (__m256i)x); }
inline I32 quads(I16 sums) {
  return (I32)_mm256_madd_epi16((__m256i)sums, (__m256i)(I16{} + std::int16_t{1}));
}
inline U32 sizes(U32 x) { return (U32)_mm256_abs_epi8((__m256i)x); }
inline U32 with_sign(U32 x, U32 sign) { return (U32)_mm256_sign_epi8((__m256i)x, (__m256i)sign); }
#endif

// What the codes of int8 stand for, at most 128: two products are at most 2 * 128 * 127 < 2^15.
struct WeightBytes {
  explicit WeightBytes(U32 codes) : value(codes ^ 0x80808080u), size(sizes(value)) {}
  static I32 rest(std::int32_t) { return I32{}; }
  U32 value, size;
};
struct ByteSum {
  void add(const WeightBytes& w, U32 x) { sum += quads(pairs(w.size, with_sign(x, w.value))); }
  I32 sum{};
};

// Half bytes, of at most 8 quads of inputs: 8 * 2 * 15 * 127 < 2^15.
struct HalfByteSum {
  void add(U32 w, U32 x) { sum += pairs(w, x); }
  I32 whole() const { return quads(sum); }
  I16 sum{};
};

#endif

}  // namespace trireme::quantized

#endif
