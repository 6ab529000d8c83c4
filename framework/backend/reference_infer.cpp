// Inference kernels, plainly. A page is (G, kPageTokens, D). Legend: see infer_kernels.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"

namespace trireme {

using namespace reference;

namespace {

// D elements of head `g` at a position of a sequence.
Tensor slot(const PagedAttention& a, const PagedSequence& s, const Tensor& half,
            std::int64_t position, std::int64_t g) {
  const std::int64_t page = s.pages[static_cast<std::size_t>(position / kPageTokens)];
  const std::int64_t at = (page * a.kv_heads + g) * kPageTokens + position % kPageTokens;
  return half.elements_at(at * a.head_dim, {a.head_dim});
}

// D elements of a row of qkv, which has H query, G key and G value heads.
Tensor head_of(const PagedAttention& a, const Tensor& qkv, std::int64_t row, std::int64_t head) {
  return qkv.elements_at(row * qkv.columns() + head * a.head_dim, {a.head_dim});
}

template <typename W>
std::vector<W> values_of(const Tensor& x) {
  std::vector<W> values(static_cast<std::size_t>(x.elements()));
  load(x, values.data());
  return values;
}

template <typename W>
W dot(const std::vector<W>& a, const std::vector<W>& b) {
  W sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

template <typename W>
void attend(const PagedAttention& a, const PagedSequence& s, std::int64_t row, std::int64_t head,
            const Tensor& qkv, const KvPages& pages, const Tensor& out) {
  const std::int64_t position = s.first_position + row, g = head / (a.heads / a.kv_heads);
  const std::int64_t first = a.window > 0 ? std::max<std::int64_t>(0, position - a.window + 1) : 0;
  const std::vector<W> query = values_of<W>(head_of(a, qkv, s.first_row + row, head));
  std::vector<W> weights;
  for (std::int64_t k = first; k <= position; ++k)
    weights.push_back(dot(query, values_of<W>(slot(a, s, pages.keys, k, g))) *
                      static_cast<W>(a.scale));
  const W largest = *std::max_element(weights.begin(), weights.end());
  W sum = 0;
  for (W& w : weights) sum += w = std::exp(w - largest);
  std::vector<W> y(query.size(), W(0));
  for (std::int64_t k = first; k <= position; ++k) {
    const std::vector<W> value = values_of<W>(slot(a, s, pages.values, k, g));
    const W p = weights[static_cast<std::size_t>(k - first)] / sum;
    for (std::size_t d = 0; d < y.size(); ++d) y[d] += p * value[d];
  }
  store(y.data(),
        out.elements_at(((s.first_row + row) * a.heads + head) * a.head_dim, {a.head_dim}));
}

}  // namespace

void ReferenceInferKernels::linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                                   const Tensor& y) {
  infer_checks::linear(x, w, bias, y);
  kernels_.matmul({.a = x, .b = w, .c = y, .transpose_b = true, .bias = bias});
}

void ReferenceInferKernels::append(const PagedAttention& a, const Tensor& qkv,
                                   const KvPages& pages) {
  infer_checks::append(a, qkv, pages);
  for (const PagedSequence& s : a.sequences) {
    const Tensor rows = qkv.sliced_rows(s.first_row, s.first_row + s.rows);
    if (a.rotary)
      kernels_.rotary({.tokens = s.rows,
                       .heads = a.heads + a.kv_heads,
                       .head_dim = a.head_dim,
                       .first_position = s.first_position,
                       .theta = a.theta,
                       .scaling = a.scaling},
                      rows);
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t g = 0; g < a.kv_heads; ++g) {
        const std::int64_t position = s.first_position + r;
        kernels_.cast(head_of(a, rows, r, a.heads + g), slot(a, s, pages.keys, position, g));
        kernels_.cast(head_of(a, rows, r, a.heads + a.kv_heads + g),
                      slot(a, s, pages.values, position, g));
      }
  }
}

void ReferenceInferKernels::attention(const PagedAttention& a, const Tensor& qkv,
                                      const KvPages& pages, const Tensor& out) {
  infer_checks::attention(a, qkv, pages, out);
  in_wide_type(qkv.dtype(), [&](auto wide) {
    for (const PagedSequence& s : a.sequences)
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t h = 0; h < a.heads; ++h)
          attend<decltype(wide)>(a, s, r, h, qkv, pages, out);
  });
}

}  // namespace trireme
