// Activations and their gradients. GELU-tanh is x * sigmoid(2z), z = sqrt(2/pi) (x + 0.044715 x^3),
// the same function without a tanh.
#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/vector.h"
#include "framework/backend/kernel_checks.h"

namespace trireme {

namespace {

using vec::F32;
using vec::Reader;
using vec::Writer;

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

std::int64_t grain(std::int64_t columns) { return 1 + 4096 / (columns + 1); }

}  // namespace

void CpuKernels::activation(Activation act, bool gated, const Tensor& x, const Tensor& y) {
  kernel_checks::activation(gated, x, y);
  refuse_f64("activation", x, y);
  const std::int64_t columns = y.columns();  // F
  with(act, [&](auto kind) {
    parallel_ranges(threads_, y.rows(), grain(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const auto in = Reader(x).at(r * x.columns());
        const auto up = in.at(gated ? columns : 0);
        const auto out = Writer(y).at(r * columns);
        vec::each(0, columns, [&](std::int64_t c, auto n) {
          F32 v = kind.at(in.load(c, n)).y;
          if (gated) v = v * up.load(c, n);
          out.store(c, v, n);
        });
      }
    });
  });
}

void CpuKernels::activation_backward(Activation act, bool gated, const Tensor& x, const Tensor& dy,
                                     const Tensor& dx) {
  kernel_checks::activation_backward(gated, x, dy, dx);
  refuse_f64("activation_backward", x, dy, dx);
  const std::int64_t columns = dy.columns();  // F
  with(act, [&](auto kind) {
    parallel_ranges(threads_, dy.rows(), grain(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const auto in = Reader(x).at(r * x.columns());
        const auto from = Reader(dy).at(r * columns);
        const auto out = Writer(dx).at(r * x.columns());
        vec::each(0, columns, [&](std::int64_t c, auto n) {
          const Value v = kind.at(in.load(c, n));
          const F32 g = from.load(c, n);
          if (gated) {
            const F32 up = in.load(columns + c, n);  // before dx, which may alias x, is written
            out.store(columns + c, g * v.y, n);
            out.store(c, g * up * v.slope, n);
          } else {
            out.store(c, g * v.slope, n);
          }
        });
      }
    });
  });
}

}  // namespace trireme
