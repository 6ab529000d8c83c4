#include "recipes/serve/token_weights.h"

#include <bit>
#include <cstdint>

namespace trireme {

namespace {

constexpr double kLeast = -700;  // e^-700 is a normal number
constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2High = 0x1.62e42fefa38p-1;  // its last bits are zero: n * kLn2High is exact
constexpr double kLn2Low = 0x1.ef35793c7673p-45;
constexpr double kRounder = 0x1.8p52;  // added and taken away: a whole number

// e^y for kLeast <= y <= 0: 2^n e^r with |r| <= ln 2 / 2, e^r by its series.
inline double power(double y) {
  const double shifted = y * kLog2E + kRounder;
  const double n = shifted - kRounder;
  const double r = (y - n * kLn2High) - n * kLn2Low;
  double sum = 1.0 / 6227020800;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  // n stands in the last bits of `shifted`; those above are shifted out.
  const std::uint64_t exponent = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;
  return sum * std::bit_cast<double>(exponent);
}

}  // namespace

void token_weights(std::span<const float> x, double largest, double temperature, double* weights) {
  const double per = 1 / temperature;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double y = (static_cast<double>(x[i]) - largest) * per;
    const double weight = power(y > kLeast ? y : kLeast);
    weights[i] = y > kLeast ? weight : 0;
  }
}

}  // namespace trireme
