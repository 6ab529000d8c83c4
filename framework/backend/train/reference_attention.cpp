// Causal self-attention, backward. Legend: see kernels.h.
#include <algorithm>
#include <cmath>

#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_heads.h"
#include "framework/backend/reference_view.h"
#include "framework/backend/train/reference_train_kernels.h"

namespace trireme {

using namespace reference;

namespace {

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
