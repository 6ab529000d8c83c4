// Attention of sequences with few rows: a task is one row, one key/value head and one span of
// positions. The query heads of a key/value head take each block of keys from the cache while it is
// near. Legend: see infer_kernels.h; what makes a row the same bits here and in infer_prefill.cpp:
// infer_pages.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "framework/backend/cpu/attention_pack.h"
#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/infer_pages.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

using vec::F32;

struct Task {
  const PagedSequence* sequence;
  std::int64_t row, head, begin, end;  // positions [begin, end), begin a multiple of kSpan
  std::int64_t part;                   // where its partial results of all query heads begin
};

template <typename W>
std::int64_t padded(std::int64_t head_dim) {
  return (head_dim + W::kDimMultiple - 1) / W::kDimMultiple * W::kDimMultiple;
}

// Of one query head and span: sums (padded D), then their Softmax.
std::int64_t part_size(std::int64_t dim) { return dim + 16; }
Softmax& state_of(float* part, std::int64_t dim) { return *reinterpret_cast<Softmax*>(part + dim); }

// Query heads of a task at a time: the rows of a matrix tile.
constexpr std::int64_t kHeads = 16;

template <typename W>
struct Workspace {
  typename W::Element *query, *weights;  // (kHeads, padded D), (kHeads, kTile)
  typename W::Word *keys, *values;       // a block, for matrix tiles
  float *scores, *out;                   // (kHeads, kTile), (kHeads, padded D)
  Workspace(ScratchPlan& plan, std::int64_t dim)
      : query(plan.take<typename W::Element>(kHeads * dim)),
        weights(plan.take<typename W::Element>(kHeads * kTile)),
        keys(plan.take<typename W::Word>(W::kMatrixTiles ? kTile * dim / W::kPair : 0)),
        values(plan.take<typename W::Word>(W::kMatrixTiles ? kTile * dim / W::kPair : 0)),
        scores(plan.take<float>(kHeads * kTile)),
        out(plan.take<float>(kHeads * dim)) {}
};

// sum + a's elements by a vector of a page's words.
template <typename W, typename P>
F32 add_words(const typename W::Element* a, F32 words, F32 sum) {
  if constexpr (W::kPair == P::kPair) {
    return W::multiply_add(W::broadcast(reinterpret_cast<const typename W::Word*>(a)), words, sum);
  } else {
    const vec::U32 pairs = vec::bits(words), high = vec::U32{} + 0xffff0000u;
    sum = vec::fma(vec::set1(a[0]), vec::from_bits(pairs << 16), sum);
    return vec::fma(vec::set1(a[1]), vec::from_bits(pairs & high), sum);
  }
}

template <typename W, typename P>
class SpanTask {
 public:
  SpanTask(const PagedAttention& a, const KvPages& pages, const Tensor& qkv, const Task& t,
           std::byte* scratch)
      : a_(a),
        t_(t),
        from_{a, *t.sequence, pages, t.head},
        dim_(padded<W>(a.head_dim)),
        plan_(scratch),
        work_(plan_, dim_) {
    const auto row = t.sequence->first_row + t.row;
    query_ = vec::Reader(qkv).at(row * qkv.columns() + t.head * group() * a.head_dim);
    const std::int64_t position = t.sequence->first_position + t.row;
    first_ = a.window > 0 ? position - a.window + 1 : 0;
  }

  void run(float* parts) {
    for (std::int64_t h = 0; h < group(); h += kHeads)
      heads(h, std::min(kHeads, group() - h), parts + h * part_size(dim_));
  }

 private:
  std::int64_t group() const { return a_.heads / a_.kv_heads; }

  // `count` query heads of the group.
  void heads(std::int64_t first, std::int64_t count, float* parts) {
    [[maybe_unused]] const typename W::Session session(static_cast<int>(count));
    pack_queries(first, count);
    std::fill_n(work_.out, count * dim_, 0.0f);
    std::fill_n(states_, kHeads, kNothing);
    for (std::int64_t at = t_.begin; at < t_.end; at += kTile)
      if (at + kTile > first_) block(at, count);
    for (std::int64_t h = 0; h < count; ++h, parts += part_size(dim_)) {
      std::copy_n(work_.out + h * dim_, dim_, parts);
      state_of(parts, dim_) = states_[h];
    }
  }

  void pack_queries(std::int64_t first, std::int64_t count) {
    if (a_.head_dim < dim_) std::fill_n(work_.query, count * dim_, typename W::Element(0));
    for (std::int64_t h = 0; h < count; ++h) {
      const vec::Reader head = query_.at((first + h) * a_.head_dim);
      vec::each(0, a_.head_dim, [&](std::int64_t i, auto n) {
        auto* to = work_.query + h * dim_ + i;
        if constexpr (W::kPair == 1)
          vec::store(to, head.load(i, n), n);
        else  // already bf16
          vec::store(to, vec::load(reinterpret_cast<const std::uint16_t*>(head.data) + i, n), n);
      });
    }
  }

  // Positions [at, at + kTile), or what is left of the span.
  void block(std::int64_t at, std::int64_t heads) {
    const std::int64_t count = std::min(kTile, t_.end - at);
    if constexpr (W::kMatrixTiles) {
      score_by_tiles(at, count);
    } else {
      score(at, count, heads);
    }
    const float factor = static_cast<float>(a_.scale) * std::numbers::log2e_v<float>;
    const int first = static_cast<int>(std::max<std::int64_t>(0, first_ - at));
    for (std::int64_t h = 0; h < heads; ++h) {
      auto* weights = work_.weights + h * kTile;
      const float kept =
          softmax_block(work_.scores + h * kTile, factor, first, static_cast<int>(count) - 1,
                        states_[h], [&](int i, F32 p) { W::store(weights + i, p); });
      if (kept != 1.0f)
        for (std::int64_t c = 0; c < dim_; c += vec::kLanes) {
          float* out = work_.out + h * dim_ + c;
          vec::store(out, vec::load(out) * kept);
        }
      if constexpr (!W::kMatrixTiles) add_values(at, count, weights, work_.out + h * dim_);
    }
    if constexpr (W::kMatrixTiles) {
      take_values<W>(from_, at, t_.end, dim_, work_.values);
      matrix_tile_rows(dim_, kTile / W::kPair, words(work_.weights, kTile), {work_.values, dim_},
                       work_.out, dim_, true);
    }
  }

  // Two pages at a time where they lie, as long as rows of words need no padding.
  void score_by_tiles(std::int64_t at, std::int64_t count) {
    if (a_.head_dim == dim_) {
      const WordMatrix query = words(work_.query, dim_);
      for (std::int64_t p = 0; p < count; p += 2 * kPageTokens) {
        const std::int64_t second =
            std::min(p + kPageTokens, (count - 1) / kPageTokens * kPageTokens);
        matrix_tile_pages(dim_ / 2, query, from_.keys(at + p), from_.keys(at + second),
                          work_.scores + p, kTile);
      }
      return;
    }
    take_keys<W>(from_, at, t_.end, dim_, work_.keys);
    matrix_tile_rows(kTile, dim_ / 2, words(work_.query, dim_), {work_.keys, kTile}, work_.scores,
                     kTile, false);
  }

  static WordMatrix words(const std::uint16_t* rows, std::int64_t columns) {
    return {reinterpret_cast<const std::uint32_t*>(rows), columns / 2};
  }

  // A chain of sums for each vector of positions, all of a block at a time.
  void score(std::int64_t at, std::int64_t count, std::int64_t heads) {
    constexpr int kParts = kPageTokens / vec::kLanes, kAtOnce = kPagesOfTile * kParts;
    const typename P::Word* keys[kAtOnce];
    for (int v = 0; v < kAtOnce; ++v) {  // what is not seen is read from a page that is
      const std::int64_t page = std::min<std::int64_t>(v / kParts, (count - 1) / kPageTokens);
      keys[v] = from_.keys(at + page * kPageTokens) + v % kParts * vec::kLanes;
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto* query = work_.query + h * dim_;
      F32 sum[kAtOnce] = {};
      for (std::int64_t w = 0; w < a_.head_dim / P::kPair; ++w)
#pragma GCC unroll 16
        for (int v = 0; v < kAtOnce; ++v)
          sum[v] = add_words<W, P>(query + w * P::kPair,
                                   vec::load_as<F32>(keys[v] + w * kPageTokens), sum[v]);
#pragma GCC unroll 16
      for (int v = 0; v < kAtOnce; ++v)
        vec::store(work_.scores + h * kTile + v * vec::kLanes, sum[v]);
    }
  }

  static constexpr int kVectors = 4;
  static constexpr std::int64_t kWide = kVectors * vec::kLanes;

  // out (D) += the values of a block by their weights.
  void add_values(std::int64_t at, std::int64_t count, const typename W::Element* weights,
                  float* out) {
    std::int64_t d = 0;
    for (; d + kWide <= a_.head_dim; d += kWide)
      value_vectors<kVectors>(at, count, d, weights, out);
    for (; d + vec::kLanes <= a_.head_dim; d += vec::kLanes)
      value_vectors<1>(at, count, d, weights, out);
    if (d == a_.head_dim) return;
    const auto n = static_cast<int>(a_.head_dim - d);
    F32 sum = vec::load(out + d, n);
    each_value_row(at, count, [&](const typename P::Word* row, std::int64_t w) {
      sum = add_words<W, P>(weights + w * P::kPair,
                            vec::load(reinterpret_cast<const float*>(row) + d, n), sum);
    });
    vec::store(out + d, sum, n);
  }

  template <int V>
  void value_vectors(std::int64_t at, std::int64_t count, std::int64_t d,
                     const typename W::Element* weights, float* out) {
    F32 sum[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[v] = vec::load(out + d + v * vec::kLanes);
    each_value_row(at, count, [&](const typename P::Word* row, std::int64_t w) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v)
        sum[v] = add_words<W, P>(weights + w * P::kPair,
                                 vec::load_as<F32>(row + d + v * vec::kLanes), sum[v]);
    });
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) vec::store(out + d + v * vec::kLanes, sum[v]);
  }

  // f(row of D words, its number in the block)
  template <typename F>
  void each_value_row(std::int64_t at, std::int64_t count, F f) {
    for (std::int64_t p = 0; p < count; p += kPageTokens) {
      const auto* rows = from_.values(at + p);
      const std::int64_t here = (std::min(kPageTokens, count - p) + P::kPair - 1) / P::kPair;
      for (std::int64_t w = 0; w < here; ++w) f(rows + w * a_.head_dim, p / P::kPair + w);
    }
  }

  const PagedAttention& a_;
  const Task& t_;
  HeadPages<P> from_;
  std::int64_t dim_, first_ = 0;
  ScratchPlan plan_;
  Workspace<W> work_;
  Softmax states_[kHeads];
  vec::Reader query_{nullptr, DType::kF32};
};

// Tasks of all rows of sequences that decode(); neighbouring spans of a row and head lie side by
// side in `part`, ordered as (span, query head of the group).
std::vector<Task> tasks_of(const PagedAttention& a, std::int64_t dim) {
  std::vector<Task> tasks;
  const std::int64_t size = part_size(dim) * (a.heads / a.kv_heads);
  for (const PagedSequence& s : a.sequences) {
    if (s.rows > kFewRows) continue;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const std::int64_t end = s.first_position + r + 1;
      const std::int64_t first =
          a.window > 0 ? std::max<std::int64_t>(0, end - a.window) / kSpan * kSpan : 0;
      for (std::int64_t g = 0; g < a.kv_heads; ++g)
        for (std::int64_t at = first; at < end; at += kSpan)
          tasks.push_back({&s, r, g, at, std::min(end, at + kSpan), std::ssize(tasks) * size});
    }
  }
  return tasks;
}

// Adds up the spans of one row and head, in order: tasks [begin, end).
void combine(const PagedAttention& a, std::int64_t dim, const std::vector<Task>& tasks,
             std::size_t begin, std::size_t end, float* parts, const Tensor& out) {
  const Task& t = tasks[begin];
  const std::int64_t group = a.heads / a.kv_heads, size = part_size(dim);
  const std::int64_t row = t.sequence->first_row + t.row;
  for (std::int64_t h = 0; h < group; ++h) {
    float* all = parts + t.part + h * size;
    for (std::size_t i = begin + 1; i < end; ++i) {
      float* part = parts + tasks[i].part + h * size;
      add_span(part, state_of(part, dim), dim, all, state_of(all, dim));
    }
    const F32 factor = vec::set1(1.0f / state_of(all, dim).sum);
    const vec::Writer to =
        vec::Writer(out).at(row * out.columns() + (t.head * group + h) * a.head_dim);
    vec::each(0, a.head_dim,
              [&](std::int64_t c, auto n) { to.store(c, vec::load(all + c, n) * factor, n); });
  }
}

template <typename W>
std::int64_t scratch_bytes(std::int64_t dim) {
  ScratchPlan plan(nullptr);
  const Workspace<W> sizes(plan, dim);
  return plan.used();
}

}  // namespace

void CpuInferKernels::attention(const PagedAttention& a, const Tensor& qkv, const KvPages& pages,
                                const Tensor& out) {
  infer_checks::attention(a, qkv, pages, out);
  check(qkv.dtype() != DType::kF64, "paged attention: the cpu backend computes no f64");
  decode(a, qkv, pages, out);
  prefill(a, qkv, pages, out);
}

void CpuInferKernels::decode(const PagedAttention& a, const Tensor& qkv, const KvPages& pages,
                             const Tensor& out) {
  with_words_and_pages(qkv.dtype(), bf16_, tiles_, [&](auto words, auto page) {
    using W = decltype(words);
    using P = decltype(page);
    const std::int64_t dim = padded<W>(a.head_dim), bytes = scratch_bytes<W>(dim);
    const std::vector<Task> tasks = tasks_of(a, dim);
    if (tasks.empty()) return;
    const std::int64_t group = a.heads / a.kv_heads;
    const Tensor sums = scratch(std::ssize(tasks) * group * part_size(dim) * 4);
    const Tensor memory = scratch(threads_ * bytes);
    auto* parts = static_cast<float*>(sums.data());
    parallel_tasks(threads_, std::ssize(tasks), [&](std::int64_t i, int thread) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      SpanTask<W, P>(a, pages, qkv, task, static_cast<std::byte*>(memory.data()) + thread * bytes)
          .run(parts + task.part);
    });
    std::vector<std::size_t> firsts;
    for (std::size_t i = 0; i < tasks.size(); ++i)
      if (i == 0 || tasks[i].sequence != tasks[i - 1].sequence ||
          tasks[i].row != tasks[i - 1].row || tasks[i].head != tasks[i - 1].head)
        firsts.push_back(i);
    firsts.push_back(tasks.size());
    parallel_ranges(
        threads_, std::ssize(firsts) - 1, 16, [&](std::int64_t begin, std::int64_t end) {
          for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
            combine(a, dim, tasks, firsts[i], firsts[i + 1], parts, out);
        });
  });
}

}  // namespace trireme
