// Causal self-attention, one query at a time: a row of T scores is all that is kept. Legend: see
// kernels.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_view.h"

namespace trireme {

using namespace reference;

namespace {

// Where things lie in qkv (B*T, (H + 2G) D) and out (B*T, H D).
class Places {
 public:
  explicit Places(const Attention& a) : a_(a), group_(a.heads / a.kv_heads) {}

  std::int64_t query(std::int64_t b, std::int64_t h, std::int64_t t) const { return part(b, t, h); }
  std::int64_t key(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return part(b, t, a_.heads + h / group_);
  }
  std::int64_t value(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return part(b, t, a_.heads + a_.kv_heads + h / group_);
  }
  std::int64_t out(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return ((b * a_.tokens + t) * a_.heads + h) * a_.head_dim;
  }
  std::int64_t lse(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return (b * a_.heads + h) * a_.tokens + t;
  }

 private:
  std::int64_t part(std::int64_t b, std::int64_t t, std::int64_t head) const {
    return ((b * a_.tokens + t) * (a_.heads + 2 * a_.kv_heads) + head) * a_.head_dim;
  }
  const Attention& a_;
  std::int64_t group_;
};

template <typename W>
W dot(const W* a, const W* b, std::int64_t n) {
  W sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// to += factor * from
template <typename W>
void add_scaled(W factor, const W* from, std::int64_t n, W* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

// What dropout multiplies the probability of (query q, key k) with.
template <typename W>
W kept(const Attention& a, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
  if (!a.dropout) return W(1);
  const std::int64_t head = (a.first_sample + b) * a.total_heads + a.first_head + h;
  const auto index = static_cast<std::uint64_t>((head * a.tokens + q) * a.tokens + k);
  return random_word(a.dropout->key, index) < a.dropout->threshold
             ? W(0)
             : static_cast<W>(a.dropout->scale);
}

std::int64_t first_key(const Attention& a, std::int64_t b, std::int64_t q) {
  const std::int64_t start =
      a.document_starts ? a.document_starts.as<std::int32_t>()[b * a.tokens + q] : 0;
  return a.window > 0 ? std::max(start, q - a.window + 1) : start;
}

// Calls f(b, h, q) for every query.
template <typename F>
void for_each_query(const Attention& a, F&& f) {
  for (std::int64_t b = 0; b < a.batch; ++b)
    for (std::int64_t h = 0; h < a.heads; ++h)
      for (std::int64_t q = 0; q < a.tokens; ++q) f(b, h, q);
}

template <typename W>
void attend(const Attention& a, const Input<W>& qkv, const Output<W>& out, const Output<W>& lse) {
  const Places at(a);
  std::vector<W> p(static_cast<std::size_t>(a.tokens));
  for_each_query(a, [&](std::int64_t b, std::int64_t h, std::int64_t q) {
    W largest = 0, sum = 0;
    const std::int64_t first = first_key(a, b, q);
    for (std::int64_t k = first; k <= q; ++k) {
      const W score = dot(qkv.at(at.query(b, h, q)), qkv.at(at.key(b, h, k)), a.head_dim) *
                      static_cast<W>(a.scale);
      p[static_cast<std::size_t>(k)] = score;
      largest = k == first || score > largest ? score : largest;
    }
    for (std::int64_t k = first; k <= q; ++k) {
      W& weight = p[static_cast<std::size_t>(k)];
      weight = std::exp(weight - largest);
      sum += weight;
    }
    W* y = out.at(at.out(b, h, q));
    std::fill_n(y, a.head_dim, W(0));
    for (std::int64_t k = first; k <= q; ++k)
      add_scaled(p[static_cast<std::size_t>(k)] / sum * kept<W>(a, b, h, q, k),
                 qkv.at(at.value(b, h, k)), a.head_dim, y);
    lse[at.lse(b, h, q)] = largest + std::log(sum);
  });
}

// With p the probabilities, m what dropout multiplies them with and z = dout . out: dv += m p dout,
// ds = p (m dout . v - z), dq += scale ds k, dk += scale ds q.
template <typename W>
void attend_backward(const Attention& a, const Input<W>& qkv, const Input<W>& out,
                     const Input<W>& lse, const Input<W>& dout, const Output<W>& dqkv) {
  const Places at(a);
  const auto scale = static_cast<W>(a.scale);
  const std::int64_t n = a.head_dim;
  for_each_query(a, [&](std::int64_t b, std::int64_t h, std::int64_t q) {
    const W* query = qkv.at(at.query(b, h, q));
    const W* gradient = dout.at(at.out(b, h, q));
    const W z = dot(gradient, out.at(at.out(b, h, q)), n);
    for (std::int64_t k = first_key(a, b, q); k <= q; ++k) {
      const W* key = qkv.at(at.key(b, h, k));
      const W p = std::exp(dot(query, key, n) * scale - lse[at.lse(b, h, q)]);
      const W m = kept<W>(a, b, h, q, k);
      const W ds = p * (m * dot(gradient, qkv.at(at.value(b, h, k)), n) - z);
      add_scaled(m * p, gradient, n, dqkv.at(at.value(b, h, k)));
      add_scaled(scale * ds, key, n, dqkv.at(at.query(b, h, q)));
      add_scaled(scale * ds, query, n, dqkv.at(at.key(b, h, k)));
    }
  });
}

}  // namespace

void ReferenceKernels::attention(const Attention& a, const Tensor& qkv, const Tensor& out,
                                 const Tensor& lse) {
  kernel_checks::attention(a, qkv, out, lse);
  in_wide_type(qkv.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(qkv);
    const Output<W> y(out), sums(lse);
    attend(a, in, y, sums);
  });
}

void ReferenceTrainKernels::attention_backward(const Attention& a, const Tensor& qkv,
                                               const Tensor& out, const Tensor& lse,
                                               const Tensor& dout, const Tensor& dqkv) {
  kernel_checks::attention_backward(a, qkv, out, lse, dout, dqkv);
  in_wide_type(qkv.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const Input<W> in(qkv), y(out), sums(lse), g(dout);
    const Output<W> d(dqkv);
    std::fill_n(d.at(0), dqkv.elements(), W(0));
    attend_backward(a, in, y, sums, g, d);
  });
}

}  // namespace trireme
