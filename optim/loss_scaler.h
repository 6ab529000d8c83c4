// The factor on the loss that keeps small gradients of a 16-bit format above its smallest number.
//
// The loss is multiplied by scale() before backward, and gradients are divided by the factor that
// backward began with, never by a newer one. A step with a gradient that is not finite (an
// overflow) is skipped; every step is then told to update(), skipped or not. Rules of a dynamic
// scale, those of DeepSpeed's DynamicLossScaler without consecutive hysteresis (dynamic loss
// scaling: arXiv 1710.03740, section 3.2):
//
//   - it starts at `initial`;
//   - an overflow takes one of the hysteresis' lives; the one that finds a single life left halves
//     the scale, as do those after it, but never to below `minimum`;
//   - after `window` steps in a row without overflow the scale is doubled and all lives are back.
//
// A fixed scale never changes. A pure function of what it was told: all ranks agree when they are
// told the same.
#pragma once

#include <cstdint>

namespace trireme {

struct LossScaleOptions {
  bool dynamic = false;
  double initial = 1;           // or the fixed scale; above 0
  std::int64_t window = 1000;   // steps, at least 1
  std::int64_t hysteresis = 2;  // lives, at least 1
  double minimum = 1;           // above 0, at most `initial`
};

// What update() remembers: all of it, for a checkpoint.
struct LossScalerState {
  double scale = 1;
  std::int64_t lives = 1, good = 0;
};

class LossScaler {
 public:
  // Throws Error for numbers outside the ranges above.
  explicit LossScaler(const LossScaleOptions& options);

  double scale() const { return scale_; }  // of the next backward
  void update(bool overflow);              // once for each step

  LossScalerState state() const { return {scale_, lives_, good_}; }
  // Goes on from there. Of a fixed scale nothing is taken. Throws Error for impossible numbers.
  void restore(const LossScalerState& state);

 private:
  LossScaleOptions options_;
  double scale_;
  std::int64_t lives_, good_ = 0;  // good_: steps since the last overflow or doubling
};

}  // namespace trireme
