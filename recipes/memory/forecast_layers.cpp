#include "recipes/memory/forecast_layers.h"

#include <algorithm>

#include "framework/base/error.h"
#include "recipes/memory/traced_layer.h"

namespace trireme {

namespace {

std::string name_of(EntryKind kind) {
  return kind == EntryKind::kEmbedding ? "embedding" : kind == EntryKind::kHead ? "head" : "block";
}

}  // namespace

PaperLayers::PaperLayers(const ForecastRank& rank, Tally& tally)
    : rank_(rank),
      tally_(tally),
      stream_(
          tally.label(Tier::kDevice, MemoryKind::kActivations, "stream between entries", "r C w")),
      gradient_(
          tally.label(Tier::kDevice, MemoryKind::kActivations, "gradient of the stream", "r C w")) {
  find_narrow_gradients();
  find_wanted();
}

// The runner wants gradients of what came across a cut.
void PaperLayers::find_wanted() {
  std::size_t entry = 0;
  bool wanted = !rank_.first_stage();
  for (const int count : rank_.plan.entries_per_chunk) {
    for (int i = 0; i < count; ++i, ++entry) {
      wanted_.push_back(wanted);
      wanted = wanted || wants_grad(*rank_.plan.entries[entry].module);
    }
    wanted = true;
  }
}

bool PaperLayers::output_wanted(int entry) const {
  const auto at = static_cast<std::size_t>(entry);
  return wanted_[at] || wants_grad(*rank_.plan.entries[at].module);
}

// The published lists are of layers whose parameters are all trained, above others.
bool PaperLayers::is_traced(int entry) const {
  if (rank_.options.model.lora.rank > 0) return true;
  const auto at = static_cast<std::size_t>(entry);
  bool frozen = kind_of(entry) != EntryKind::kEmbedding && !wanted_[at];
  rank_.plan.entries[at].module->visit([&](Parameter& p) { frozen |= !p.spec().trainable; });
  return frozen;
}

EntryKind PaperLayers::kind_of(int entry) const {
  const std::size_t layer = rank_.plan.entries[static_cast<std::size_t>(entry)].layer;
  if (layer == 0) return EntryKind::kEmbedding;
  const auto last = static_cast<std::size_t>(rank_.options.model.layers) + 1;
  return layer == last ? EntryKind::kHead : EntryKind::kBlock;
}

// From the end of each chunk backwards; what comes from across a cut is wide.
void PaperLayers::find_narrow_gradients() {
  narrow_.resize(rank_.plan.entries.size());
  from_narrow_.resize(rank_.plan.entries.size());
  int first = 0;
  for (const int count : rank_.plan.entries_per_chunk) {
    bool narrow = false;
    for (int entry = first + count; entry-- > first;) {
      from_narrow_[static_cast<std::size_t>(entry)] = narrow;
      narrow = narrow_input_gradient(rank_.options.model, kind_of(entry), use_of(entry, 0));
      narrow_[static_cast<std::size_t>(entry)] = narrow;
    }
    first += count;
  }
}

LayerUse PaperLayers::use_of(int entry, int micro) const {
  const StageOptions& stage = rank_.options.stage;
  return {.samples = rank_.samples[static_cast<std::size_t>(micro)],
          .tensor = rank_.mesh.tensor,
          .sequence_parallel = stage.plan.sequence_parallel,
          .compute = stage.compute,
          .selective = stage.plan.recompute == RecomputeMode::kSelective,
          .dropout = rank_.options.model.dropout > 0,
          .first_block = rank_.plan.entries[static_cast<std::size_t>(entry)].layer == 1,
          .narrow_gradient = from_narrow_[static_cast<std::size_t>(entry)]};
}

const PaperLayers::Lists& PaperLayers::lists_of(int entry, int micro) {
  const LayerUse use = use_of(entry, micro);
  const EntryKind kind = kind_of(entry);
  const bool traced = is_traced(entry);
  const auto [it, fresh] = lists_.try_emplace(
      Key{traced ? entry : -1, kind, use.first_block, use.samples, use.narrow_gradient});
  Lists& lists = it->second;
  if (!fresh) return lists;
  const LayerMemory memory =
      traced ? traced_memory(rank_, entry,
                             {.kind = kind,
                              .layer = use,
                              .input_wants_grad = wanted_[static_cast<std::size_t>(entry)]})
             : layer_memory(rank_.options.model, kind, use);
  lists.forward = compiled(memory.forward, name_of(kind));
  lists.backward = compiled(memory.backward, name_of(kind));
  lists.inference = compiled(memory.inference, name_of(kind));
  lists.backward_input = compiled(memory.backward_input, name_of(kind));
  lists.backward_weight = compiled(memory.backward_weight, name_of(kind));
  for (const MemoryStep& step : memory.inference) {
    if (!step.take && step.tensor == "input") lists.input = step.bytes;
    if (step.take && step.tensor == "output") lists.output = step.bytes;
  }
  return lists;
}

int PaperLayers::label_of(const MemoryStep& step, const std::string& kind) {
  if (step.tensor == "input" || step.tensor == "output") return stream_;
  if (step.tensor == "input gradient" || step.tensor == "output gradient") return gradient_;
  return tally_.label(Tier::kDevice, step.kind, kind + ": " + step.tensor, step.formula);
}

std::vector<PaperLayers::Step> PaperLayers::compiled(const std::vector<MemoryStep>& steps,
                                                     const std::string& kind) {
  std::vector<Step> result;
  for (const MemoryStep& step : steps)
    result.push_back({.take = step.take,
                      .input = !step.take && step.tensor == "input",
                      .label = label_of(step, kind),
                      .bytes = step.bytes});
  return result;
}

void PaperLayers::replay(const std::vector<Step>& steps, bool holds_input) {
  for (const Step& step : steps) {
    if (step.input && holds_input) continue;
    step.take ? tally_.take(step.label, step.bytes) : tally_.give(step.label, step.bytes);
  }
}

void PaperLayers::forward(int entry, int micro, bool holds_input) {
  replay(lists_of(entry, micro).forward, holds_input);
}

void PaperLayers::inference(int entry, int micro, bool holds_input) {
  replay(lists_of(entry, micro).inference, holds_input);
}

void PaperLayers::backward(int entry, int micro, bool holds_input) {
  replay(lists_of(entry, micro).backward, holds_input);
}

void PaperLayers::backward_input(int entry, int micro, bool holds_input) {
  replay(lists_of(entry, micro).backward_input, holds_input);
}

void PaperLayers::backward_weight(int entry, int micro) {
  replay(lists_of(entry, micro).backward_weight, false);
}

bool PaperLayers::keeps_input_for_weights(int entry, int micro) {
  const std::vector<Step>& steps = lists_of(entry, micro).backward_weight;
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.input; });
}

std::int64_t PaperLayers::input_bytes(int entry, int micro) { return lists_of(entry, micro).input; }

std::int64_t PaperLayers::output_bytes(int entry, int micro) {
  return lists_of(entry, micro).output;
}

}  // namespace trireme
