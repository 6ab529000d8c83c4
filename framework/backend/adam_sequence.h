// The optimizers' arithmetic, one element at a time: the one definition that every backend obeys
// bit for bit.
//
// Only mul, fma, div and sqrt are used, all correctly rounded, in the order written below. Vector
// code mirrors the same sequence lane by lane, so any split into tiles, tiers or backends gives the
// same bits. Constants are formed in f64 and rounded once to T. The conventions are PyTorch's
// AdamW, Adam and SGD: decoupled decay before the update, and w -= lr / bias1 * m / (sqrt(v) /
// sqrt(bias2) + eps).
#pragma once

#include <cmath>

#include "framework/backend/kernels.h"

namespace trireme {

// T is the wide type: float or double.
template <typename T>
struct AdamConstants {
  T gradient_factor, l2, minus_decay, beta1, one_minus_beta1, beta2, one_minus_beta2, inverse_root,
      eps, minus_step;

  explicit AdamConstants(const AdamStep& s)
      : gradient_factor(static_cast<T>(s.gradient_factor)),
        l2(static_cast<T>(s.l2)),
        minus_decay(static_cast<T>(-(s.lr * s.weight_decay))),
        beta1(static_cast<T>(s.beta1)),
        one_minus_beta1(static_cast<T>(1.0 - s.beta1)),
        beta2(static_cast<T>(s.beta2)),
        one_minus_beta2(static_cast<T>(1.0 - s.beta2)),
        inverse_root(static_cast<T>(1.0 / std::sqrt(s.bias2))),
        eps(static_cast<T>(s.eps)),
        minus_step(static_cast<T>(-(s.lr / s.bias1))) {}
};

template <typename T>
inline void adam_element(const AdamConstants<T>& c, T& w, T& m, T& v, T gradient) {
  const T g = std::fma(c.l2, w, gradient * c.gradient_factor);
  const T decayed = std::fma(c.minus_decay, w, w);
  m = std::fma(c.beta1, m, c.one_minus_beta1 * g);
  v = std::fma(c.beta2, v, (c.one_minus_beta2 * g) * g);
  const T denominator = std::fma(std::sqrt(v), c.inverse_root, c.eps);
  w = std::fma(c.minus_step, m / denominator, decayed);
}

template <typename T>
struct SgdConstants {
  T gradient_factor, weight_decay, momentum, minus_lr;
  bool first;

  explicit SgdConstants(const SgdStep& s)
      : gradient_factor(static_cast<T>(s.gradient_factor)),
        weight_decay(static_cast<T>(s.weight_decay)),
        momentum(static_cast<T>(s.momentum)),
        minus_lr(static_cast<T>(-s.lr)),
        first(s.first) {}
};

// The gradient that SGD follows: scaled, then with coupled decay.
template <typename T>
inline T sgd_gradient(const SgdConstants<T>& c, T w, T gradient) {
  return std::fma(c.weight_decay, w, gradient * c.gradient_factor);
}

template <typename T>
inline void sgd_element(const SgdConstants<T>& c, T& w, T gradient) {
  w = std::fma(c.minus_lr, sgd_gradient(c, w, gradient), w);
}

template <typename T>
inline void sgd_momentum_element(const SgdConstants<T>& c, T& w, T& buffer, T gradient) {
  const T g = sgd_gradient(c, w, gradient);
  buffer = c.first ? g : std::fma(c.momentum, buffer, g);
  w = std::fma(c.minus_lr, buffer, w);
}

}  // namespace trireme
