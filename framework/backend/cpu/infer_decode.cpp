// Attention of sequences with few rows: a task is one row, one key/value head and one span of
// positions (arXiv 2311.01282's split of long contexts, with spans of a fixed size, so that the sum
// depends on nothing but the positions). The query heads of a key/value head take each block of
// keys from the cache while it is near. Legend: see infer_kernels.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/infer_pages.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

using vec::F32;

constexpr std::int64_t kSpan = 256;  // positions of a task
constexpr std::int64_t kPages = kTile / kPageTokens;

struct Task {
  const PagedSequence* sequence;
  std::int64_t row, head, begin, end;  // positions [begin, end), begin a multiple of kSpan
  std::int64_t part;                   // where its partial results of all query heads begin
};

// Of one query head and span: D sums, then the largest score and the sum of weights.
std::int64_t part_size(const PagedAttention& a) { return (a.head_dim + 2 + 15) / 16 * 16; }

template <typename P>
class SpanTask {
 public:
  SpanTask(const PagedAttention& a, const KvPages& pages, const Tensor& qkv, const Task& t,
           float* parts)
      : a_(a), t_(t), pages_(pages), group_(a.heads / a.kv_heads), parts_(parts + t.part) {
    const auto row = t.sequence->first_row + t.row;
    query_ = vec::Reader(qkv).at(row * qkv.columns() + t.head * group_ * a.head_dim);
    const std::int64_t position = t.sequence->first_position + t.row;
    first_ = a.window > 0 ? position - a.window + 1 : 0;
  }

  void run(typename P::Word* query) {
    const std::int64_t size = part_size(a_);
    pack_queries(query);
    for (std::int64_t h = 0; h < group_; ++h) {
      float* part = parts_ + h * size;
      std::fill_n(part, a_.head_dim + 2, 0.0f);
      part[a_.head_dim] = -std::numeric_limits<float>::infinity();
    }
    for (std::int64_t at = t_.begin; at < t_.end; at += kTile) {
      if (at + kTile <= first_) continue;
      for (std::int64_t h = 0; h < group_; ++h)
        block(at, query + h * (a_.head_dim / P::kPair), parts_ + h * size);
    }
  }

 private:
  void pack_queries(typename P::Word* to) {
    auto* elements = reinterpret_cast<typename P::Element*>(to);
    for (std::int64_t i = 0; i < group_ * a_.head_dim; ++i) elements[i] = P::narrow(query_.one(i));
  }

  std::int64_t page_at(std::int64_t position) const {
    return t_.sequence->pages[static_cast<std::size_t>(position / kPageTokens)];
  }

  // 64 positions from `at` on, or what is left of the span.
  void block(std::int64_t at, const typename P::Word* query, float* part) {
    const std::int64_t count = std::min(kTile, t_.end - at);
    const std::int64_t pages = (count + kPageTokens - 1) / kPageTokens;
    alignas(64) float scores[kTile];
    for (std::int64_t i = 0; i < pages; ++i)
      score(page_at(at + i * kPageTokens), query, scores + i * kPageTokens);
    for (std::int64_t i = pages * kPageTokens; i < kTile; ++i) scores[i] = 0;
    alignas(64) typename P::Word weights[kTile / P::kPair];
    auto* narrow = reinterpret_cast<typename P::Element*>(weights);
    Softmax state{part[a_.head_dim], part[a_.head_dim + 1]};
    const float factor = static_cast<float>(a_.scale) * std::numbers::log2e_v<float>;
    const float kept = softmax_block(
        scores, factor, static_cast<int>(std::max<std::int64_t>(0, first_ - at)),
        static_cast<int>(count) - 1, state, [&](int i, F32 p) { store(narrow + i, p); });
    part[a_.head_dim] = state.most;
    part[a_.head_dim + 1] = state.sum;
    for (std::int64_t d = 0; d < a_.head_dim; d += kWide) values(at, count, d, weights, kept, part);
  }

  static void store(typename P::Element* to, F32 p) {
    if constexpr (P::kPair == 1)
      vec::store(to, p);
    else
      vec::store_as(to, vec::to_bf16(p));
  }

  void score(std::int64_t page, const typename P::Word* query, float* to) {
    constexpr int kParts = kPageTokens / vec::kLanes;
    const auto* keys =
        reinterpret_cast<const typename P::Word*>(page_of<P>(pages_.keys, a_, page, t_.head));
    // Two chains per vector, by even and odd words.
    F32 even[kParts] = {}, odd[kParts] = {};
    const std::int64_t words = a_.head_dim / P::kPair;
    std::int64_t w = 0;
    for (; w + 2 <= words; w += 2)
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) {
        const auto* key = keys + w * kPageTokens + i * vec::kLanes;
        even[i] = P::multiply_add(P::broadcast(query + w), vec::load_as<F32>(key), even[i]);
        odd[i] = P::multiply_add(P::broadcast(query + w + 1), vec::load_as<F32>(key + kPageTokens),
                                 odd[i]);
      }
    for (; w < words; ++w)
      for (int i = 0; i < kParts; ++i)
        even[i] =
            P::multiply_add(P::broadcast(query + w),
                            vec::load_as<F32>(keys + w * kPageTokens + i * vec::kLanes), even[i]);
    for (int i = 0; i < kParts; ++i) vec::store(to + i * vec::kLanes, even[i] + odd[i]);
  }

  static constexpr int kVectors = 4;
  static constexpr std::int64_t kWide = kVectors * vec::kLanes;

  // Columns [d, d + kWide) of the weighted values.
  void values(std::int64_t at, std::int64_t count, std::int64_t d, const typename P::Word* weights,
              float kept, float* part) {
    const std::int64_t columns = std::min(kWide, a_.head_dim - d);
    if (columns == kWide) return value_vectors<kVectors>(at, count, d, weights, kept, part);
    std::int64_t done = 0;
    for (; done + vec::kLanes <= columns; done += vec::kLanes)
      value_vectors<1>(at, count, d + done, weights, kept, part);
    if (done < columns)
      value_tail(at, count, d + done, static_cast<int>(columns - done), weights, kept, part);
  }

  template <int V>
  void value_vectors(std::int64_t at, std::int64_t count, std::int64_t d,
                     const typename P::Word* weights, float kept, float* part) {
    F32 sum[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[v] = vec::load(part + d + v * vec::kLanes) * kept;
    each_value_row(at, count, [&](const typename P::Word* row, std::int64_t w) {
      const F32 weight = P::broadcast(weights + w);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v)
        sum[v] = P::multiply_add(weight, vec::load_as<F32>(row + d + v * vec::kLanes), sum[v]);
    });
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) vec::store(part + d + v * vec::kLanes, sum[v]);
  }

  void value_tail(std::int64_t at, std::int64_t count, std::int64_t d, int n,
                  const typename P::Word* weights, float kept, float* part) {
    F32 sum = vec::load(part + d, n) * kept;
    each_value_row(at, count, [&](const typename P::Word* row, std::int64_t w) {
      sum = P::multiply_add(P::broadcast(weights + w),
                            vec::load(reinterpret_cast<const float*>(row) + d, n), sum);
    });
    vec::store(part + d, sum, n);
  }

  // f(row of D words, its number in the block)
  template <typename F>
  void each_value_row(std::int64_t at, std::int64_t count, F f) {
    for (std::int64_t p = 0; p < count; p += kPageTokens) {
      const auto* rows = reinterpret_cast<const typename P::Word*>(
          page_of<P>(pages_.values, a_, page_at(at + p), t_.head));
      const std::int64_t here = (std::min(kPageTokens, count - p) + P::kPair - 1) / P::kPair;
      for (std::int64_t w = 0; w < here; ++w) f(rows + w * a_.head_dim, p / P::kPair + w);
    }
  }

  const PagedAttention& a_;
  const Task& t_;
  const KvPages& pages_;
  std::int64_t group_, first_ = 0;
  float* parts_;
  vec::Reader query_{nullptr, DType::kF32};
};

// Tasks of all rows of sequences that decode(); neighbouring spans of a row and head lie side by
// side in `part`, ordered as (span, query head of the group).
std::vector<Task> tasks_of(const PagedAttention& a) {
  std::vector<Task> tasks;
  const std::int64_t size = part_size(a) * (a.heads / a.kv_heads);
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
void combine(const PagedAttention& a, const std::vector<Task>& tasks, std::size_t begin,
             std::size_t end, const float* parts, const Tensor& out) {
  const Task& t = tasks[begin];
  const std::int64_t group = a.heads / a.kv_heads, size = part_size(a), d = a.head_dim;
  const std::int64_t row = t.sequence->first_row + t.row;
  for (std::int64_t h = 0; h < group; ++h) {
    const auto part = [&](std::size_t i) { return parts + tasks[i].part + h * size; };
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, part(i)[d]);
    const auto share = [&](std::size_t i) {
      return vec::exp2(vec::set1(part(i)[d] - most))[0] * (std::isfinite(part(i)[d]) ? 1.0f : 0.0f);
    };
    for (std::size_t i = begin; i < end; ++i) sum += part(i)[d + 1] * share(i);
    const vec::Writer to = vec::Writer(out).at(row * out.columns() + (t.head * group + h) * d);
    vec::each(0, d, [&](std::int64_t c, auto n) {
      F32 total{};
      for (std::size_t i = begin; i < end; ++i)
        total = vec::fma(vec::load(part(i) + c, n), vec::set1(share(i)), total);
      to.store(c, total * (1.0f / sum), n);
    });
  }
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
  const std::vector<Task> tasks = tasks_of(a);
  if (tasks.empty()) return;
  const std::int64_t group = a.heads / a.kv_heads, query_bytes = group * a.head_dim * 4;
  const Tensor parts = scratch(std::ssize(tasks) * group * part_size(a) * 4);
  const Tensor queries = scratch(threads_ * query_bytes);
  auto* sums = static_cast<float*>(parts.data());
  with_page(pages.keys.dtype(), [&](auto page) {
    using P = decltype(page);
    parallel_tasks(threads_, std::ssize(tasks), [&](std::int64_t i, int thread) {
      auto* query = static_cast<std::byte*>(queries.data()) + thread * query_bytes;
      SpanTask<P>(a, pages, qkv, tasks[static_cast<std::size_t>(i)], sums)
          .run(reinterpret_cast<typename P::Word*>(query));
    });
  });
  std::vector<std::size_t> firsts;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (i == 0 || tasks[i].sequence != tasks[i - 1].sequence || tasks[i].row != tasks[i - 1].row ||
        tasks[i].head != tasks[i - 1].head)
      firsts.push_back(i);
  firsts.push_back(tasks.size());
  parallel_ranges(threads_, std::ssize(firsts) - 1, 16, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      combine(a, tasks, firsts[i], firsts[i + 1], sums, out);
  });
}

}  // namespace trireme
