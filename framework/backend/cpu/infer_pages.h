// How the cpu backend arranges the elements of a page, and the words it is multiplied in. Private
// to infer_*.cpp.
//
// One key/value head's part of a page: keys (D / pair words, 16 positions), so that one vector of
// words meets 16 keys and scores need no sums over lanes; values (16 / pair words, D).
#pragma once

#include "framework/backend/cpu/attention_tile.h"
#include "framework/backend/infer_kernels.h"

namespace trireme {

// Sequences with so many rows in a pass, or fewer, are infer_decode.cpp's, the others
// infer_prefill.cpp's. The two round differently.
inline constexpr std::int64_t kFewRows = 8;

// Words of f32.
struct F32Page {
  using Element = float;
  using Word = float;
  static constexpr std::int64_t kPair = 1;
  static vec::F32 broadcast(const Word* a) { return vec::set1(*a); }
  static vec::F32 multiply_add(vec::F32 a, vec::F32 b, vec::F32 c) { return vec::fma(a, b, c); }
  static Element narrow(float v) { return v; }
};

// Pairs of bf16, multiplied as the build can.
struct BF16Page {
  using Element = std::uint16_t;
  using Word = std::uint32_t;
  static constexpr std::int64_t kPair = 2;
  static vec::F32 broadcast(const Word* a) { return vec::from_bits(vec::U32{} + *a); }
  static vec::F32 multiply_add(vec::F32 a, vec::F32 b, vec::F32 c) {
#if defined(__AVX512BF16__) && defined(__AVX512VL__)
    return (vec::F32)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
#else
    const vec::U32 high = vec::U32{} + 0xffff0000u;
    const vec::U32 x = vec::bits(a), y = vec::bits(b);
    c = vec::fma(vec::from_bits(x << 16), vec::from_bits(y << 16), c);
    return vec::fma(vec::from_bits(x & high), vec::from_bits(y & high), c);
#endif
  }
  static Element narrow(float v) { return BFloat16(v).bits; }
};

// Calls f with the words of pages of this type.
template <typename F>
void with_page(DType type, F f) {
  type == DType::kBF16 ? f(BF16Page{}) : f(F32Page{});
}

// Elements of one head in one page, keys or values.
constexpr std::int64_t page_elements(std::int64_t head_dim) { return kPageTokens * head_dim; }

template <typename P>
typename P::Element* page_of(const Tensor& half, const PagedAttention& a, std::int64_t page,
                             std::int64_t head) {
  return static_cast<typename P::Element*>(half.data()) +
         (page * a.kv_heads + head) * page_elements(a.head_dim);
}

// Probabilities of 64 keys for one query: an online softmax in base 2, one block after the other.
// `scores` become exp2(score * factor - most), 0 outside [first, last]; returns by how much what
// was summed before must be multiplied.
struct Softmax {
  float most, sum;
};
template <typename Store>
inline float softmax_block(const float* scores, float factor, int first, int last, Softmax& state,
                           Store store) {
  constexpr int kParts = kTile / vec::kLanes;
  vec::I32 lane;
  for (int i = 0; i < vec::kLanes; ++i) lane[i] = i;
  const vec::F32 none = vec::set1(-std::numeric_limits<float>::infinity());
  vec::F32 s[kParts], most = vec::set1(state.most);
  for (int i = 0; i < kParts; ++i) {
    const vec::I32 at = lane + i * vec::kLanes;
    s[i] = vec::load(scores + i * vec::kLanes) * factor;
    s[i] = (at >= first) & (at <= last) ? s[i] : none;
    most = vec::max(s[i], most);
  }
  const float before = state.most, after = vec::largest(most);
  const float kept = after == before ? 1.0f : vec::exp2(vec::set1(before - after))[0];
  vec::F32 sum{};
  for (int i = 0; i < kParts; ++i) {
    const vec::I32 at = lane + i * vec::kLanes;
    const vec::F32 p = (at >= first) & (at <= last) ? vec::exp2(s[i] - after) : vec::F32{};
    sum += p;
    store(i * vec::kLanes, p);
  }
  state.most = after;
  state.sum = state.sum * kept + vec::sum(sum);
  return kept;
}

}  // namespace trireme
