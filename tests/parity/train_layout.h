// Trains a tiny model under a layout, with thread ranks in this process, and collects what must not
// depend on the layout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recipes/models/engine.h"

namespace trireme::parity {

struct Layout {
  MeshShape mesh;
  ScheduleKind schedule = ScheduleKind::kOneFOneB;
  int chunks = 1;
  std::int64_t micro = 1;  // samples per micro-batch
  bool sequence_parallel = false;
  RecomputeMode recompute = RecomputeMode::kNone;
  std::int64_t recompute_every = 1;
};
std::string text_of(const Layout& layout);

struct Task {
  ModelOptions model;
  std::int64_t global_batch = 12;
  int steps = 3;
  double label_smoothing = 0.1;
  std::uint64_t seed = 7;
  OptimizerOptions optimizer{.eps = 1e-3, .weight_decay = 0.1};
  double lr = 1e-2, clip = 0.5;
  DType compute = DType::kF64;
};

// 4 layers, hidden 16, 4 heads, 8 tokens, vocabulary 13.
ModelOptions tiny_gpt2();
ModelOptions tiny_llama(std::int64_t kv_heads);
ModelOptions tiny_mlp();

struct Curve {
  std::vector<double> losses, norms;
  double validation = 0;
  std::map<std::string, std::vector<double>> weights;  // logical tensors after the last step
  std::map<std::string, std::vector<double>>
      gradients;  // of the first step, summed over data ranks
};

Curve train(const Task& task, const Layout& layout);

// Largest |a - b| / max|a| over losses, norms and validation; and over the whole model's weights or
// gradients.
double distance(const Curve& a, const Curve& b);
double distance(const std::map<std::string, std::vector<double>>& a,
                const std::map<std::string, std::vector<double>>& b);

// A text of ids: the same for all ranks and layouts.
SampleSource random_samples(const ModelOptions& model, std::uint64_t seed);

}  // namespace trireme::parity
