#include "framework/backend/reference_view.h"

namespace trireme::reference {

namespace {

template <typename W>
BFloat16 to_bf16(W x) {
  if constexpr (std::is_same_v<W, double>)
    return round_to_bf16(x);
  else
    return BFloat16(x);
}

template <typename W>
Float16 to_f16(W x) {
  if constexpr (std::is_same_v<W, double>)
    return round_to_f16(x);
  else
    return Float16(x);
}

// Calls f with the typed elements of x.
template <typename F>
void with_elements(const Tensor& x, F&& f) {
  switch (x.dtype()) {
    case DType::kF64:
      return f(x.as<double>());
    case DType::kF32:
      return f(x.as<float>());
    case DType::kBF16:
      return f(x.as<BFloat16>());
    case DType::kF16:
      return f(x.as<Float16>());
    default:
      fail("reference: elements of ", name_of(x.dtype()), " are not floating");
  }
}

template <typename To, typename W>
To rounded(W x) {
  if constexpr (std::is_same_v<To, BFloat16>)
    return to_bf16(x);
  else if constexpr (std::is_same_v<To, Float16>)
    return to_f16(x);
  else
    return static_cast<To>(x);
}

template <typename W, typename From>
W widened(From x) {
  if constexpr (std::is_same_v<From, double>)
    return static_cast<W>(x);
  else
    return static_cast<W>(static_cast<float>(x));
}

}  // namespace

template <typename W>
void load(const Tensor& x, W* to) {
  with_elements(x, [&](const auto* from) {
    for (std::int64_t i = 0, n = x.elements(); i < n; ++i) to[i] = widened<W>(from[i]);
  });
}

template <typename W>
void store(const W* from, const Tensor& x) {
  with_elements(x, [&]<typename To>(To* to) {
    for (std::int64_t i = 0, n = x.elements(); i < n; ++i) to[i] = rounded<To>(from[i]);
  });
}

template void load<float>(const Tensor&, float*);
template void load<double>(const Tensor&, double*);
template void store<float>(const float*, const Tensor&);
template void store<double>(const double*, const Tensor&);

}  // namespace trireme::reference
