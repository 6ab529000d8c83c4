#include "recipes/models/stage_plan.h"

#include <algorithm>

namespace trireme {

namespace {

// Puts the parts of one rank together, entry after entry.
class Planner {
 public:
  Planner(StagePlan& plan, const std::vector<LayerSpec>& list, bool ties, BuildContext build,
          const StagePlanOptions& options)
      : plan_(plan), list_(list), ties_(ties), build_(build), options_(options) {}

  void add_chunk(int begin, int end, bool first) {
    plan_.inputs.push_back(begin > 0 ? list_[static_cast<std::size_t>(begin - 1)].output : Cut{});
    plan_.outputs.push_back(list_[static_cast<std::size_t>(end - 1)].output);
    plan_.entries_per_chunk.push_back(end - begin);
    const std::size_t start = plan_.entries.size();
    for (int i = begin; i < end; ++i) add_entry(static_cast<std::size_t>(i));
    if (options_.recompute == RecomputeMode::kFull) cut_segments(start, !first);
  }

 private:
  void add_entry(std::size_t layer) {
    EntryPlan entry{.layer = layer, .module = list_[layer].build(build_)};
    entry.module->visit([&](Parameter& p) {
      if (options_.frozen && options_.frozen(p.name())) p.freeze();
      p.hold_as(options_.weights);
    });
    entry.units = units_of(*entry.module, static_cast<int>(plan_.entries.size()), layer);
    plan_.entries.push_back(std::move(entry));
  }

  // Its own parameters, frozen ones apart, and a tied table apart.
  std::vector<int> units_of(Module& module, int entry, std::size_t layer) {
    std::vector<Parameter*> own, frozen, tied;
    std::vector<int> result;
    module.visit([&](Parameter& p) {
      for (std::size_t u = 0; u < plan_.units.size(); ++u) {
        const std::vector<Parameter*>& all = plan_.units[u].parameters;
        if (std::find(all.begin(), all.end(), &p) == all.end()) continue;
        plan_.units[u].users.push_back(entry);
        result.push_back(static_cast<int>(u));
        return;
      }
      (ties_ && p.name() == "embedding.table" ? tied
       : p.spec().trainable                   ? own
                                              : frozen)
          .push_back(&p);
    });
    const auto make = [&](const std::string& name, std::vector<Parameter*> parameters) {
      if (parameters.empty()) return;
      const bool trains = std::any_of(parameters.begin(), parameters.end(),
                                      [](const Parameter* p) { return p->spec().trainable; });
      result.push_back(static_cast<int>(plan_.units.size()));
      plan_.units.push_back({name, std::move(parameters), {entry}, trains});
    };
    make("embedding.table", std::move(tied));
    make(list_[layer].name + (own.empty() ? "" : ", frozen"), std::move(frozen));
    make(list_[layer].name, std::move(own));
    return result;
  }

  // Runs of recomputable entries become segments of recompute_every of them, the last one smaller.
  // Where nothing wants a gradient, neither below nor inside, a segment is not run again.
  void cut_segments(std::size_t begin, bool wanted) {
    const std::size_t end = plan_.entries.size();
    for (std::size_t i = begin; i < end;) {
      std::size_t stop = i;
      bool trains = false;
      while (stop < end && list_[plan_.entries[stop].layer].recomputable &&
             stop - i < static_cast<std::size_t>(options_.recompute_every))
        trains |= wants_grad(*plan_.entries[stop++].module);
      if (stop == i) {
        wanted |= wants_grad(*plan_.entries[i++].module);
        continue;
      }
      wanted |= trains;
      for (; i < stop; ++i) {
        plan_.entries[i].segment = segments_;
        plan_.entries[i].run_again = wanted;
      }
      ++segments_;
    }
  }

  StagePlan& plan_;
  const std::vector<LayerSpec>& list_;
  bool ties_;
  BuildContext build_;
  const StagePlanOptions& options_;
  int segments_ = 0;
};

}  // namespace

StagePlan plan_stage(const ModelOptions& model, const Bounds& bounds, int chunks,
                     const MeshShape& mesh, const MeshCoord& coord, Communicator& tensor,
                     const StagePlanOptions& options) {
  StagePlan plan;
  plan.bytes = options.weights != WeightFormat::kPlain;
  const std::vector<LayerSpec> list = layer_list(model);
  const BuildContext build{.tensor = {&tensor},
                           .sequence_parallel = options.sequence_parallel,
                           .split_ends = mesh.pipeline > 1};
  Planner planner(plan, list, model.tie_embeddings, build, options);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const auto part = static_cast<std::size_t>(chunk * mesh.pipeline + coord.pipeline);
    planner.add_chunk(bounds[part], bounds[part + 1], part == 0);
  }
  return plan;
}

std::vector<FlatLayout> StagePlan::layouts(int shard_ranks, DType compute) const {
  std::vector<FlatLayout> all;
  for (const UnitPlan& unit : units)
    all.push_back(layout_of(unit.parameters, shard_ranks, compute, bytes));
  return all;
}

std::vector<Touch> StagePlan::touches(const std::vector<Use>& order, bool late_release) const {
  TouchOptions options{.late_release = late_release, .entries = static_cast<int>(entries.size())};
  for (const EntryPlan& entry : entries)
    options.segments.push_back(entry.run_again ? entry.segment : -1);
  return trireme::touches(order, options);
}

GatherPlanOptions StagePlan::gather_options(const std::vector<FlatLayout>& layouts) const {
  GatherPlanOptions options;
  for (const UnitPlan& unit : units) options.users.push_back(unit.users);
  for (const FlatLayout& layout : layouts) options.elements.push_back(layout.padded());
  return options;
}

std::int64_t StagePlan::padding(const std::vector<FlatLayout>& layouts) const {
  std::int64_t padding = 0;
  for (const FlatLayout& layout : layouts) padding += layout.padded();
  for (const UnitPlan& unit : units)
    for (const Parameter* p : unit.parameters)
      for (const Section& section : p->spec().sections)
        padding -= p->spec().shape.dims() < 2 ? section.rows : section.rows * p->spec().shape[1];
  return padding;
}

std::int64_t StagePlan::most_kept(const std::vector<Use>& order) const {
  const auto segment = [&](int entry) {
    const bool inside = entry >= 0 && entry < static_cast<int>(entries.size());
    return inside ? entries[static_cast<std::size_t>(entry)].segment : -1;
  };
  std::int64_t kept = 0, most = 0;
  for (const Use& use : order) {
    if (!entries[static_cast<std::size_t>(use.entry)].run_again) continue;
    const int own = segment(use.entry);
    if (use.kind == Use::Kind::kForward && segment(use.entry - 1) != own)
      most = std::max(most, ++kept);
    if (use.kind == Use::Kind::kBackward && segment(use.entry + 1) != own) --kept;
  }
  return most;
}

std::int64_t StagePlan::largest_kept(const std::vector<LayerSpec>& list, std::int64_t samples,
                                     int cuts, DType dtype) const {
  std::int64_t most = 0;
  for (const EntryPlan& entry : entries) {
    if (!entry.run_again || entry.layer == 0) continue;
    const Cut& input = list[entry.layer - 1].output;
    const std::int64_t elements = samples * input.rows_per_sample * input.columns;
    most = std::max(most, (elements + cuts - 1) / cuts * size_of(dtype));
  }
  return most;
}

}  // namespace trireme
