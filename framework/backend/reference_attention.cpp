// Causal self-attention, one query at a time: a row of T scores is all that is kept. Legend: see
// kernels.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_backend.h"
#include "framework/backend/reference_heads.h"
#include "framework/backend/reference_view.h"

namespace trireme {

using namespace reference;

namespace {

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

}  // namespace trireme
