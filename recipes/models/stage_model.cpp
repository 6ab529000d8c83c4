#include "recipes/models/stage_model.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

StageModel::StageModel(const ModelOptions& model, const Bounds& bounds, int chunks, Mesh& mesh,
                       Backend& backend, const StageOptions& options, const ActionList& actions,
                       std::int64_t micro_samples, OffloadPlace* place)
    : options_(options),
      plan_(plan_stage(model, bounds, chunks, mesh.shape(), mesh.coord(), mesh.tensor(),
                       options.plan)),
      home_store_(std::make_unique<KeepOnDevice>()),
      reductions_(std::make_unique<ReductionQueue>()) {
  check(place || !options.offload.any(), "offload: a tier is named, but there is no place for it");
  const DataGroups groups = mesh.data_groups(options.shard_ranks);
  shards_ = groups.shards;
  replicas_ = groups.replicas;
  layouts_ = plan_.layouts(shards_->size(), options.compute);
  const std::vector<Use> order = flatten(actions, plan_.entries_per_chunk);
  if (!policy_of(options.zero_stage).whole_weights) training_plan_ = gather_plan(order);
  const std::vector<std::int64_t> uses =
      backward_uses(order, static_cast<int>(plan_.entries.size()));
  for (const UnitPlan& unit : plan_.units) {
    backward_uses_.push_back(0);
    for (const int entry : unit.users)
      backward_uses_.back() += uses[static_cast<std::size_t>(entry)];
  }
  make_units(backend, place);
  make_activation_store(backend, mesh, place, layer_list(model), micro_samples, order);
  wrap();
}

GatherPlan StageModel::gather_plan(const std::vector<Use>& order) const {
  GatherPlanOptions options = plan_.gather_options(layouts_);
  options.reshard = options_.reshard;
  options.prefetch = options_.overlap && !stream_;  // a stream looks ahead by itself
  options.max_live = options_.max_live;
  return {plan_.touches(order, options_.plan.recompute == RecomputeMode::kSelective), options};
}

// One part of the stores per unit: its shard, or all of a gradient that stays whole.
void StageModel::make_units(Backend& backend, OffloadPlace* place) {
  const StagePolicy policy = policy_of(options_.zero_stage);
  const DType held = plan_.bytes ? DType::kU8 : options_.compute;
  TiledShape weights{.arrays = {held}, .kind = MemoryKind::kParameters};
  TiledShape gradients{.arrays = {options_.gradients}, .kind = MemoryKind::kGradients};
  for (std::size_t u = 0; u < layouts_.size(); ++u) {
    const std::int64_t whole = layouts_[u].padded(), shard = whole / shards_->size();
    weights.parts.push_back(shard);
    gradients.parts.push_back(!plan_.units[u].trainable ? 0
                              : policy.whole_gradients  ? whole
                                                        : shard);
  }
  const bool streams = options_.forward_only && options_.offload.parameters != Tier::kDevice;
  if (streams) {
    WeightStreamShape shape{.dtype = held};
    for (const FlatLayout& layout : layouts_)
      shape.parts.push_back({layout.padded(), layout.shard(shards_->rank())});
    stream_ = place->make_stream(std::move(shape));
  } else if (place) {
    weights_ = place->make_store(options_.offload.parameters, weights, "parameters");
    gradients_ = place->make_store(options_.offload.gradients, gradients, "gradients");
  }
  check(!stream_ || !policy.whole_weights,
        "offload.parameters: weights are streamed at zero.stage ", "3 only, not at ",
        options_.zero_stage);
  UnitOptions unit{.compute = options_.compute,
                   .bytes = plan_.bytes,
                   .gradients = options_.gradients,
                   .policy = policy,
                   .overlap = options_.overlap,
                   .reductions = reductions_.get(),
                   .replicas = replicas_,
                   .homes = {.host = place ? &place->host() : nullptr,
                             .weights = weights_.get(),
                             .gradients = gradients_.get(),
                             .stream = stream_.get()}};
  for (const UnitPlan& plan : plan_.units) {
    unit.homes.part = units_.size();
    units_.push_back(std::make_unique<Unit>(plan.name, plan.parameters, backend, *shards_, unit));
    for (std::size_t user = 0; user < plan.users.size(); ++user) units_.back()->add_user();
  }
}

void StageModel::make_activation_store(Backend& backend, const Mesh& mesh, OffloadPlace* place,
                                       const std::vector<LayerSpec>& list,
                                       std::int64_t micro_samples, const std::vector<Use>& order) {
  const bool cut_rows = options_.plan.sequence_parallel || options_.partition_activations;
  if (options_.offload.activations != Tier::kDevice)
    home_store_ = place->activations(
        {.slots = plan_.most_kept(order),
         .slot_bytes = plan_.largest_kept(list, micro_samples, cut_rows ? mesh.shape().tensor : 1,
                                          accumulation_type(options_.compute))});
  if (options_.partition_activations)
    cut_store_ = partition_activations(backend, mesh.tensor(), *home_store_);
}

void StageModel::wrap() {
  residency_ = std::make_unique<Residency>(units());
  ActivationStore& store = cut_store_ ? *cut_store_ : *home_store_;
  std::size_t entry = 0;
  const auto sharded = [&]() -> ModulePtr {
    std::vector<Unit*> used;
    for (const int u : plan_.entries[entry].units)
      used.push_back(units_[static_cast<std::size_t>(u)].get());
    const int number = static_cast<int>(entry);
    return std::make_unique<Sharded>(std::move(plan_.entries[entry++].module), std::move(used),
                                     residency_.get(), number);
  };
  for (std::size_t c = 0; c < plan_.entries_per_chunk.size(); ++c) {
    Chunk chunk{.input = plan_.inputs[c], .output = plan_.outputs[c]};
    const std::size_t end = entry + static_cast<std::size_t>(plan_.entries_per_chunk[c]);
    while (entry < end) {
      const int segment = plan_.entries[entry].segment;
      std::vector<ModulePtr> run;
      do run.push_back(sharded());
      while (segment >= 0 && entry < end && plan_.entries[entry].segment == segment);
      modules_.push_back(segment < 0 ? std::move(run.front())
                                     : std::make_unique<Recompute>(
                                           std::make_unique<Sequence>(std::move(run)), store));
      chunk.entries.push_back(modules_.back().get());
    }
    chunks_.push_back(std::move(chunk));
  }
}

std::vector<Unit*> StageModel::units() const {
  std::vector<Unit*> all;
  for (const auto& unit : units_) all.push_back(unit.get());
  return all;
}

void StageModel::begin_step() {
  for (std::size_t u = 0; u < units_.size(); ++u) units_[u]->begin_step(backward_uses_[u]);
  if (!policy_of(options_.zero_stage).whole_weights) residency_->begin(training_plan_);
}

const std::vector<int>& StageModel::plan_forward(const ActionList& actions) {
  if (forward_actions_ == actions) return forward_gathers_;
  forward_plan_ = gather_plan(flatten(actions, plan_.entries_per_chunk));
  forward_actions_ = actions;
  forward_gathers_.clear();
  for (std::size_t i = 0; i < forward_plan_.touches().size(); ++i)
    for (const int unit : forward_plan_.starts(i)) forward_gathers_.push_back(unit);
  return forward_gathers_;
}

void StageModel::begin_forward_pass(const ActionList& actions) {
  if (policy_of(options_.zero_stage).whole_weights) return;
  const std::vector<int>& gathers = plan_forward(actions);
  if (stream_) stream_->expect(gathers);
  residency_->begin(forward_plan_);
}

void StageModel::fetch_pass(const ActionList& actions) {
  if (!stream_) return;
  const std::vector<int>& gathers = plan_forward(actions);
  stream_->expect(gathers);
  for (const int u : gathers) {
    units_[static_cast<std::size_t>(u)]->gather();
    units_[static_cast<std::size_t>(u)]->release();
  }
}

void StageModel::end_pass() {
  if (!policy_of(options_.zero_stage).whole_weights) residency_->end();
  if (stream_) stream_->pass_ended();
}

void StageModel::abandon_pass() noexcept {
  residency_->abandon();
  for (const auto& unit : units_) unit->abandon();
}

void StageModel::tile_weights() {
  for (const auto& unit : units_) unit->tile_weights();
}

void StageModel::expect_present() const {
  for (TiledStore* store : stores()) store->expect_present();
}

std::vector<TiledStore*> StageModel::stores() const {
  std::vector<TiledStore*> all;
  for (TiledStore* store : {weights_.get(), gradients_.get()})
    if (store) all.push_back(store);
  if (stream_) all.push_back(stream_.get());
  return all;
}

std::int64_t StageModel::elements() const {
  std::int64_t n = 0;
  for (const FlatLayout& layout : layouts_) n += layout.padded();
  return n;
}

void StageModel::visit(const ParameterFn& fn) {
  for (const auto& unit : units_)
    for (Parameter* p : unit->parameters()) fn(*p);
}

}  // namespace trireme
