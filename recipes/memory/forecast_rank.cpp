#include "recipes/memory/forecast_rank.h"

#include <algorithm>

#include "framework/base/error.h"
#include "recipes/memory/paper_backend.h"

namespace trireme {

namespace {

std::vector<std::int64_t> cut(std::int64_t share, std::int64_t micro) {
  std::vector<std::int64_t> samples;
  for (std::int64_t done = 0; done < share; done += micro)
    samples.push_back(std::min(micro, share - done));
  return samples;
}

}  // namespace

ForecastRank::ForecastRank(const EngineOptions& o, const MeshShape& shape, const MeshCoord& at)
    : options(o),
      mesh(shape),
      coord(at),
      tensor(make_paper_communicator(at.tensor, shape.tensor, "tensor")),
      plan(plan_stage(o.model, partition_of(o, shape.pipeline), o.chunks, shape, at, *tensor,
                      o.stage.plan)),
      shards(o.stage.shard_ranks == 0 ? shape.data : o.stage.shard_ranks),
      replicas(shape.data / shards),
      layouts(plan.layouts(shards, o.stage.compute)),
      compute(size_of(o.stage.compute)),
      wide(size_of(accumulation_type(o.stage.compute))),
      gradients(size_of(o.stage.gradients)),
      policy(policy_of(o.stage.zero_stage)) {
  const std::int64_t share = o.global_batch / shape.data;
  check(share > 0 && o.micro_batch > 0, "batch: ", o.global_batch, " samples over ", shape.data,
        " data ranks in micro-batches of ", o.micro_batch);
  samples = cut(share, std::min(o.micro_batch, share));
  actions = make_schedule(o.schedule, shape.pipeline, static_cast<int>(samples.size()),
                          o.chunks)[static_cast<std::size_t>(at.pipeline)];
}

bool ForecastRank::all_trained() const {
  for (const UnitPlan& unit : plan.units)
    for (const Parameter* parameter : unit.parameters)
      if (!parameter->spec().trainable) return false;
  return true;
}

std::int64_t ForecastRank::elements() const {
  std::int64_t n = 0;
  for (const FlatLayout& layout : layouts) n += layout.padded();
  return n;
}

std::int64_t ForecastRank::trainable() const {
  std::int64_t n = 0;
  for (std::size_t u = 0; u < layouts.size(); ++u)
    n += plan.units[u].trainable ? layouts[u].padded() : 0;
  return n;
}

TiledShape ForecastRank::weights_store() const {
  TiledShape shape{.arrays = {options.stage.compute},
                   .tile = options.stage.offload.tile,
                   .kind = MemoryKind::kParameters};
  for (const FlatLayout& layout : layouts)
    shape.parts.push_back(policy.whole_weights ? layout.padded() : layout.padded() / shards);
  return shape;
}

TiledShape ForecastRank::gradients_store() const {
  TiledShape shape{.arrays = {options.stage.gradients},
                   .tile = options.stage.offload.tile,
                   .kind = MemoryKind::kGradients};
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    const std::int64_t whole = layouts[u].padded();
    shape.parts.push_back(!plan.units[u].trainable ? 0
                          : policy.whole_gradients ? whole
                                                   : whole / shards);
  }
  return shape;
}

TiledShape ForecastRank::states_store() const {
  const int arrays = moments(options.optimizer.optimizer) + (wide == compute ? 0 : 1);
  TiledShape shape{.arrays = std::vector<DType>(static_cast<std::size_t>(arrays),
                                                accumulation_type(options.stage.compute)),
                   .tile = options.stage.offload.tile,
                   .kind = MemoryKind::kOptimizer};
  for (std::size_t u = 0; u < layouts.size(); ++u)
    shape.parts.push_back(!plan.units[u].trainable ? 0
                          : policy.whole_states    ? layouts[u].padded()
                                                   : layouts[u].padded() / shards);
  return shape;
}

}  // namespace trireme
