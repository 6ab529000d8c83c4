// The update rules: what state an element needs, and one step over a flat range of elements.
//
// A rule knows no parameters, shards or ranks; zero/ calls it on flat segments. Moments and masters
// are in the wide type. Sources: Adam arXiv 1412.6980, AdamW arXiv 1711.05101 (decay before the
// update), SGD with momentum as in PyTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/backend/backend.h"

namespace trireme {

enum class OptimizerKind : std::uint8_t { kAdamW, kAdam, kSgd };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double momentum = 0;
  double weight_decay = 0;  // decoupled for AdamW, added to the gradient for Adam and SGD
};

// One update of elements [0, n) of equally long flat tensors.
struct OptimizerRange {
  Tensor master;               // wide
  std::vector<Tensor> states;  // moments(options) of them, wide
  Tensor gradient;
  Tensor weights;     // compute type; undefined when the master is the weight
  bool decay = true;  // is weight decay applied here?
};

struct OptimizerStep {
  std::int64_t number = 1;  // optimizer steps taken, this one included
  double lr = 0;
  double gradient_factor = 1;  // clip factor / loss scale
};

// State tensors per element beside the master: 2, or 1 or 0 for SGD with and without momentum.
int moments(const OptimizerOptions& options);
// Their names in checkpoints, those of PyTorch: exp_avg and exp_avg_sq, or momentum.
std::vector<std::string> moment_names(const OptimizerOptions& options);

void apply(Backend& backend, const OptimizerOptions& options, const OptimizerStep& step,
           const OptimizerRange& range);

// min(1, clip / (norm + 1e-6)), the convention of torch.nn.utils.clip_grad_norm_; 1 when clip is 0
// (off).
double clip_factor(double norm, double clip);

}  // namespace trireme
