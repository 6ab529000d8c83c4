// What a forecast knows of its rank before it walks a step. Internal to forecast.
#pragma once

#include <memory>
#include <vector>

#include "framework/comm/communicator.h"
#include "offload/tiled_store.h"
#include "recipes/models/engine.h"

namespace trireme {

// Sizes in bytes of an element, the rank's plan, and which share of the units it owns.
struct ForecastRank {
  ForecastRank(const EngineOptions& options, const MeshShape& mesh, const MeshCoord& coord);

  const EngineOptions& options;
  MeshShape mesh;
  MeshCoord coord;
  std::unique_ptr<Communicator> tensor;  // on paper
  StagePlan plan;
  int shards = 1, replicas = 1;  // ranks of a sharding group, and groups
  std::vector<FlatLayout> layouts;
  ActionList actions;
  std::vector<std::int64_t> samples;  // of each micro-batch
  std::int64_t compute = 0, wide = 0, gradients = 0;
  StagePolicy policy;

  int shard_rank() const { return coord.data % shards; }
  bool first_stage() const { return coord.pipeline == 0; }
  bool last_stage() const { return coord.pipeline + 1 == mesh.pipeline; }
  bool all_trained() const;
  std::int64_t elements() const;
  std::int64_t trainable() const;

  // Stores of what is not at home on the device; no parts where there is none.
  TiledShape weights_store() const, gradients_store() const, states_store() const;
};

}  // namespace trireme
