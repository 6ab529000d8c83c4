// Where a head's queries, keys and values lie, and sums over them: for both directions of the
// reference backend's attention. W is the wide type.
#pragma once

#include <algorithm>

#include "framework/backend/kernels.h"

namespace trireme::reference {

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

inline std::int64_t first_key(const Attention& a, std::int64_t b, std::int64_t q) {
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

}  // namespace trireme::reference
