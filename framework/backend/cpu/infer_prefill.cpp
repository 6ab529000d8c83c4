// Attention of sequences with many rows: blocks of 64 queries meet blocks of 64 positions, as in
// attention.cpp, whose tile products these are. A task is one key/value head of one sequence, or a
// range of its query blocks; it takes keys and values from their pages once for all query heads of
// the group. Legend: see infer_kernels.h; what makes a row the same bits here and in
// infer_decode.cpp: infer_pages.h.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "framework/backend/cpu/attention_pack.h"
#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/infer_pages.h"
#include "framework/backend/cpu/parallel.h"

namespace trireme {

namespace {

using vec::F32;

constexpr std::int64_t kTilesOfSpan = kSpan / kTile;

std::int64_t tiles_for(std::int64_t tokens) { return (tokens + kTile - 1) / kTile; }

template <typename W>
struct Workspace {
  typename W::Element *query, *p;
  typename W::Word *keys, *values;
  float *scores, *span, *out;
  Softmax *span_state, *state;  // of a row
  Workspace(ScratchPlan& plan, std::int64_t padded_dim, std::int64_t tiles)
      : query(plan.take<typename W::Element>(kTile * padded_dim)),
        p(plan.take<typename W::Element>(kTile * kTile)),
        keys(plan.take<typename W::Word>(tiles * kTile * padded_dim / W::kPair)),
        values(plan.take<typename W::Word>(tiles * kTile * padded_dim / W::kPair)),
        scores(plan.take<float>(kTile * kTile)),
        span(plan.take<float>(kTile * padded_dim)),
        out(plan.take<float>(kTile * padded_dim)),
        span_state(plan.take<Softmax>(kTile)),
        state(plan.take<Softmax>(kTile)) {}
};

template <typename W, typename P>
class PrefillTask {
 public:
  PrefillTask(const PagedAttention& a, const PagedSequence& s, const Tensor& qkv,
              const KvPages& pages, const Tensor& out, std::int64_t head, std::byte* scratch,
              std::int64_t tiles)
      : a_(a),
        s_(s),
        qkv_(qkv),
        pages_(pages),
        out_(out),
        head_(head),
        extents_({.tokens = s.rows, .head_dim = a.head_dim}, W::kDimMultiple),
        plan_(scratch),
        work_(plan_, extents_.padded_dim, tiles) {}

  void run(std::int64_t begin, std::int64_t end) {  // query blocks
    [[maybe_unused]] const typename W::Session session;
    first_tile_ = first_tile(begin);
    const std::int64_t seen = s_.first_position + std::min(s_.rows, end * kTile);
    const HeadPages<P> from{a_, s_, pages_, head_};
    for (std::int64_t t = first_tile_; t < tiles_for(seen); ++t) take_tile(from, t, seen);
    const std::int64_t group = a_.heads / a_.kv_heads;
    for (std::int64_t block = begin; block < end; ++block)
      for (std::int64_t h = 0; h < group; ++h) query_block(block, head_ * group + h);
  }

 private:
  std::int64_t first_tile(std::int64_t block) const {
    const std::int64_t first = s_.first_position + block * kTile - a_.window + 1;
    return a_.window == 0 ? 0 : std::max<std::int64_t>(0, first) / kTile;
  }

  typename W::Word* keys_of(std::int64_t tile) const {
    return work_.keys + (tile - first_tile_) * kTile * extents_.padded_dim / W::kPair;
  }
  typename W::Word* values_of(std::int64_t tile) const {
    return work_.values + (tile - first_tile_) * kTile * extents_.padded_dim / W::kPair;
  }

  void take_tile(const HeadPages<P>& from, std::int64_t t, std::int64_t seen) {
    take_keys<W>(from, t * kTile, seen, extents_.padded_dim, keys_of(t));
    take_values<W>(from, t * kTile, seen, extents_.padded_dim, values_of(t));
  }

  void query_block(std::int64_t block, std::int64_t head) {
    const std::int64_t d = extents_.padded_dim;
    const HeadRows query{vec::Reader(qkv_).at(s_.first_row * qkv_.columns() + head * a_.head_dim),
                         qkv_.columns()};
    pack_rows<W>(extents_, query, block, block + 1, work_.query - block * kTile * d);
    const std::int64_t last = s_.first_position + std::min(s_.rows, (block + 1) * kTile) - 1;
    const std::int64_t first = first_tile(block);
    for (std::int64_t tile = first, end; tile <= last / kTile; tile = end) {
      end = std::min(last / kTile, tile / kTilesOfSpan * kTilesOfSpan + kTilesOfSpan - 1) + 1;
      if (tile == first) {  // nothing stands before it
        span(block, tile, end, work_.out, work_.state);
        continue;
      }
      span(block, tile, end, work_.span, work_.span_state);
      for (std::int64_t r = 0; r < kTile; ++r)
        add_span(work_.span + r * d, work_.span_state[r], d, work_.out + r * d, work_.state[r]);
    }
    finish(block, head);
  }

  // Tiles [begin, end) of one span.
  void span(std::int64_t block, std::int64_t begin, std::int64_t end, float* out, Softmax* state) {
    const std::int64_t d = extents_.padded_dim;
    std::fill_n(out, kTile * d, 0.0f);
    std::fill_n(state, kTile, kNothing);
    for (std::int64_t tile = begin; tile < end; ++tile) {
      tile_product<W>(kTile, d / W::kPair, rows_operand<W>(work_.query, d), keys_of(tile), kTile,
                      work_.scores, kTile, false);
      for (std::int64_t r = 0; r < kTile; ++r) weigh(block, tile, r, out + r * d, state[r]);
      tile_product<W>(d, kTile / W::kPair, rows_operand<W>(work_.p, kTile), values_of(tile), d, out,
                      d, true);
    }
  }

  void weigh(std::int64_t block, std::int64_t tile, std::int64_t r, float* out, Softmax& state) {
    const std::int64_t position = s_.first_position + block * kTile + r, key = tile * kTile;
    const std::int64_t first = a_.window > 0 ? position - a_.window + 1 - key : 0;
    const float factor = static_cast<float>(a_.scale) * std::numbers::log2e_v<float>;
    const auto bounded = [](std::int64_t x) {
      return static_cast<int>(std::clamp<std::int64_t>(x, -1, kTile));
    };
    const float kept =
        softmax_block(work_.scores + r * kTile, factor, bounded(first), bounded(position - key),
                      state, [&](int i, F32 p) { W::store(work_.p + r * kTile + i, p); });
    if (kept == 1.0f) return;
    for (std::int64_t c = 0; c < extents_.padded_dim; c += vec::kLanes)
      vec::store(out + c, vec::load(out + c) * kept);
  }

  void finish(std::int64_t block, std::int64_t head) {
    for (std::int64_t r = 0; r < std::min(kTile, s_.rows - block * kTile); ++r) {
      const F32 factor = vec::set1(1.0f / work_.state[r].sum);
      const vec::Writer to = vec::Writer(out_).at(
          (s_.first_row + block * kTile + r) * out_.columns() + head * a_.head_dim);
      vec::each(0, a_.head_dim, [&](std::int64_t c, auto n) {
        to.store(c, vec::load(work_.out + r * extents_.padded_dim + c, n) * factor, n);
      });
    }
  }

  const PagedAttention& a_;
  const PagedSequence& s_;
  const Tensor& qkv_;
  const KvPages& pages_;
  const Tensor& out_;
  std::int64_t head_;
  HeadExtents extents_;
  ScratchPlan plan_;
  Workspace<W> work_;
  std::int64_t first_tile_ = 0;
};

struct Part {
  const PagedSequence* sequence;
  std::int64_t head, begin, end;  // query blocks
};

// Long ones of a sequence first. Several parts a head where there are few heads.
std::vector<Part> parts_of(const PagedAttention& a, int threads) {
  std::vector<Part> parts;
  std::int64_t heads = 0;
  for (const PagedSequence& s : a.sequences)
    if (s.rows > kFewRows) heads += a.kv_heads;
  for (const PagedSequence& s : a.sequences) {
    if (s.rows <= kFewRows) continue;
    const std::int64_t blocks = tiles_for(s.rows);
    const std::int64_t cuts =
        std::clamp<std::int64_t>(threads == 1 ? 1 : 4 * threads / heads, 1, (blocks + 1) / 2);
    for (std::int64_t c = cuts; c-- > 0;)
      for (std::int64_t g = 0; g < a.kv_heads; ++g)
        parts.push_back({&s, g, blocks * c / cuts, blocks * (c + 1) / cuts});
  }
  return parts;
}

template <typename W>
std::int64_t scratch_bytes(const PagedAttention& a, std::int64_t tiles) {
  ScratchPlan plan(nullptr);
  const HeadExtents extents({.tokens = kTile, .head_dim = a.head_dim}, W::kDimMultiple);
  const Workspace<W> sizes(plan, extents.padded_dim, tiles);
  return plan.used();
}

}  // namespace

void CpuInferKernels::prefill(const PagedAttention& a, const Tensor& qkv, const KvPages& pages,
                              const Tensor& out) {
  const std::vector<Part> parts = parts_of(a, threads_);
  if (parts.empty()) return;
  std::int64_t tiles = 0;
  for (const Part& part : parts)
    tiles = std::max(tiles, tiles_for(part.sequence->first_position + part.sequence->rows));
  with_words_and_pages(qkv.dtype(), bf16_, tiles_, [&](auto words, auto page) {
    using W = decltype(words);
    using P = decltype(page);
    const std::int64_t bytes = scratch_bytes<W>(a, tiles);
    const Tensor memory = scratch(threads_ * bytes);
    parallel_tasks(threads_, std::ssize(parts), [&](std::int64_t i, int thread) {
      const Part& part = parts[static_cast<std::size_t>(i)];
      PrefillTask<W, P>(a, *part.sequence, qkv, pages, out, part.head,
                        static_cast<std::byte*>(memory.data()) + thread * bytes, tiles)
          .run(part.begin, part.end);
    });
  });
}

}  // namespace trireme
