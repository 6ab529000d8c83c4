// Frequencies of rotary positions, and how models that were stretched to longer contexts scale
// them.
#pragma once

#include <cstdint>

namespace trireme {

struct RopeScaling {
  enum class Kind : std::uint8_t {
    kNone,
    kLinear,  // all frequencies / factor (arXiv 2306.15595)
    // Llama 3.1's: with wavelength w = 2 pi / f and original context n, f stays where w < n / high,
    // becomes f / factor where w > n / low, and is blended in between by s = (n / w - low) / (high
    // - low): (1 - s) f / factor + s f.
    kLlama3
  } kind = Kind::kNone;
  double factor = 1, low = 1, high = 4, original = 8192;
  bool operator==(const RopeScaling&) const = default;
  auto operator<=>(const RopeScaling&) const = default;
};

// Radians per position of pair i of a head of `head_dim` elements, scaled.
double rope_frequency(double theta, std::int64_t head_dim, std::int64_t i,
                      const RopeScaling& scaling);

}  // namespace trireme
