// How the cpu backend arranges the elements of a page, and the one way in which attention over
// pages rounds. Private to infer_*.cpp.
//
// One key/value head's part of a page: keys (D / pair words, 16 positions), so that one vector of
// words meets 16 keys and scores need no sums over lanes; values (16 / pair words, D).
//
// infer_decode.cpp takes sequences with few rows in a pass, infer_prefill.cpp those with many. A
// row must become the same bits in both, however a prompt is cut, so both keep to this:
//  - Operands are words of W (attention_tile.h), chosen by type, build and CPU alone; probabilities
//    are rounded to W::Element. A product adds words in ascending order to one sum an element
//    (matrix tiles in their own order, which no other row changes).
//  - Scores, softmax_block and weighted values go by blocks of kTile positions, and these by spans
//    of kSpan; both begin at multiples of their size. The blocks of a span follow one another, and
//    spans are sums of their own, which add_span() adds up in order: so spans may be computed at a
//    time (arXiv 2311.01282).
//  - What a row does not see adds words of zero, which change no sum.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "framework/backend/cpu/attention_tile.h"
#include "framework/backend/infer_kernels.h"

namespace trireme {

// Sequences with so many rows in a pass, or fewer, are infer_decode.cpp's.
inline constexpr std::int64_t kFewRows = 8;
inline constexpr std::int64_t kSpan = 512;  // positions
inline constexpr std::int64_t kPagesOfTile = kTile / kPageTokens;

// Words of f32.
struct F32Page {
  using Element = float;
  using Word = float;
  static constexpr std::int64_t kPair = 1;
};

// Pairs of bf16.
struct BF16Page {
  using Element = std::uint16_t;
  using Word = std::uint32_t;
  static constexpr std::int64_t kPair = 2;
};

// Calls f(W, P): how operands of attention over rows of this type are multiplied and kept. `bf16`:
// pairs are multiplied, else they are storage; `tiles`: by matrix tiles.
template <typename F>
void with_words_and_pages(DType rows, bool bf16, bool tiles, F f) {
  const bool pairs = rows == DType::kBF16;
  with_words(pairs && bf16 ? DType::kBF16 : DType::kF32, tiles, [&](auto words) {
    if (pairs) return f(words, BF16Page{});
    if constexpr (decltype(words)::kPair == 1) f(words, F32Page{});
  });
}

// Elements of one head in one page, keys or values.
constexpr std::int64_t page_elements(std::int64_t head_dim) { return kPageTokens * head_dim; }

template <typename P>
typename P::Element* page_of(const Tensor& half, const PagedAttention& a, std::int64_t page,
                             std::int64_t head) {
  return static_cast<typename P::Element*>(half.data()) +
         (page * a.kv_heads + head) * page_elements(a.head_dim);
}

// One key/value head of one sequence.
template <typename P>
struct HeadPages {
  const PagedAttention& a;
  const PagedSequence& sequence;
  const KvPages& pages;
  std::int64_t head;
  // Of the page that holds a position.
  const typename P::Word* keys(std::int64_t position) const { return words(pages.keys, position); }
  const typename P::Word* values(std::int64_t position) const {
    return words(pages.values, position);
  }

 private:
  const typename P::Word* words(const Tensor& half, std::int64_t position) const {
    const std::int64_t page = sequence.pages[static_cast<std::size_t>(position / kPageTokens)];
    return reinterpret_cast<const typename P::Word*>(page_of<P>(half, a, page, head));
  }
};

// `count` words of a page as words of W; a pair of bf16 may become two rows of f32, `to_row` apart.
template <typename W, typename P>
void copy_words(const typename P::Word* from, std::int64_t count, typename W::Word* to,
                std::int64_t to_row) {
  if constexpr (W::kPair == P::kPair) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(*to));
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = std::bit_cast<float>(from[i] << 16);
      to[to_row + i] = std::bit_cast<float>(from[i] & 0xffff0000u);
    }
  }
}

// The block of positions [at, at + kTile) below `seen`, the rest zero; dim >= D, and a row of a
// page's words becomes P::kPair / W::kPair of them.
// (dim / pair, kTile)
template <typename W, typename P>
void take_keys(const HeadPages<P>& from, std::int64_t at, std::int64_t seen, std::int64_t dim,
               typename W::Word* keys) {
  constexpr std::int64_t kRows = P::kPair / W::kPair;
  const std::int64_t head_dim = from.a.head_dim;
  if (seen < at + kTile || head_dim < dim)
    std::fill_n(keys, kTile * dim / W::kPair, typename W::Word(0));
  for (std::int64_t j = 0; j < kPagesOfTile && at + j * kPageTokens < seen; ++j) {
    const auto* page = from.keys(at + j * kPageTokens);
    for (std::int64_t w = 0; w < head_dim / P::kPair; ++w)
      copy_words<W, P>(page + w * kPageTokens, kPageTokens,
                       keys + w * kRows * kTile + j * kPageTokens, kTile);
  }
}

// (kTile / pair, dim)
template <typename W, typename P>
void take_values(const HeadPages<P>& from, std::int64_t at, std::int64_t seen, std::int64_t dim,
                 typename W::Word* values) {
  constexpr std::int64_t kRows = P::kPair / W::kPair;
  const std::int64_t head_dim = from.a.head_dim;
  if (seen < at + kTile || head_dim < dim)
    std::fill_n(values, kTile * dim / W::kPair, typename W::Word(0));
  for (std::int64_t j = 0; j < kPagesOfTile && at + j * kPageTokens < seen; ++j) {
    const auto* page = from.values(at + j * kPageTokens);
    const std::int64_t count = std::min(kPageTokens, seen - at - j * kPageTokens);
    for (std::int64_t w = 0; w < (count + P::kPair - 1) / P::kPair; ++w)
      copy_words<W, P>(page + w * head_dim, head_dim,
                       values + (j * kPageTokens / W::kPair + w * kRows) * dim, dim);
  }
}

// Probabilities of 64 keys for one query: an online softmax in base 2, one block after the other.
// `scores` become exp2(score * factor - most), 0 outside [first, last]; returns by how much what
// was summed before must be multiplied.
struct Softmax {
  float most, sum;
};
inline constexpr Softmax kNothing{-std::numeric_limits<float>::infinity(), 0.0f};
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

// Adds the sums of a span, (n) and its softmax, to those of the spans before it. n: whole vectors.
inline void add_span(const float* span, const Softmax& state, std::int64_t n, float* all,
                     Softmax& all_state) {
  if (state.most == kNothing.most) return;
  if (all_state.most == kNothing.most) {
    std::copy_n(span, n, all);
    all_state = state;
    return;
  }
  const float most = std::max(state.most, all_state.most);
  vec::F32 shares{};  // both in one vector
  shares[0] = all_state.most - most;
  shares[1] = state.most - most;
  shares = vec::exp2(shares);
  const vec::F32 kept = vec::set1(shares[0]), added = vec::set1(shares[1]);
  for (std::int64_t i = 0; i < n; i += vec::kLanes)
    vec::store(all + i, vec::fma(vec::load(span + i), added, vec::load(all + i) * kept));
  all_state = {most, all_state.sum * kept[0] + state.sum * added[0]};
}

}  // namespace trireme
