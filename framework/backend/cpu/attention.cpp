// Tiled causal attention, forward: blocks of 64 queries against blocks of 64 keys with an online
// softmax in base 2; neither scores nor probabilities of more than one pair of blocks exist.
// (Dao, "FlashAttention-2", arXiv:2307.08691.) Legend: see kernels.h.
#include <cmath>
#include <limits>
#include <numbers>

#include "framework/backend/cpu/attention_pack.h"
#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;

constexpr float kLog2E = std::numbers::log2e_v<float>;
constexpr float kLn2 = std::numbers::ln2_v<float>;

// One thread's scratch.
template <typename W>
struct Workspace {
  typename W::Element *rows, *values, *query, *p;
  typename W::Word *key_columns, *value_pairs;
  float *scores, *out, *most, *sums;

  Workspace(ScratchPlan& plan, const HeadExtents& e)
      : rows(plan.take<typename W::Element>(e.elements())),
        values(plan.take<typename W::Element>(e.elements())),
        query(plan.take<typename W::Element>(kTile * e.padded_dim)),
        p(plan.take<typename W::Element>(kTile * kTile)),
        key_columns(plan.take<typename W::Word>(e.elements() / W::kPair)),
        value_pairs(plan.take<typename W::Word>(W::kPair == 1 ? 0 : e.elements() / W::kPair)),
        scores(plan.take<float>(kTile * kTile)),
        out(plan.take<float>(kTile * e.padded_dim)),
        most(plan.take<float>(kTile)),
        sums(plan.take<float>(kTile * vec::kLanes)) {}
};

// One query head, or a range of its query blocks.
template <typename W>
class ForwardTask {
 public:
  ForwardTask(const Attention& a, const Tensor& qkv, const Tensor& out, const Tensor& lse,
              std::int64_t sample, std::int64_t head, std::byte* scratch)
      : a_(a),
        e_(a, W::kDimMultiple),
        out_(out),
        plan_(scratch),
        work_(plan_, e_),
        mask_(a, sample, head),
        seen_(a, sample) {
    const std::int64_t stride = qkv.columns(), row = sample * a.tokens * stride;
    const std::int64_t group = head / (a.heads / a.kv_heads);
    const auto at = [&](std::int64_t h) {
      return HeadRows{vec::Reader(qkv).at(row + h * a.head_dim), stride};
    };
    query_.emplace(at(head));
    key_.emplace(at(a.heads + group));
    value_.emplace(at(a.heads + a.kv_heads + group));
    out_at_ = sample * a.tokens * out.columns() + head * a.head_dim;
    lse_ = static_cast<float*>(lse.data()) + (sample * a.heads + head) * a.tokens;
  }

  void run(std::int64_t begin, std::int64_t end) {  // query blocks
    [[maybe_unused]] const typename W::Session session;
    const std::int64_t first = seen_.first_block(begin);
    pack_rows<W>(e_, *key_, first, end, work_.rows);
    pack_columns<W>(e_, first, end, work_.rows, work_.key_columns);
    pack_rows<W>(e_, *value_, first, end, work_.values);
    value_pairs_ = pack_pairs<W>(e_, first, end, work_.values, work_.value_pairs);
    for (std::int64_t block = begin; block < end; ++block) query_block(block);
  }

 private:
  void query_block(std::int64_t block) {
    const std::int64_t d = e_.padded_dim;
    // The one block, at position `block`, of a matrix that starts before the scratch.
    pack_rows<W>(e_, *query_, block, block + 1, work_.query - block * kTile * d);
    std::fill_n(work_.out, kTile * d, 0.0f);
    std::fill_n(work_.most, kTile, -std::numeric_limits<float>::infinity());
    std::fill_n(work_.sums, kTile * vec::kLanes, 0.0f);
    for (std::int64_t keys = seen_.first_block(block); keys <= block; ++keys) {
      tile_product<W>(kTile, d / W::kPair, rows_operand<W>(work_.query, d),
                      work_.key_columns + keys * kTile * d / W::kPair, kTile, work_.scores, kTile,
                      false);
      for (std::int64_t r = 0; r < kTile; ++r) softmax_row(block * kTile + r, keys * kTile, r);
      tile_product<W>(d, kTile / W::kPair, rows_operand<W>(work_.p, kTile),
                      value_pairs_ + keys * kTile * d / W::kPair, d, work_.out, d, true);
    }
    finish(block);
  }

  // Scores of row r become unnormalised probabilities relative to the largest score so far.
  void softmax_row(std::int64_t query, std::int64_t key, std::int64_t r) {
    constexpr int kParts = kTile / vec::kLanes;
    const float* score = work_.scores + r * kTile;
    const F32 factor = vec::set1(static_cast<float>(a_.scale) * kLog2E);
    const bool diagonal = key + kTile > query, cut = seen_.cuts(query, key);
    F32 s[kParts], most = vec::set1(work_.most[r]);
    for (int i = 0; i < kParts; ++i) {
      s[i] = vec::load(score + i * vec::kLanes) * factor;
      F32 seen = diagonal ? below(s[i], key + i * vec::kLanes, query) : s[i];
      if (cut) seen = inside(seen, key + i * vec::kLanes, seen_.first_key(query));
      most = vec::max(seen, most);
    }
    const float before = work_.most[r], after = vec::largest(most);
    if (after != before) rescale(r, before, after);
    mask_.select(query, key);
    F32 sum = vec::load(work_.sums + r * vec::kLanes);
    for (int i = 0; i < kParts; ++i) {
      F32 p = vec::exp2(s[i] - after);
      if (diagonal) p = causal(p, key + i * vec::kLanes, query);
      if (cut) p = not_before(p, key + i * vec::kLanes, seen_.first_key(query));
      sum += p;
      if (mask_.dropout) p *= mask_.weight(i * vec::kLanes);
      W::store(work_.p + r * kTile + i * vec::kLanes, p);
    }
    vec::store(work_.sums + r * vec::kLanes, sum);
  }

  static F32 below(F32 s, std::int64_t key, std::int64_t query) {
    const F32 one = causal(F32{} + 1.0f, key, query);
    return one == 1.0f ? s : vec::set1(-std::numeric_limits<float>::infinity());
  }

  static F32 inside(F32 s, std::int64_t key, std::int64_t first) {
    const F32 one = not_before(F32{} + 1.0f, key, first);
    return one == 1.0f ? s : vec::set1(-std::numeric_limits<float>::infinity());
  }

  void rescale(std::int64_t r, float before, float after) {
    work_.most[r] = after;
    const F32 factor = vec::exp2(vec::set1(before - after));
    float* sums = work_.sums + r * vec::kLanes;
    vec::store(sums, vec::load(sums) * factor);
    float* out = work_.out + r * e_.padded_dim;
    for (std::int64_t d = 0; d < e_.padded_dim; d += vec::kLanes)
      vec::store(out + d, vec::load(out + d) * factor);
  }

  void finish(std::int64_t block) {
    const std::int64_t rows = std::min(kTile, a_.tokens - block * kTile);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t query = block * kTile + r;
      const float sum = vec::sum(vec::load(work_.sums + r * vec::kLanes));
      const F32 factor = vec::set1(1.0f / sum);
      const vec::Writer to = vec::Writer(out_).at(out_at_ + query * out_.columns());
      vec::each(0, a_.head_dim, [&](std::int64_t d, auto n) {
        to.store(d, vec::load(work_.out + r * e_.padded_dim + d, n) * factor, n);
      });
      lse_[query] = std::log(sum) + work_.most[r] * kLn2;
    }
  }

  const Attention& a_;
  const HeadExtents e_;
  const Tensor& out_;
  ScratchPlan plan_;
  Workspace<W> work_;
  AttentionMask mask_;
  SeenKeys seen_;
  std::optional<HeadRows> query_, key_, value_;
  std::int64_t out_at_ = 0;
  float* lse_ = nullptr;
  const typename W::Word* value_pairs_ = nullptr;
};

template <typename W>
std::int64_t scratch_bytes(const Attention& a) {
  ScratchPlan plan(nullptr);
  const Workspace<W> sizes(plan, HeadExtents(a, W::kDimMultiple));
  return plan.used();
}

// With few heads and many threads a head's queries are cut into this many parts.
std::int64_t parts_per_head(const Attention& a, int threads) {
  const std::int64_t heads = a.batch * a.heads, blocks = (a.tokens + kTile - 1) / kTile;
  if (threads == 1 || heads >= 2 * threads) return 1;
  return std::clamp<std::int64_t>(2 * threads / heads, 1, (blocks + 1) / 2);
}

template <typename W>
void forward(const Attention& a, const Tensor& qkv, const Tensor& out, const Tensor& lse,
             int threads, const Tensor& scratch, std::int64_t bytes) {
  const std::int64_t blocks = (a.tokens + kTile - 1) / kTile, parts = parts_per_head(a, threads);
  parallel_tasks(threads, a.batch * a.heads * parts, [&](std::int64_t task, int thread) {
    const std::int64_t head = task / parts, part = parts - 1 - task % parts;  // long ones first
    // Work grows with the square of the position, without a window: cut so that parts cost the
    // same.
    const auto cut = [&](std::int64_t i) {
      const double even = static_cast<double>(i) / static_cast<double>(parts);
      const double share = a.window > 0 ? even : std::sqrt(even);
      return static_cast<std::int64_t>(std::llround(static_cast<double>(blocks) * share));
    };
    ForwardTask<W>(a, qkv, out, lse, head / a.heads, head % a.heads,
                   static_cast<std::byte*>(scratch.data()) + thread * bytes)
        .run(cut(part), cut(part + 1));
  });
}

}  // namespace

void CpuKernels::attention(const Attention& a, const Tensor& qkv, const Tensor& out,
                           const Tensor& lse) {
  kernel_checks::attention(a, qkv, out, lse);
  refuse_f64("attention", qkv, out, lse);
  if (a.batch * a.tokens == 0) return;
  with_words(multiplied_as(qkv.dtype()), matrix_tiles_, [&](auto words) {
    using W = decltype(words);
    const std::int64_t bytes = scratch_bytes<W>(a);
    const Tensor scratch = owner_.allocate({threads_, bytes}, DType::kU8, MemoryKind::kWorkspace);
    forward<W>(a, qkv, out, lse, threads_, scratch, bytes);
  });
}

}  // namespace trireme
