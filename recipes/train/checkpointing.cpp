#include "recipes/train/checkpointing.h"

#include <cmath>

#include "framework/base/error.h"
#include "recipes/train/gather.h"

namespace trireme {

namespace {

std::string layout_text(const Recipe& r) {
  std::string text = join("data ", r.parallel.data, " x pipeline ", r.parallel.pipeline,
                          " x tensor ", r.parallel.tensor, ", ZeRO ", r.zero.stage);
  for (const auto& [what, tier] :
       {std::pair("optimizer", r.offload.optimizer), std::pair("gradients", r.offload.gradients),
        std::pair("parameters", r.offload.parameters)})
    if (tier != "none") text += join(", ", what, " on ", tier);
  return text + ", " + r.precision.compute + " by " + r.parallel.launch;
}

}  // namespace

Checkpointing::Checkpointing(const CheckpointInputs& inputs, const Recipe& recipe,
                             const SaveRank& rank)
    : inputs_(inputs), recipe_(recipe), rank_(rank) {}

RunCounts Checkpointing::resume() {
  if (inputs_.session == nullptr) return {};
  const double mine = inputs_.start ? static_cast<double>(inputs_.start->step) : 0.0;
  const auto step = static_cast<std::int64_t>(
      reduce_values(rank_.mesh.world(), rank_.backend, {mine}, ReduceOp::kMax)[0]);
  RunCounts counts{.steps = step};
  if (step == 0 || step >= recipe_.train.steps) return counts;
  const Manifest saved = load(rank_, step);
  counts.tokens = saved.integer("tokens");
  counts.skipped = saved.integer("skipped");
  counts.skipped_in_row = saved.integer("skipped_in_row");
  counts.loss = saved.number("loss");
  counts.best_step = saved.integer("best_step");
  counts.best_validation = saved.number("best_validation");
  check(saved.integer("samples") == step * recipe_.batch.global, "checkpoint of step ", step,
        ": it has seen ", saved.integer("samples"), " samples, but ", step,
        " steps of batch.global = ", recipe_.batch.global, " are ", step * recipe_.batch.global);
  return counts;
}

bool Checkpointing::asked() const {
  return inputs_.session != nullptr && inputs_.requests != nullptr &&
         inputs_.requests->load() > heard_;
}

void Checkpointing::after_step(RunCounts& counts, bool asked, bool stopped, RunVoice* voice) {
  if (inputs_.session == nullptr) return;
  const std::int64_t every = recipe_.train.checkpoint_every;
  const bool last = stopped || counts.steps == recipe_.train.steps;
  if (asked || (every > 0 && (last || counts.steps % every == 0))) save_now(counts, voice);
}

Manifest Checkpointing::head(const RunCounts& counts) const {
  Manifest head{.run = inputs_.start ? inputs_.start->run : std::string(),
                .step = counts.steps,
                .layout = layout_text(recipe_),
                .recipe = recorded_recipe(recipe_)};
  head.set_integer("tokens", counts.tokens);
  head.set_integer("skipped", counts.skipped);
  head.set_integer("skipped_in_row", counts.skipped_in_row);
  head.set_integer("samples", counts.steps * recipe_.batch.global);
  head.set_integer("seed", recipe_.train.seed);
  head.set_integer("best_step", counts.best_step);
  head.set_number("best_validation", counts.best_validation);
  head.set_number("loss", counts.loss);
  head.scalars["token_hash"] = inputs_.token_hash;
  return head;
}

void Checkpointing::save_now(RunCounts& counts, RunVoice* voice) {
  // Whatever was asked for until now is served by this one.
  if (inputs_.requests != nullptr) heard_ = inputs_.requests->load();
  if (counts.validation && std::isfinite(*counts.validation) &&
      (counts.best_step == 0 || *counts.validation < counts.best_validation)) {
    counts.best_step = counts.steps;
    counts.best_validation = *counts.validation;
  }
  if (inputs_.start) inputs_.start->lock->expect_held();
  if (voice) voice->sync();
  save(rank_, head(counts));
  if (rank_.mesh.world().rank() != 0) return;
  CheckpointFolder& folder = inputs_.session->folder();
  try {
    folder.prune(recipe_.train.keep, {counts.steps, counts.best_step});
  } catch (const Error& error) {
    if (voice) voice->say(join("warning: an older checkpoint was not removed: ", error.what()));
  }
  if (voice) voice->say("checkpoint: " + folder.folder_of(counts.steps));
}

}  // namespace trireme
