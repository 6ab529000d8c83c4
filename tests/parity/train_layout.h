// Trains a tiny model under a layout, with thread ranks in this process, and collects what must not
// depend on the layout.
#pragma once

#include <functional>
#include <map>
#include <mutex>
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
  int zero_stage = 0;
  std::vector<int> partition = {};  // list entries per virtual stage; empty = by cost
  int shard_ranks = 0;
  Reshard reshard = Reshard::kForward;
  bool overlap = true;
  std::int64_t max_live = 0;
  bool partition_activations = false;
  OffloadTiers offload = {};
};
std::string text_of(const Layout& layout);

struct Task {
  ModelOptions model;
  std::int64_t global_batch = 12;
  int steps = 3;
  double label_smoothing = 0.1;
  std::uint64_t seed = 7;
  OptimizerOptions optimizer{.eps = 1e-3, .weight_decay = 0.1};
  LrShape lr_shape = LrShape::kCosine;
  double lr = 1e-2, clip = 0.5;
  DType compute = DType::kF64;
  bool narrow_gradients = false;  // of the compute type, not of the wide one
  LossScaleOptions loss_scale = {};
  std::function<bool(const std::string&)> frozen = {};
  bool state_copy = false;
  bool forward_only = false;  // weights of `seed`, streamed if they are not on the device
  WeightFormat weights = WeightFormat::kPlain;  // of a model that is only run
  bool documents = false;  // samples are of several, which do not see each other
  std::function<std::unique_ptr<Backend>(std::shared_ptr<MemoryLedger>)> backend =
      make_reference_backend;
  // What a rank sees of its files and of its peers; a fault or a delay may be put between.
  std::function<std::unique_ptr<Files>()> files = real_files;
  std::function<std::unique_ptr<Communicator>(Communicator& world)> network = {};  // empty: as is
  CommunicatorOptions communicator{.timeout_seconds = 120};
};

// One rank of a layout.
struct Rank {
  Engine& engine;
  Mesh& mesh;
  Backend& backend;
  bool first() const { return mesh.world().rank() == 0; }
};
// Runs `body` on thread ranks; every byte must have been given back when the engines are gone.
void run_layout(const Task& task, const Layout& layout, const std::function<void(Rank&)>& body);

// 4 layers, hidden 16, 4 heads, 8 tokens, vocabulary 13.
ModelOptions tiny_gpt2();
ModelOptions tiny_llama(std::int64_t kv_heads);
// Every switch of the later families: a norm and biases of queries and keys, a window, scaled
// frequencies; norms of weight + 1, gated GELU, a scaled embedding, heads of an own size.
ModelOptions tiny_qwen(std::int64_t kv_heads);
ModelOptions tiny_gemma();
ModelOptions tiny_mlp();

using Logical = std::map<std::string, std::vector<double>>;  // whole tensors by name

// Collects the logical tensors of all ranks. Copies must have the same bits, else Error.
class LogicalTensors {
 public:
  void add_weights(Rank& rank) { add(rank, false); }
  void add_gradients(Rank& rank) { add(rank, true); }  // of trained parameters
  const Logical& tensors() const { return tensors_; }

 private:
  void add(Rank& rank, bool gradients);
  std::mutex mutex_;
  Logical tensors_;
};

// The rectangle of each section out of whole tensors.
SectionSource source_of(const Logical& tensors);

struct Curve {
  std::vector<double> losses, norms;
  double validation = 0;
  Logical weights;    // after the last step
  Logical gradients;  // of the first step, summed over data ranks, before clipping
};

Curve train(const Task& task, const Layout& layout);

// Largest |a - b| / max|a| over losses, norms and validation; and over the whole model's weights or
// gradients.
double distance(const Curve& a, const Curve& b);
double distance(const Logical& a, const Logical& b);

// A text of ids: the same for all ranks and layouts.
SampleSource random_samples(const ModelOptions& model, std::uint64_t seed);
// With documents of one token to a few, if the task has them.
SampleSource samples_of(const Task& task);

}  // namespace trireme::parity
