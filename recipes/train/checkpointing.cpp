#include "recipes/train/checkpointing.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"
#include "recipes/train/gather.h"
#include "recipes/train/plan.h"
#include "recipes/train/save_phases.h"

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

std::int64_t Checkpointing::agreed_start() const {
  const double mine = inputs_.start ? static_cast<double>(inputs_.start->step) : 0.0;
  return static_cast<std::int64_t>(
      reduce_values(rank_.mesh.world(), rank_.backend, {mine}, ReduceOp::kMax)[0]);
}

RunCounts Checkpointing::load_counts(std::int64_t step) {
  const Manifest saved = load(rank_, step);
  RunCounts counts{.steps = step};
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

RunCounts Checkpointing::resume(RunVoice* voice) {
  if (inputs_.session == nullptr) return {};
  for (;;) {
    const std::int64_t step = agreed_start();
    if (step == 0 || step >= recipe_.train.steps) return {.steps = step};
    Files& files = inputs_.session->files();
    try {
      const RunCounts counts = load_counts(step);
      agreed(rank_, [&] {
        if (inputs_.start && rank_.mesh.world().rank() == 0) go_on_from(files, recipe_, step);
        return std::string();
      });
      newest_ = step;
      if (voice && inputs_.start) voice->say(inputs_.start->from + gone_on_under());
      return counts;
    } catch (const DamagedCheckpoint& damage) {
      agreed(rank_, [&] {
        if (inputs_.start && rank_.mesh.world().rank() == 0)
          take_older(files, recipe_, inputs_.token_hash, damage.what(), *inputs_.start);
        return std::string();
      });
      if (voice && inputs_.start)
        for (const std::string& note : inputs_.start->notes) voice->say(note);
    }
  }
}

// Where the layout is another one than the checkpoint's.
std::string Checkpointing::gone_on_under() const {
  const std::string mine = layout_text(recipe_);
  return inputs_.start->from.ends_with(mine) ? std::string() : "; goes on under " + mine;
}

// While one is written, those that stay are there, too.
void Checkpointing::foresee(const RunCounts& counts, RunVoice* voice) {
  const TrainSection& train = recipe_.train;
  if (inputs_.session == nullptr || train.checkpoint_every == 0) return;
  const std::int64_t bytes = bytes_of_a_checkpoint(rank_);
  agreed(rank_, [&] {
    if (rank_.mesh.world().rank() != 0) return std::string();
    Files& files = inputs_.session->files();
    const std::int64_t free = files.free_space(train.folder);
    const std::string each = join("checkpoints: up to ", bytes_text(bytes), " each");
    check(bytes <= free, "train.checkpoint_every = ", train.checkpoint_every, ": a checkpoint in ",
          train.folder, " takes ", bytes, " bytes, but the disk has ", free, " free");
    const std::int64_t left = (train.steps - counts.steps - 1) / train.checkpoint_every + 1;
    const std::int64_t there = std::ssize(inputs_.session->folder().steps());
    const std::int64_t more = std::min(left, std::max<std::int64_t>(1, train.keep + 1 - there));
    if (!voice) return std::string();
    voice->say(join(each, ", ", bytes_text(free), " free"));
    if (more * bytes > free)
      voice->say(join("warning: train.keep = ", train.keep, " and the one being written will need ",
                      bytes_text(more * bytes), " more than is used now"));
    return std::string();
  });
}

Wishes Checkpointing::wishes() const {
  if (inputs_.session == nullptr) return {};
  const bool asked = inputs_.requests != nullptr && inputs_.requests->load() > heard_;
  return {.save = asked ? 1.0 : 0.0, .written = flying_ ? flying_->written() : 0.0};
}

void Checkpointing::after_step(RunCounts& counts, const Wishes& all, RunVoice* voice) {
  if (inputs_.session == nullptr) return;
  if (flying_ && flying_->is_over(all.written)) complete(true, voice);
  const std::int64_t every = recipe_.train.checkpoint_every;
  const bool asked = all.save > 0;
  const bool last = all.stop > 0 || counts.steps == recipe_.train.steps;
  if (!asked && (every == 0 || (!last && counts.steps % every != 0))) return;
  if (flying_) complete(false, voice);
  save_now(counts, voice, !asked && !last && saves_in_background(recipe_));
}

void Checkpointing::before_failure(RunVoice* voice) {
  try {
    if (flying_) complete(false, voice);
  } catch (const std::exception& error) {
    if (voice) voice->say(join("warning: the checkpoint in the background: ", error.what()));
  }
}

std::int64_t Checkpointing::keep_now(RunCounts& counts, RunVoice* voice) {
  if (inputs_.session == nullptr) return 0;
  if (flying_) complete(false, voice);
  const bool wanted = recipe_.train.checkpoint_every > 0 && counts.steps > newest_;
  if (wanted) save_now(counts, voice, false);
  return newest_;
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

void Checkpointing::save_now(RunCounts& counts, RunVoice* voice, bool in_background) {
  // Whatever was asked for until now is served by this one.
  if (inputs_.requests != nullptr) heard_ = inputs_.requests->load();
  if (counts.validation && std::isfinite(*counts.validation) &&
      (counts.best_step == 0 || *counts.validation < counts.best_validation)) {
    counts.best_step = counts.steps;
    counts.best_validation = *counts.validation;
  }
  if (inputs_.start) inputs_.start->lock->expect_held();
  if (voice) voice->sync();
  if (in_background) {
    flying_ = std::make_unique<BackgroundSave>(rank_, head(counts));
    flying_best_ = counts.best_step;
    saved_in_background_ = true;
    return;
  }
  save(rank_, head(counts));
  committed(counts.steps, counts.best_step, voice);
}

void Checkpointing::complete(bool over, RunVoice* voice) {
  if (inputs_.start) inputs_.start->lock->expect_held();
  const std::unique_ptr<BackgroundSave> save = std::move(flying_);
  save->complete(over);
  committed(save->step(), flying_best_, voice);
}

void Checkpointing::committed(std::int64_t step, std::int64_t best_step, RunVoice* voice) {
  newest_ = step;
  if (rank_.mesh.world().rank() != 0) return;
  CheckpointFolder& folder = inputs_.session->folder();
  if (voice) voice->say("checkpoint: " + folder.folder_of(step));
  try {
    for (const auto& gone :
         folder.prune(recipe_.train.keep, {step, best_step}, recipe_.train.keep_every))
      if (voice)
        voice->say(join("removed: ", folder.folder_of(gone.step), ", ", bytes_text(gone.bytes)));
  } catch (const Error& error) {
    if (voice) voice->say(join("warning: an older checkpoint was not removed: ", error.what()));
  }
}

std::string background_note(const Recipe& recipe) {
  if (!recipe.train.async_checkpoint || saves_in_background(recipe)) return {};
  for (const auto& [key, tier] : {std::pair("offload.optimizer", recipe.offload.optimizer),
                                  std::pair("offload.parameters", recipe.offload.parameters)})
    if (tier == "disk")
      return join("train.async_checkpoint: training waits for every checkpoint all the same: ", key,
                  " = disk, and states on disk are not copied to memory");
  return join("train.async_checkpoint: the only checkpoint of train.checkpoint_every = ",
              recipe.train.checkpoint_every, " is the last one, of step ", recipe.train.steps,
              ", for which training waits");
}

}  // namespace trireme
