#include "recipes/models/stage_model.h"

#include <algorithm>

namespace trireme {

namespace {

bool holds(const Unit& unit, const Parameter& parameter) {
  const auto& all = unit.parameters();
  return std::find(all.begin(), all.end(), &parameter) != all.end();
}

}  // namespace

StageModel::StageModel(const ModelOptions& model, const Bounds& bounds, int chunks,
                       const Mesh& mesh, Backend& backend, const StageOptions& options)
    : mesh_(mesh),
      backend_(backend),
      options_(options),
      store_(std::make_unique<KeepOnDevice>()),
      reductions_(std::make_unique<ReductionQueue>()),
      ties_(model.tie_embeddings) {
  options_.unit.policy = policy_of(options.zero_stage);
  options_.unit.reductions = reductions_.get();
  const std::vector<LayerSpec> list = layer_list(model);
  const int stages = mesh.shape().pipeline;
  BuildContext build{.tensor = {&mesh.tensor()},
                     .sequence_parallel = options.sequence_parallel,
                     .split_ends = stages > 1};
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const auto part = static_cast<std::size_t>(chunk * stages + mesh.coord().pipeline);
    add_chunk(list, bounds[part], bounds[part + 1], build);
  }
}

// The units of one entry: its own parameters, and a tied table apart.
std::vector<Unit*> StageModel::make_units(const std::string& name, Module& module, int entry) {
  std::vector<Parameter*> own, tied;
  std::vector<Unit*> result;
  module.visit([&](Parameter& p) {
    for (std::size_t u = 0; u < units_.size(); ++u)
      if (holds(*units_[u], p)) {
        users_[u].push_back(entry);
        units_[u]->add_user();
        result.push_back(units_[u].get());
        return;
      }
    (ties_ && p.name() == "embedding.table" ? tied : own).push_back(&p);
  });
  const auto make = [&](const std::string& unit_name, std::vector<Parameter*> parameters) {
    if (parameters.empty()) return;
    units_.push_back(std::make_unique<Unit>(unit_name, std::move(parameters), backend_,
                                            mesh_.data(), options_.unit));
    units_.back()->add_user();
    users_.push_back({entry});
    result.push_back(units_.back().get());
  };
  make("embedding.table", std::move(tied));
  make(name, std::move(own));
  return result;
}

void StageModel::add_chunk(const std::vector<LayerSpec>& list, int begin, int end,
                           BuildContext& build) {
  Chunk chunk;
  if (begin > 0) chunk.input = list[static_cast<std::size_t>(begin - 1)].output;
  chunk.output = list[static_cast<std::size_t>(end - 1)].output;
  chunks_.push_back(chunk);
  std::vector<ModulePtr> entries;
  std::vector<bool> recomputable;
  for (int i = begin; i < end; ++i) {
    const LayerSpec& layer = list[static_cast<std::size_t>(i)];
    ModulePtr module = layer.build(build);
    module->visit([&](Parameter& p) {
      if (options_.frozen && options_.frozen(p.name())) p.freeze();
    });
    std::vector<Unit*> units = make_units(layer.name, *module, next_entry_++);
    entries.push_back(std::make_unique<Sharded>(std::move(module), std::move(units)));
    recomputable.push_back(layer.recomputable && options_.recompute == RecomputeMode::kFull);
  }
  entry_counts_.push_back(end - begin);
  wrap(std::move(entries), recomputable);
}

// Runs of recomputable entries become segments of recompute_every of them, the last one smaller.
void StageModel::wrap(std::vector<ModulePtr> entries, const std::vector<bool>& recomputable) {
  for (std::size_t i = 0; i < entries.size();) {
    std::vector<ModulePtr> segment;
    if (!recomputable[i]) {
      modules_.push_back(std::move(entries[i++]));
    } else {
      while (i < entries.size() && recomputable[i] &&
             static_cast<std::int64_t>(segment.size()) < options_.recompute_every)
        segment.push_back(std::move(entries[i++]));
      modules_.push_back(
          std::make_unique<Recompute>(std::make_unique<Sequence>(std::move(segment)), *store_));
    }
    chunks_.back().entries.push_back(modules_.back().get());
  }
}

std::vector<Unit*> StageModel::units() const {
  std::vector<Unit*> all;
  for (const auto& unit : units_) all.push_back(unit.get());
  return all;
}

void StageModel::begin_step(const std::vector<Use>& order) {
  const std::vector<std::int64_t> uses = backward_uses(order, next_entry_);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    std::int64_t total = 0;
    for (int entry : users_[u]) total += uses[static_cast<std::size_t>(entry)];
    units_[u]->begin_step(total);
  }
}

std::int64_t StageModel::elements() const {
  std::int64_t n = 0;
  for (const auto& unit : units_) n += unit->layout().padded();
  return n;
}

std::int64_t StageModel::padding() const {
  std::int64_t real = 0;
  for (const auto& unit : units_)
    for (const Parameter* p : unit->parameters())
      for (const Section& section : p->spec().sections)
        real += p->spec().shape.dims() < 2 ? section.rows : section.rows * p->spec().shape[1];
  return elements() - real;
}

void StageModel::visit(const ParameterFn& fn) {
  for (const auto& unit : units_)
    for (Parameter* p : unit->parameters()) fn(*p);
}

}  // namespace trireme
