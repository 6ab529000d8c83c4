#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

namespace trireme {

std::vector<std::string> moment_names(const OptimizerOptions& options) {
  if (options.kind != OptimizerKind::kSgd) return {"exp_avg", "exp_avg_sq"};
  return options.momentum > 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
}

int moments(const OptimizerOptions& options) {
  return static_cast<int>(moment_names(options).size());
}

namespace {

void apply_adam(Backend& backend, const OptimizerOptions& o, const OptimizerStep& step,
                const OptimizerRange& range) {
  const bool decoupled = o.kind == OptimizerKind::kAdamW;
  const double decay = range.decay ? o.weight_decay : 0.0;
  const auto t = static_cast<double>(step.number);
  backend.train_kernels()->adam({.lr = step.lr,
                                 .beta1 = o.beta1,
                                 .beta2 = o.beta2,
                                 .eps = o.eps,
                                 .weight_decay = decoupled ? decay : 0.0,
                                 .l2 = decoupled ? 0.0 : decay,
                                 .bias1 = 1.0 - std::pow(o.beta1, t),
                                 .bias2 = 1.0 - std::pow(o.beta2, t),
                                 .gradient_factor = step.gradient_factor},
                                range.master, range.states[0], range.states[1], range.gradient,
                                range.weights);
}

}  // namespace

void apply(Backend& backend, const OptimizerOptions& o, const OptimizerStep& step,
           const OptimizerRange& range) {
  if (o.kind != OptimizerKind::kSgd) return apply_adam(backend, o, step, range);
  backend.train_kernels()->sgd({.lr = step.lr,
                                .momentum = o.momentum,
                                .weight_decay = range.decay ? o.weight_decay : 0.0,
                                .gradient_factor = step.gradient_factor,
                                .first = step.number == 1},
                               range.master, range.states.empty() ? Tensor() : range.states[0],
                               range.gradient, range.weights);
}

double clip_factor(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace trireme
