// Activations of the cpu backend, each with its slope: for both directions. GELU-tanh is
// x * sigmoid(2z), z = sqrt(2/pi) (x + 0.044715 x^3), the same function without a tanh.
#pragma once

#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernels.h"

namespace trireme::activations {

using vec::F32;

struct Value {
  F32 y, slope;
};

struct Gelu {
  static Value at(F32 x) {
    constexpr float kTwoRoot = 1.5957691216057308f;  // 2 sqrt(2 / pi)
    const F32 square = x * x;
    const F32 s =
        vec::sigmoid(x * vec::fma(square, vec::set1(0.044715f * kTwoRoot), vec::set1(kTwoRoot)));
    const F32 inner = vec::fma(square, vec::set1(3.0f * 0.044715f * kTwoRoot), vec::set1(kTwoRoot));
    return {x * s, vec::fma(x * s, (1.0f - s) * inner, s)};
  }
};

struct Silu {
  static Value at(F32 x) {
    const F32 s = vec::sigmoid(x);
    return {x * s, vec::fma(x * s, 1.0f - s, s)};
  }
};

struct Relu {
  static Value at(F32 x) {
    const F32 zero{};
    return {x < zero ? zero : x, x > zero ? zero + 1.0f : zero};
  }
};

// Calls f(Gelu{}) or the like.
template <typename F>
void with(Activation act, F f) {
  switch (act) {
    case Activation::kGeluTanh:
      return f(Gelu{});
    case Activation::kSilu:
      return f(Silu{});
    case Activation::kRelu:
      return f(Relu{});
  }
}

// Rows a thread takes at least.
inline std::int64_t grain(std::int64_t columns) { return 1 + 4096 / (columns + 1); }

}  // namespace trireme::activations
