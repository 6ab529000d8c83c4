// One rank's part of a model: modules of its list entries, wrapped for ZeRO and recomputation,
// ready for a Runner.
//
// Wrapping order is the policy: Sharded around each entry, Recompute around segments of them, so
// that a recomputed segment gathers its weights again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/nn/recompute.h"
#include "pipeline/runner.h"
#include "recipes/models/offload_place.h"
#include "recipes/models/stage_plan.h"
#include "zero/sharded.h"

namespace trireme {

struct StageOptions {
  StagePlanOptions plan;
  int zero_stage = 0;
  int shard_ranks = 0;  // data ranks of a sharding group; 0: all
  Reshard reshard = Reshard::kForward;
  bool overlap = true;                 // reductions and gathers while the rank computes
  std::int64_t max_live = 0;           // gathered elements; 0: no bound
  bool partition_activations = false;  // kept inputs over tensor ranks
  DType compute = DType::kF32, gradients = DType::kF32;
  OffloadTiers offload;
  bool forward_only = false;  // parameters away from the device are streamed
};

class StageModel {
 public:
  // `bounds` cut the list into pipeline x chunks parts. Allocates this rank's parameters; they are
  // zero until an optimizer fills them. `order` is that of a training step. `place` may be null
  // when nothing is offloaded.
  StageModel(const ModelOptions& model, const Bounds& bounds, int chunks, Mesh& mesh,
             Backend& backend, const StageOptions& options, const ActionList& actions,
             std::int64_t micro_samples, OffloadPlace* place);

  std::vector<Chunk> chunks() const { return chunks_; }
  std::vector<Unit*> units() const;
  const StagePlan& plan() const { return plan_; }
  const std::vector<int>& entries_per_chunk() const { return plan_.entries_per_chunk; }
  const GatherPlan& training_plan() const { return training_plan_; }
  // Before a training pass: units learn how many backward passes come. Weights are held as planned
  // until end_pass().
  void begin_step();
  void begin_forward_pass(const ActionList& actions);
  void end_pass();
  // Instead, after an exception in a forward pass: the next one may begin.
  void abandon_pass() noexcept;
  // Instead of training: Unit::tile_weights() of all units, once their values are in.
  void tile_weights();
  // Streamed weights: null if there are none.
  WeightStream* stream() const { return stream_.get(); }
  // A pass that brings and gathers its weights, and computes nothing.
  void fetch_pass(const ActionList& actions);
  void expect_present() const;              // throws Error when files were removed underneath
  std::vector<TiledStore*> stores() const;  // of gradients and weights away from the device
  // Data ranks that share one copy of the states, and those that hold the same shard.
  Communicator& shards() const { return *shards_; }
  Communicator* replicas() const { return replicas_; }
  // Elements this rank holds after tensor and pipeline splits, with padding.
  std::int64_t elements() const;
  void visit(const ParameterFn& fn);

 private:
  void make_units(Backend& backend, OffloadPlace* place);
  void make_activation_store(Backend& backend, const Mesh& mesh, OffloadPlace* place,
                             const std::vector<LayerSpec>& list, std::int64_t micro_samples,
                             const std::vector<Use>& order);
  void wrap();
  GatherPlan gather_plan(const std::vector<Use>& order) const;
  const std::vector<int>& plan_forward(const ActionList& actions);

  StageOptions options_;
  StagePlan plan_;
  Communicator* shards_ = nullptr;
  Communicator* replicas_ = nullptr;
  std::vector<FlatLayout> layouts_;
  std::vector<std::int64_t> backward_uses_;  // of each unit, in a training step
  GatherPlan training_plan_, forward_plan_;
  ActionList forward_actions_;                               // that forward_plan_ was made for
  std::vector<int> forward_gathers_;                         // units, in the order of that
  std::unique_ptr<ActivationStore> home_store_, cut_store_;  // of kept inputs; the second cuts them
  std::unique_ptr<TiledStore> weights_, gradients_;
  std::unique_ptr<WeightStream> stream_;
  std::unique_ptr<ReductionQueue> reductions_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::unique_ptr<Residency> residency_;
  std::vector<ModulePtr> modules_;
  std::vector<Chunk> chunks_;
};

}  // namespace trireme
