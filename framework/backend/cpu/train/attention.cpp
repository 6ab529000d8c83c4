// Tiled causal attention, backward: probabilities are computed again from the saved log-sum-exp,
// key blocks outside, query blocks inside. A task is a key/value head: it adds the gradients of the
// query heads that share it in their order. Legend: see kernels.h.
//
// P = exp(scale * Q K^T - lse); dV = (P o M)^T dO; dP = (dO V^T) o M; dS = scale * P o (dP - delta)
// with delta = rowsum(O o dO); dK = dS^T Q; dQ = dS K. M is the dropout mask with its scale.
#include <numbers>

#include "framework/backend/cpu/attention_pack.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/train/cpu_train_kernels.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;

// One thread's scratch.
template <typename W>
struct Workspace {
  using Element = typename W::Element;
  using Word = typename W::Word;
  Element *keys, *values, *queries, *douts, *ds_rows;
  Word *key_columns, *value_columns, *key_pairs, *query_pairs, *dout_pairs, *p_pairs, *ds_pairs;
  Word *query_turned, *dout_turned;  // for matrix tiles
  float *scores, *dp, *dq, *dk, *dv, *lse, *delta;

  Workspace(ScratchPlan& plan, const HeadExtents& e) {
    const std::int64_t words = e.elements() / W::kPair, pairs = W::kPair == 1 ? 0 : words;
    for (Element** m : {&keys, &values, &queries, &douts}) *m = plan.take<Element>(e.elements());
    for (Word** m : {&key_columns, &value_columns}) *m = plan.take<Word>(words);
    for (Word** m : {&key_pairs, &query_pairs, &dout_pairs}) *m = plan.take<Word>(pairs);
    for (Word** m : {&query_turned, &dout_turned})
      *m = plan.take<Word>(W::kMatrixTiles ? words : 0);
    for (Word** m : {&p_pairs, &ds_pairs}) *m = plan.take<Word>(kTile * kTile / W::kPair);
    ds_rows = plan.take<Element>(W::kPair == 1 ? 0 : kTile * kTile);
    for (float** m : {&scores, &dp}) *m = plan.take<float>(kTile * kTile);
    for (float** m : {&dq, &dk, &dv}) *m = plan.take<float>(e.elements());
    for (float** m : {&lse, &delta}) *m = plan.take<float>(e.blocks * kTile);
  }
};

struct Operands {
  const Tensor &qkv, &out, &lse, &dout, &dqkv;
};

// One head's padded gradient to its place in dqkv.
void write_head(const Attention& a, const HeadExtents& e, const Operands& o, std::int64_t sample,
                std::int64_t head, const float* from) {
  const std::int64_t stride = o.dqkv.columns();
  const auto to = vec::Writer(o.dqkv).at(sample * a.tokens * stride + head * a.head_dim);
  for (std::int64_t t = 0; t < a.tokens; ++t)
    vec::each(0, a.head_dim, [&](std::int64_t d, auto n) {
      to.store(t * stride + d, vec::load(from + t * e.padded_dim + d, n), n);
    });
}

template <typename W>
class BackwardTask {
 public:
  BackwardTask(const Attention& a, const Operands& o, std::int64_t sample, std::int64_t kv_head,
               std::byte* scratch)
      : a_(a),
        e_(a, W::kDimMultiple),
        o_(o),
        sample_(sample),
        kv_head_(kv_head),
        seen_(a, sample),
        plan_(scratch),
        work_(plan_, e_) {}

  // The whole key/value head.
  void run() {
    const std::int64_t group = a_.heads / a_.kv_heads;
    gradients(kv_head_ * group, (kv_head_ + 1) * group);
    write(work_.dk, a_.heads + kv_head_);
    write(work_.dv, a_.heads + a_.kv_heads + kv_head_);
  }

  // One of its query heads; dK and dV from this one alone go to `partial`.
  void run_part(std::int64_t head, float* partial) {
    gradients(head, head + 1);
    std::copy_n(work_.dk, e_.elements(), partial);
    std::copy_n(work_.dv, e_.elements(), partial + e_.elements());
  }

 private:
  void gradients(std::int64_t first_head, std::int64_t last_head) {
    [[maybe_unused]] const typename W::Session session;
    const std::int64_t key = a_.heads + kv_head_, value = key + a_.kv_heads;
    pack_rows<W>(e_, head_of(o_.qkv, key), 0, e_.blocks, work_.keys);
    pack_columns<W>(e_, 0, e_.blocks, work_.keys, work_.key_columns);
    key_pairs_ = pack_pairs<W>(e_, 0, e_.blocks, work_.keys, work_.key_pairs);
    pack_rows<W>(e_, head_of(o_.qkv, value), 0, e_.blocks, work_.values);
    pack_columns<W>(e_, 0, e_.blocks, work_.values, work_.value_columns);
    std::fill_n(work_.dk, e_.elements(), 0.0f);
    std::fill_n(work_.dv, e_.elements(), 0.0f);
    for (std::int64_t h = first_head; h < last_head; ++h) query_head(h);
    if constexpr (W::kMatrixTiles) {
      turn(work_.dk);
      turn(work_.dv);
    }
  }

  HeadRows head_of(const Tensor& x, std::int64_t head) const {
    return {vec::Reader(x).at(sample_ * a_.tokens * x.columns() + head * a_.head_dim), x.columns()};
  }

  void query_head(std::int64_t head) {
    pack_rows<W>(e_, head_of(o_.qkv, head), 0, e_.blocks, work_.queries);
    query_pairs_ = pack_pairs<W>(e_, 0, e_.blocks, work_.queries, work_.query_pairs);
    pack_rows<W>(e_, head_of(o_.dout, head), 0, e_.blocks, work_.douts);
    dout_pairs_ = pack_pairs<W>(e_, 0, e_.blocks, work_.douts, work_.dout_pairs);
    if constexpr (W::kMatrixTiles) {
      pack_turned_pairs(query_pairs_, work_.query_turned);
      pack_turned_pairs(dout_pairs_, work_.dout_turned);
    }
    std::fill_n(work_.dq, e_.elements(), 0.0f);
    row_statistics(head);
    AttentionMask mask(a_, sample_, head);
    for (std::int64_t keys = 0; keys < e_.blocks; ++keys)
      for (std::int64_t queries = keys; queries <= seen_.last_block(keys, e_.blocks); ++queries)
        block(queries, keys, mask);
    write(work_.dq, head);
  }

  // lse in base 2, and delta; 0 for padding.
  void row_statistics(std::int64_t head) {
    const HeadRows out = head_of(o_.out, head), dout = head_of(o_.dout, head);
    const auto* lse =
        static_cast<const float*>(o_.lse.data()) + (sample_ * a_.heads + head) * a_.tokens;
    std::fill_n(work_.lse, e_.blocks * kTile, 0.0f);
    std::fill_n(work_.delta, e_.blocks * kTile, 0.0f);
    for (std::int64_t t = 0; t < a_.tokens; ++t) {
      work_.lse[t] = lse[t] * std::numbers::log2e_v<float>;
      F32 total{};
      vec::each(0, a_.head_dim, [&](std::int64_t d, auto n) {
        total = vec::fma(out.first.load(t * out.stride + d, n),
                         dout.first.load(t * dout.stride + d, n), total);
      });
      work_.delta[t] = vec::sum(total);
    }
  }

  void block(std::int64_t queries, std::int64_t keys, AttentionMask& mask) {
    const std::int64_t d = e_.padded_dim, q_at = queries * kTile * d, k_at = keys * kTile * d;
    constexpr std::int64_t kWords = kTile / W::kPair;
    tile_product<W>(kTile, d / W::kPair, rows_operand<W>(work_.queries + q_at, d),
                    work_.key_columns + k_at / W::kPair, kTile, work_.scores, kTile, false);
    tile_product<W>(kTile, d / W::kPair, rows_operand<W>(work_.douts + q_at, d),
                    work_.value_columns + k_at / W::kPair, kTile, work_.dp, kTile, false);
    for (std::int64_t r = 0; r < kTile; r += W::kPair) score_rows(queries, keys, r, mask);
    add_key_gradients(q_at / W::kPair, k_at);
    const auto* ds = W::kPair == 1 ? reinterpret_cast<const typename W::Element*>(work_.ds_pairs)
                                   : work_.ds_rows;
    tile_product<W>(d, kWords, rows_operand<W>(ds, kTile), key_pairs_ + k_at / W::kPair, d,
                    work_.dq + q_at, d, true);
  }

  // dV += P^T dO and dK += dS^T Q of a block: words along the queries. Vectors read A transposed;
  // matrix tiles cannot, so they form the transposes dV^T += dO^T P, (D, 64) each.
  void add_key_gradients(std::int64_t q_at, std::int64_t k_at) {
    const std::int64_t d = e_.padded_dim;
    constexpr std::int64_t kWords = kTile / W::kPair;
    if constexpr (W::kMatrixTiles) {
      matrix_tile_product(d, kTile, kWords, {work_.dout_turned + q_at, kWords},
                          {work_.p_pairs, kTile}, work_.dv + k_at, kTile, true);
      matrix_tile_product(d, kTile, kWords, {work_.query_turned + q_at, kWords},
                          {work_.ds_pairs, kTile}, work_.dk + k_at, kTile, true);
    } else {
      tile_product<W>(d, kWords, TileA<W>{work_.p_pairs, 1, kTile}, dout_pairs_ + q_at, d,
                      work_.dv + k_at, d, true);
      tile_product<W>(d, kWords, TileA<W>{work_.ds_pairs, 1, kTile}, query_pairs_ + q_at, d,
                      work_.dk + k_at, d, true);
    }
  }

  // Per block: (32 pairs of tokens, D) to (D, 32 pairs).
  void pack_turned_pairs(const typename W::Word* pairs, typename W::Word* to) {
    const std::int64_t d = e_.padded_dim;
    constexpr std::int64_t kWords = kTile / W::kPair;
    for (std::int64_t b = 0; b < e_.blocks; ++b, pairs += kWords * d, to += kWords * d)
      for (std::int64_t row = 0; row < d; ++row)
        for (std::int64_t w = 0; w < kWords; w += vec::kLanes)
          vec::store_as(to + row * kWords + w,
                        vec::gather(pairs + w * d + row, static_cast<int>(d)));
  }

  // Per block, in place: (D, 64 tokens) to (64 tokens, D).
  void turn(float* blocks) {
    const std::int64_t d = e_.padded_dim, size = kTile * d;
    float* spare = work_.dq;
    for (float* block = blocks; block < blocks + e_.elements(); block += size) {
      for (std::int64_t t = 0; t < kTile; ++t)
        for (std::int64_t c = 0; c < d; c += vec::kLanes)
          vec::store_as(spare + t * d + c, vec::gather(block + c * kTile + t, kTile));
      std::copy_n(spare, size, block);
    }
  }

  // P o M and dS of rows r .. r + pair - 1 of a block, as words.
  void score_rows(std::int64_t queries, std::int64_t keys, std::int64_t r, AttentionMask& mask) {
    constexpr int kParts = kTile / vec::kLanes;
    F32 p[W::kPair][kParts], ds[W::kPair][kParts];
    const F32 factor = vec::set1(static_cast<float>(a_.scale) * std::numbers::log2e_v<float>);
    const F32 scale = vec::set1(static_cast<float>(a_.scale));
    for (int j = 0; j < W::kPair; ++j) {
      const std::int64_t query = queries * kTile + r + j, row = (r + j) * kTile;
      const bool cut = seen_.cuts(query, keys * kTile);
      const F32 lse = vec::set1(work_.lse[query]), delta = vec::set1(work_.delta[query]);
      mask.select(query, keys * kTile);
      for (int i = 0; i < kParts; ++i) {
        const std::int64_t at = row + i * vec::kLanes;
        F32 v = vec::exp2(vec::load(work_.scores + at) * factor - lse);
        if (queries == keys) v = causal(v, i * vec::kLanes, r + j);
        if (cut) v = not_before(v, keys * kTile + i * vec::kLanes, seen_.first_key(query));
        F32 dp = vec::load(work_.dp + at);
        p[j][i] = v;
        if (mask.dropout) {
          const F32 weight = mask.weight(i * vec::kLanes);
          p[j][i] *= weight;
          dp *= weight;
        }
        ds[j][i] = v * (dp - delta) * scale;
      }
    }
    for (int i = 0; i < kParts; ++i) store_words(r, i * vec::kLanes, &p[0][i], &ds[0][i], kParts);
  }

  // p[j * parts], ds[j * parts]: row r + j.
  void store_words(std::int64_t r, std::int64_t column, const F32* p, const F32* ds, int parts) {
    const std::int64_t at = r / W::kPair * kTile + column;
    if constexpr (W::kPair == 1) {
      vec::store(work_.p_pairs + at, *p);
      vec::store(work_.ds_pairs + at, *ds);
    } else {
      vec::store_as(work_.p_pairs + at, interleave(W::narrow(p[0]), W::narrow(p[parts])));
      const vec::U16 even = W::narrow(ds[0]), odd = W::narrow(ds[parts]);
      vec::store_as(work_.ds_pairs + at, interleave(even, odd));
      vec::store_as(work_.ds_rows + r * kTile + column, even);
      vec::store_as(work_.ds_rows + (r + 1) * kTile + column, odd);
    }
  }

  void write(const float* from, std::int64_t head) { write_head(a_, e_, o_, sample_, head, from); }

  const Attention& a_;
  const HeadExtents e_;
  const Operands& o_;
  std::int64_t sample_, kv_head_;
  SeenKeys seen_;
  ScratchPlan plan_;
  Workspace<W> work_;
  const typename W::Word *key_pairs_ = nullptr, *query_pairs_ = nullptr, *dout_pairs_ = nullptr;
};

template <typename W>
std::int64_t scratch_bytes(const Attention& a) {
  ScratchPlan plan(nullptr);
  const Workspace<W> sizes(plan, HeadExtents(a, W::kDimMultiple));
  return plan.used();
}

struct Scratch {
  std::byte* data;
  std::int64_t bytes;  // per thread
};

template <typename W>
void backward(const Attention& a, const Operands& o, int threads, Scratch scratch) {
  parallel_tasks(threads, a.batch * a.kv_heads, [&](std::int64_t task, int thread) {
    BackwardTask<W>(a, o, task / a.kv_heads, task % a.kv_heads,
                    scratch.data + thread * scratch.bytes)
        .run();
  });
}

// Fewer key/value heads than threads: query heads are the tasks, and their shares of dK and dV,
// kept in `partials`, are added in their order.
template <typename W>
void backward_by_query_head(const Attention& a, const Operands& o, int threads, Scratch scratch,
                            float* partials) {
  const HeadExtents e(a, W::kDimMultiple);
  const std::int64_t group = a.heads / a.kv_heads, size = e.elements();
  parallel_tasks(threads, a.batch * a.heads, [&](std::int64_t task, int thread) {
    const std::int64_t head = task % a.heads;
    BackwardTask<W>(a, o, task / a.heads, head / group, scratch.data + thread * scratch.bytes)
        .run_part(head, partials + task * 2 * size);
  });
  parallel_tasks(threads, a.batch * a.kv_heads * 2, [&](std::int64_t task, int) {
    const std::int64_t kv = task / 2, is_value = task % 2;  // kv: sample and head
    float* total = partials + kv * group * 2 * size + is_value * size;
    for (std::int64_t part = 1; part < group; ++part)
      vec::each(0, size, [&](std::int64_t i, auto n) {
        vec::store(total + i, vec::load(total + i, n) + vec::load(total + part * 2 * size + i, n),
                   n);
      });
    write_head(a, e, o, kv / a.kv_heads, a.heads + is_value * a.kv_heads + kv % a.kv_heads, total);
  });
}

}  // namespace

void CpuTrainKernels::attention_backward(const Attention& a, const Tensor& qkv, const Tensor& out,
                                         const Tensor& lse, const Tensor& dout,
                                         const Tensor& dqkv) {
  kernel_checks::attention_backward(a, qkv, out, lse, dout, dqkv);
  refuse_f64("attention_backward", qkv, out, dout);
  if (a.batch * a.tokens == 0) return;
  const Operands operands{qkv, out, lse, dout, dqkv};
  with_words(forward_.multiplied_as(qkv.dtype()), forward_.matrix_tiles(), [&](auto words) {
    using W = decltype(words);
    const std::int64_t bytes = scratch_bytes<W>(a);
    const Tensor scratch = owner_.allocate({threads_, bytes}, DType::kU8, MemoryKind::kWorkspace);
    const Scratch parts{static_cast<std::byte*>(scratch.data()), bytes};
    if (a.heads == a.kv_heads || a.batch * a.kv_heads >= threads_)
      return backward<W>(a, operands, threads_, parts);
    const Tensor partials =
        floats(a.batch * a.heads * 2 * HeadExtents(a, W::kDimMultiple).elements());
    backward_by_query_head<W>(a, operands, threads_, parts, partials.as<float>());
  });
}

}  // namespace trireme
