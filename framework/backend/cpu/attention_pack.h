// How one head's matrices lie in scratch memory while attention works on them. Private to
// attention_*.cpp.
//
// A head of T tokens becomes ceil(T / 64) blocks of 64; D is padded to a multiple of 16; all
// padding is zero. `rows` keeps tokens as rows (words along D); `columns` is a block's transpose (D
// words, 64 tokens), the B operand of products over D; `pairs` has words along the tokens, (64 /
// pair, D), the B operand of products over tokens. With f32 words `pairs` and `rows` are the same
// bytes.
#pragma once

#include <algorithm>
#include <optional>

#include "framework/backend/cpu/attention_tile.h"
#include "framework/backend/cpu/random_words.h"
#include "framework/backend/kernels.h"

namespace trireme {

// Where a head's (T, D) matrix lies among packed projections.
struct HeadRows {
  vec::Reader first;  // element (0, 0)
  std::int64_t stride;
};

struct HeadExtents {
  std::int64_t tokens, head_dim;
  std::int64_t blocks, padded_dim;
  // `multiple`: what the words want head sizes to be padded to.
  HeadExtents(const Attention& a, std::int64_t multiple)
      : tokens(a.tokens),
        head_dim(a.head_dim),
        blocks((a.tokens + kTile - 1) / kTile),
        padded_dim((a.head_dim + multiple - 1) / multiple * multiple) {}
  std::int64_t elements() const { return blocks * kTile * padded_dim; }
};

// Blocks [begin, end) of a head, converted and padded. `to` starts at block 0.
template <typename W>
void pack_rows(const HeadExtents& e, const HeadRows& from, std::int64_t begin, std::int64_t end,
               typename W::Element* to) {
  for (std::int64_t t = begin * kTile; t < end * kTile; ++t) {
    auto* row = to + t * e.padded_dim;
    const bool real = t < e.tokens;
    if (real) {
      const vec::Reader source = from.first.at(t * from.stride);
      vec::each(0, e.head_dim, [&](std::int64_t d, auto n) {
        if constexpr (W::kPair == 1)
          vec::store(row + d, source.load(d, n), n);
        else  // already bf16
          vec::store(row + d, vec::load(reinterpret_cast<const std::uint16_t*>(source.data) + d, n),
                     n);
      });
    }
    for (std::int64_t d = real ? e.head_dim : 0; d < e.padded_dim; ++d) row[d] = 0;
  }
}

template <typename W>
void pack_columns(const HeadExtents& e, std::int64_t begin, std::int64_t end,
                  const typename W::Element* rows, typename W::Word* to) {
  const std::int64_t words = e.padded_dim / W::kPair;
  for (std::int64_t b = begin; b < end; ++b)
    for (std::int64_t w = 0; w < words; ++w)
      for (std::int64_t t = 0; t < kTile; t += vec::kLanes)
        vec::store_as(to + (b * words + w) * kTile + t,
                      vec::gather(rows + (b * kTile + t) * e.padded_dim + w * W::kPair,
                                  static_cast<int>(words)));
}

// The pairs of `rows`, in `to` where they need bytes of their own.
template <typename W>
const typename W::Word* pack_pairs(const HeadExtents& e, std::int64_t begin, std::int64_t end,
                                   const typename W::Element* rows, typename W::Word* to) {
  if constexpr (W::kPair == 1) {
    return rows;
  } else {
    for (std::int64_t p = begin * kTile / 2; p < end * kTile / 2; ++p)
      for (std::int64_t d = 0; d < e.padded_dim; d += vec::kLanes) {
        const auto* even = rows + 2 * p * e.padded_dim + d;
        vec::store_as(
            to + p * e.padded_dim + d,
            interleave(vec::load_as<vec::U16>(even), vec::load_as<vec::U16>(even + e.padded_dim)));
      }
    return to;
  }
}

template <typename W>
TileA<W> rows_operand(const typename W::Element* rows, std::int64_t columns) {
  return {reinterpret_cast<const typename W::Word*>(rows), columns / W::kPair, 1};
}

// Dropout of probabilities: which of 64 keys from `key` on survive for one query of one head.
struct AttentionMask {
  const Dropout* dropout = nullptr;
  std::uint64_t head_index = 0, tokens = 0;
  vec::F32 factor{};
  vec::U32 threshold{};
  alignas(64) std::uint32_t words[kTile] = {};

  AttentionMask(const Attention& a, std::int64_t sample, std::int64_t head)
      : dropout(a.dropout ? &*a.dropout : nullptr),
        head_index(static_cast<std::uint64_t>((a.first_sample + sample) * a.total_heads +
                                              a.first_head + head)),
        tokens(static_cast<std::uint64_t>(a.tokens)) {
    if (!dropout) return;
    factor = vec::set1(static_cast<float>(dropout->scale));
    threshold = vec::U32{} + dropout->threshold;
  }
  void select(std::int64_t query, std::int64_t key) {
    if (dropout)
      random_words(dropout->key,
                   (head_index * tokens + static_cast<std::uint64_t>(query)) * tokens +
                       static_cast<std::uint64_t>(key),
                   kTile, words);
  }
  // 0 where dropped, the scale where kept.
  vec::F32 weight(std::int64_t i) const {
    return vec::load_as<vec::U32>(words + i) < threshold ? vec::F32{} : factor;
  }
};

// v where key <= query, 0 elsewhere.
inline vec::F32 causal(vec::F32 v, std::int64_t key, std::int64_t query) {
  vec::I32 lane;
  for (int i = 0; i < vec::kLanes; ++i) lane[i] = i;
  return lane <= static_cast<std::int32_t>(query - key) ? v : vec::F32{};
}

// v where key is not before first, 0 elsewhere.
inline vec::F32 not_before(vec::F32 v, std::int64_t key, std::int64_t first) {
  vec::I32 lane;
  for (int i = 0; i < vec::kLanes; ++i) lane[i] = i;
  return lane >= static_cast<std::int32_t>(first - key) ? v : vec::F32{};
}

// What a sliding window and the begin of documents leave of a sample's tiles. Without either
// everything up to the query is seen. A query's first key is never before that of the query before.
class SeenKeys {
 public:
  SeenKeys(const Attention& a, std::int64_t sample)
      : tokens_(a.tokens),
        window_(a.window),
        starts_(a.document_starts ? a.document_starts.as<std::int32_t>() + sample * a.tokens
                                  : nullptr) {}

  std::int64_t first_key(std::int64_t query) const {
    const std::int64_t start = starts_ ? starts_[std::min(query, tokens_ - 1)] : 0;
    return window_ > 0 ? std::max(start, query - window_ + 1) : start;
  }
  // Blocks of keys that a block of queries sees begin here, blocks of queries that see a block of
  // keys end behind this one.
  std::int64_t first_block(std::int64_t queries) const {
    return first_key(queries * kTile) / kTile;
  }
  std::int64_t last_block(std::int64_t keys, std::int64_t blocks) const {
    if (window_ == 0 && !starts_) return blocks - 1;
    std::int64_t last = keys;
    while (last + 1 < blocks && first_block(last + 1) <= keys) ++last;
    return last;
  }
  // The query does not see the whole tile that begins at `key`.
  bool cuts(std::int64_t query, std::int64_t key) const {
    return (window_ > 0 || starts_) && key < first_key(query);
  }

 private:
  std::int64_t tokens_, window_;  // of a sample; 0 = no window
  const std::int32_t* starts_;    // null: one document
};

// Hands out aligned parts of a thread's scratch memory; without memory it only adds up.
class ScratchPlan {
 public:
  explicit ScratchPlan(std::byte* base) : base_(base) {}
  template <typename T>
  T* take(std::int64_t count) {
    const std::int64_t at = used_;
    used_ += (count * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    return base_ ? reinterpret_cast<T*>(base_ + at) : nullptr;
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

}  // namespace trireme
