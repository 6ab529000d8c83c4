// Activations of the reference backend, each with its slope: for both directions. W is the wide
// type.
#pragma once

#include <cmath>

#include "framework/backend/kernels.h"

namespace trireme::reference {

// tanh GELU: x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3).
template <typename W>
struct Gelu {
  static constexpr W kRoot = W(0.79788456080286535588);  // sqrt(2 / pi)
  static constexpr W kCube = W(0.044715);
  static W tanh_of(W x) { return std::tanh(kRoot * (x + kCube * x * x * x)); }
  static W value(W x) { return W(0.5) * x * (W(1) + tanh_of(x)); }
  static W slope(W x) {
    const W t = tanh_of(x);
    return W(0.5) * (W(1) + t) +
           W(0.5) * x * (W(1) - t * t) * kRoot * (W(1) + W(3) * kCube * x * x);
  }
};

template <typename W>
struct Silu {
  static W sigmoid(W x) { return W(1) / (W(1) + std::exp(-x)); }
  static W value(W x) { return x * sigmoid(x); }
  static W slope(W x) {
    const W s = sigmoid(x);
    return s * (W(1) + x * (W(1) - s));
  }
};

// Comparisons are written so that NaN stays NaN.
template <typename W>
struct Relu {
  static W value(W x) { return x <= W(0) ? W(0) : x; }
  static W slope(W x) { return x <= W(0) ? W(0) : W(1); }
};

template <typename W, typename F>
void with_activation(Activation act, F&& f) {
  switch (act) {
    case Activation::kGeluTanh:
      return f(Gelu<W>());
    case Activation::kSilu:
      return f(Silu<W>());
    case Activation::kRelu:
      return f(Relu<W>());
  }
}

}  // namespace trireme::reference
