// One rank's part of a model as a value without memory: its list entries, which parameters make a
// unit, and which entries are recomputed together. The stage that trains is built from it, and so
// is the forecast of its memory and traffic: neither can differ from the other.
//
// A tied table is a unit of its own with two users, laid out alike on both end stages. Frozen
// parameters of an entry are a unit apart from those trained: without gradients and states.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/comm/mesh.h"
#include "pipeline/partition.h"
#include "recipes/models/layer_list.h"
#include "zero/flat_layout.h"
#include "zero/gather_plan.h"
#include "zero/stage.h"
#include "zero/touches.h"
#include "zero/unit.h"

namespace trireme {

enum class RecomputeMode : std::uint8_t { kNone, kFull, kSelective };

struct UnitPlan {
  std::string name;
  std::vector<Parameter*> parameters;  // of the entries' modules
  std::vector<int> users;              // list entries of this rank, from 0
  bool trainable = false;
};

struct EntryPlan {
  std::size_t layer = 0;   // index in the list of layers
  ModulePtr module;        // this tensor rank's part of it; declarations only
  std::vector<int> units;  // that hold its parameters
  int segment = -1;        // entries of one number are wrapped for recomputation together
  bool run_again =
      false;  // in backward; not where nothing in or below the segment wants a gradient
};

struct StagePlanOptions {
  bool sequence_parallel = false;
  RecomputeMode recompute = RecomputeMode::kNone;
  std::int64_t recompute_every = 1;
  std::function<bool(const std::string& parameter)> frozen;  // not trained; empty = none
  // How weights that products alone read are held (held_format); unless plain nothing may be
  // trained.
  WeightFormat weights = WeightFormat::kPlain;
};

struct StagePlan {
  std::vector<EntryPlan> entries;
  std::vector<UnitPlan> units;
  std::vector<int> entries_per_chunk;
  std::vector<Cut> inputs, outputs;  // of each chunk
  bool bytes = false;                // units are held as bytes (UnitOptions); layouts count those

  // Layouts of the units over the ranks that share them out.
  std::vector<FlatLayout> layouts(int shard_ranks, DType compute) const;
  // What a pass does to the units. `late_release`: with selective recomputation.
  std::vector<Touch> touches(const std::vector<Use>& order, bool late_release) const;
  GatherPlanOptions gather_options(const std::vector<FlatLayout>& layouts) const;
  // Elements that a unit's layout adds to those of the logical model: its own padding and that of
  // sections (vocabulary).
  std::int64_t padding(const std::vector<FlatLayout>& layouts) const;

  // Most inputs of segments that are run again that are kept at a time.
  std::int64_t most_kept(const std::vector<Use>& order) const;
  // Bytes of the largest of them in `dtype`, for micro-batches of `samples`; of the largest piece
  // when each is cut into `cuts`.
  std::int64_t largest_kept(const std::vector<LayerSpec>& list, std::int64_t samples, int cuts,
                            DType dtype) const;
};

// `tensor` is only asked for rank and size; `bounds` cut the list into pipeline x chunks parts.
StagePlan plan_stage(const ModelOptions& model, const Bounds& bounds, int chunks,
                     const MeshShape& mesh, const MeshCoord& coord, Communicator& tensor,
                     const StagePlanOptions& options);

}  // namespace trireme
