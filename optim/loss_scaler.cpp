#include "optim/loss_scaler.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

LossScaler::LossScaler(const LossScaleOptions& options)
    : options_(options), scale_(options.initial), lives_(options.hysteresis) {
  check(options.initial > 0, "loss scale: ", options.initial, " is not above 0");
  if (!options.dynamic) return;
  check(options.window >= 1 && options.hysteresis >= 1, "loss scale: a window of ", options.window,
        " steps and a hysteresis of ", options.hysteresis, "; each must be at least 1");
  check(options.minimum > 0 && options.minimum <= options.initial, "loss scale: a minimum of ",
        options.minimum, " is not above 0 and at most the initial ", options.initial);
}

void LossScaler::update(bool overflow) {
  if (!options_.dynamic) return;
  if (overflow) {
    good_ = 0;
    if (lives_ > 1)
      --lives_;
    else
      scale_ = std::max(scale_ / 2, options_.minimum);
    return;
  }
  if (++good_ < options_.window) return;
  good_ = 0;
  scale_ *= 2;
  lives_ = options_.hysteresis;
}

void LossScaler::restore(const LossScalerState& state) {
  if (!options_.dynamic) return;
  check(state.scale > 0 && state.lives >= 1 && state.good >= 0, "loss scale: ", state.scale,
        " with ", state.lives, " lives after ", state.good, " good steps is no state of a scaler");
  scale_ = state.scale;
  lives_ = std::min(state.lives, options_.hysteresis);
  good_ = std::min(state.good, options_.window - 1);
}

}  // namespace trireme
