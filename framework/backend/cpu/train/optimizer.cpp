// Adam and SGD: framework/backend/adam_sequence.h lane by lane, in one pass over w, m, v, g.
//
// Written with the vector header, not with Eigen arrays: Eigen has no public elementwise fma, its
// packet square root is approximate, and its tails take another path; and the 16-bit gradient and
// the 16-bit copy of the weights want to be read and written in the same pass.
#include "framework/backend/adam_sequence.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/train/cpu_train_kernels.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

constexpr std::int64_t kGrain = 8192;

struct AdamBuffers {
  float *w, *m, *v;
  Reader g;
  std::byte* weights;  // null: none wanted
  DType weights_type;
};

// Buffers by value: their pointers stay in registers whatever is stored.
void adam_range(const AdamConstants<float>& c, AdamBuffers b, std::int64_t begin,
                std::int64_t end) {
  const auto each = [](float x) { return vec::set1(x); };
  const F32 factor = each(c.gradient_factor), l2 = each(c.l2), minus_decay = each(c.minus_decay),
            beta1 = each(c.beta1), one_minus_beta1 = each(c.one_minus_beta1), beta2 = each(c.beta2),
            one_minus_beta2 = each(c.one_minus_beta2), inverse_root = each(c.inverse_root),
            eps = each(c.eps), minus_step = each(c.minus_step);
  const Writer copy(b.weights, b.weights_type);
  vec::each(begin, end, [&](std::int64_t i, auto n) {
    F32 w = vec::load(b.w + i, n), m = vec::load(b.m + i, n), v = vec::load(b.v + i, n);
    const F32 g = vec::fma(l2, w, b.g.load(i, n) * factor);
    const F32 decayed = vec::fma(minus_decay, w, w);
    m = vec::fma(beta1, m, one_minus_beta1 * g);
    v = vec::fma(beta2, v, (one_minus_beta2 * g) * g);
    const F32 denominator = vec::fma(vec::sqrt(v), inverse_root, eps);
    w = vec::fma(minus_step, m / denominator, decayed);
    vec::store(b.w + i, w, n);
    vec::store(b.m + i, m, n);
    vec::store(b.v + i, v, n);
    if (b.weights) copy.store(i, w, n);
  });
}

struct SgdBuffers {
  float *w, *momentum;  // momentum null: none
  Reader g;
  std::byte* weights;
  DType weights_type;
};

void sgd_range(const SgdConstants<float>& c, SgdBuffers b, std::int64_t begin, std::int64_t end) {
  const F32 factor = vec::set1(c.gradient_factor), decay = vec::set1(c.weight_decay),
            momentum = vec::set1(c.momentum), minus_lr = vec::set1(c.minus_lr);
  const Writer copy(b.weights, b.weights_type);
  vec::each(begin, end, [&](std::int64_t i, auto n) {
    const F32 w = vec::load(b.w + i, n);
    F32 g = vec::fma(decay, w, b.g.load(i, n) * factor);
    if (b.momentum) {
      if (!c.first) g = vec::fma(momentum, vec::load(b.momentum + i, n), g);
      vec::store(b.momentum + i, g, n);
    }
    const F32 updated = vec::fma(minus_lr, g, w);
    vec::store(b.w + i, updated, n);
    if (b.weights) copy.store(i, updated, n);
  });
}

std::byte* bytes_of(const Tensor& x) { return static_cast<std::byte*>(x.data()); }

}  // namespace

void CpuTrainKernels::adam(const AdamStep& s, const Tensor& w, const Tensor& m, const Tensor& v,
                           const Tensor& g, const Tensor& weights) {
  kernel_checks::adam(w, m, v, g, weights);
  refuse_f64("adam", w, g, weights);
  const AdamConstants<float> constants(s);
  const AdamBuffers buffers{w.as<float>(), m.as<float>(),     v.as<float>(),
                            Reader(g),     bytes_of(weights), weights.dtype()};
  parallel_ranges(threads_, w.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    adam_range(constants, buffers, begin, end);
  });
}

void CpuTrainKernels::sgd(const SgdStep& s, const Tensor& w, const Tensor& momentum,
                          const Tensor& g, const Tensor& weights) {
  kernel_checks::sgd(s, w, momentum, g, weights);
  refuse_f64("sgd", w, g, weights);
  const SgdConstants<float> constants(s);
  const bool keeps = s.momentum != 0.0;
  const SgdBuffers buffers{w.as<float>(), keeps ? momentum.as<float>() : nullptr, Reader(g),
                           bytes_of(weights), weights.dtype()};
  parallel_ranges(threads_, w.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    sgd_range(constants, buffers, begin, end);
  });
}

}  // namespace trireme
