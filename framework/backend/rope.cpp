#include "framework/backend/rope.h"

#include <cmath>
#include <numbers>

namespace trireme {

namespace {

double llama3(double f, const RopeScaling& s) {
  const double wavelength = 2 * std::numbers::pi / f;
  if (wavelength < s.original / s.high) return f;
  if (wavelength > s.original / s.low) return f / s.factor;
  const double smooth = (s.original / wavelength - s.low) / (s.high - s.low);
  return (1 - smooth) * f / s.factor + smooth * f;
}

}  // namespace

double rope_frequency(double theta, std::int64_t head_dim, std::int64_t i,
                      const RopeScaling& scaling) {
  const double f = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  switch (scaling.kind) {
    case RopeScaling::Kind::kNone:
      return f;
    case RopeScaling::Kind::kLinear:
      return f / scaling.factor;
    case RopeScaling::Kind::kLlama3:
      return llama3(f, scaling);
  }
  return f;
}

}  // namespace trireme
