#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {

namespace {

// How far `taken` has come from `begin` to the end: 0 there, 1 after the last step, so that no step
// is wasted on the lowest rate.
double progress(std::int64_t taken, std::int64_t begin, std::int64_t steps) {
  const std::int64_t span = std::max<std::int64_t>(1, steps - begin);
  return std::clamp(static_cast<double>(taken - begin) / static_cast<double>(span), 0.0, 1.0);
}

}  // namespace

double LrSchedule::at(std::int64_t taken) const {
  if (taken < warmup) return lr * static_cast<double>(taken + 1) / static_cast<double>(warmup);
  const double range = lr - min_lr;
  switch (shape) {
    case LrShape::kConstant:
      return lr;
    case LrShape::kLinear:
      return lr - range * progress(taken, warmup, steps);
    case LrShape::kCosine:
      return min_lr +
             range * 0.5 * (1.0 + std::cos(std::numbers::pi * progress(taken, warmup, steps)));
    case LrShape::kWsd: {
      const std::int64_t tail = decay > 0 ? decay : std::max<std::int64_t>(1, steps / 10);
      return lr - range * progress(taken, std::max(warmup, steps - tail), steps);
    }
  }
  return lr;
}

}  // namespace trireme
