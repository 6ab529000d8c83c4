// One rank's part of a model: modules of its list entries, wrapped for ZeRO and recomputation,
// ready for a Runner.
//
// Wrapping order is the policy: Sharded around each entry, Recompute around segments of them, so
// that a recomputed segment gathers its weights again. A tied table is a unit of its own with two
// users, laid out alike on both end stages.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/comm/mesh.h"
#include "framework/nn/recompute.h"
#include "pipeline/partition.h"
#include "pipeline/runner.h"
#include "pipeline/uses.h"
#include "recipes/models/layer_list.h"
#include "zero/sharded.h"

namespace trireme {

enum class RecomputeMode : std::uint8_t { kNone, kFull, kSelective };

struct StageOptions {
  bool sequence_parallel = false;
  RecomputeMode recompute = RecomputeMode::kNone;
  std::int64_t recompute_every = 1;  // layers per recomputed segment, with kFull
  int zero_stage = 0;
  std::function<bool(const std::string& parameter)> frozen;  // not trained; empty = none
  UnitOptions unit;  // types; the stage's policy and queue are set by StageModel
};

class StageModel {
 public:
  // `bounds` cut the list into pipeline x chunks parts. Allocates and initialises this rank's
  // parameters.
  StageModel(const ModelOptions& model, const Bounds& bounds, int chunks, const Mesh& mesh,
             Backend& backend, const StageOptions& options);

  std::vector<Chunk> chunks() const { return chunks_; }
  std::vector<Unit*> units() const;
  // List entries that use unit i, as indices over all chunks.
  const std::vector<std::vector<int>>& users() const { return users_; }
  const std::vector<int>& entries_per_chunk() const { return entry_counts_; }
  // Tells the units how many backward passes the order holds.
  void begin_step(const std::vector<Use>& order);
  // Elements this rank holds after tensor and pipeline splits: with padding, and the padding alone.
  std::int64_t elements() const;
  std::int64_t padding() const;
  void visit(const ParameterFn& fn);

 private:
  void add_chunk(const std::vector<LayerSpec>& list, int begin, int end, BuildContext& build);
  std::vector<Unit*> make_units(const std::string& name, Module& module, int entry);
  void wrap(std::vector<ModulePtr> entries, const std::vector<bool>& recomputable);

  const Mesh& mesh_;
  Backend& backend_;
  StageOptions options_;
  std::unique_ptr<ActivationStore> store_;
  std::unique_ptr<ReductionQueue> reductions_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::vector<int>> users_;  // entries that use unit i
  std::vector<ModulePtr> modules_;
  std::vector<Chunk> chunks_;
  std::vector<int> entry_counts_;
  bool ties_ = false;
  int next_entry_ = 0;
};

}  // namespace trireme
