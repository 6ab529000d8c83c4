// Sums over gradients and the optimizers. Legend: see kernels.h.
#include <cmath>

#include "framework/backend/adam_sequence.h"
#include "framework/backend/fingerprint.h"
#include "framework/backend/kernel_checks.h"
#include "framework/backend/reference_view.h"
#include "framework/backend/train/reference_train_kernels.h"

namespace trireme {

using namespace reference;

void ReferenceTrainKernels::sum_of_squares(const Tensor& x, const Tensor& out) {
  kernel_checks::sum_of_squares(x, out);
  const Input<double> in(x);
  double bad = 0, squares = 0;
  for (std::int64_t i = 0, n = x.elements(); i < n; ++i) {
    bad += std::isfinite(in[i]) ? 0.0 : 1.0;
    squares += in[i] * in[i];
  }
  double* total = out.as<double>();
  total[0] += bad;
  total[1] += squares;
}

void ReferenceTrainKernels::fingerprint(const Tensor& x, std::uint64_t key, std::int64_t first,
                                        std::uint64_t factor, const Tensor& out) {
  kernel_checks::fingerprint(x, out);
  add_fingerprint(factor * fingerprint_of(x.data(), x.elements(), size_of(x.dtype()), key, first),
                  out.as<double>());
}

void ReferenceTrainKernels::adam(const AdamStep& s, const Tensor& w, const Tensor& m,
                                 const Tensor& v, const Tensor& g, const Tensor& weights) {
  kernel_checks::adam(w, m, v, g, weights);
  in_wide_type(w.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const AdamConstants<W> constants(s);
    const Input<W> gradient(g);
    W *master = w.as<W>(), *first = m.as<W>(), *second = v.as<W>();
    for (std::int64_t i = 0, n = w.elements(); i < n; ++i)
      adam_element(constants, master[i], first[i], second[i], gradient[i]);
    if (weights) store(master, weights);
  });
}

void ReferenceTrainKernels::sgd(const SgdStep& s, const Tensor& w, const Tensor& momentum,
                                const Tensor& g, const Tensor& weights) {
  kernel_checks::sgd(s, w, momentum, g, weights);
  in_wide_type(w.dtype(), [&](auto wide) {
    using W = decltype(wide);
    const SgdConstants<W> constants(s);
    const Input<W> gradient(g);
    W* master = w.as<W>();
    W* buffer = s.momentum == 0.0 ? nullptr : momentum.as<W>();
    for (std::int64_t i = 0, n = w.elements(); i < n; ++i) {
      if (buffer)
        sgd_momentum_element(constants, master[i], buffer[i], gradient[i]);
      else
        sgd_element(constants, master[i], gradient[i]);
    }
    if (weights) store(master, weights);
  });
}

}  // namespace trireme
