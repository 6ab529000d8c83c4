// Rounding an f64 to 16 bits once, to nearest even: going through f32 would round twice.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "framework/base/dtype.h"

namespace trireme {

// The f32 that carries enough of `x` for one more rounding: x rounded to odd. (Rounding to odd,
// then to nearest in at least two bits less, equals rounding to nearest at once; Boldo and
// Melquiond, IEEE Trans. Computers 57, 2008.)
inline float rounded_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(nearest)) return nearest;
  const float towards = static_cast<double>(nearest) < x ? HUGE_VALF : -HUGE_VALF;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  return (bits & 1u) ? nearest : std::nextafter(nearest, towards);
}

inline BFloat16 round_to_bf16(double x) { return BFloat16(rounded_to_odd(x)); }
inline Float16 round_to_f16(double x) {
  const _Float16 h = static_cast<_Float16>(x);
  Float16 out;
  std::memcpy(&out.bits, &h, 2);
  return out;
}

}  // namespace trireme
