// When a run saves, and what it knows beside tensors; of one rank.
//
// A checkpoint is made each train.checkpoint_every attempted steps, after the last one, when a
// signal ends the run (if checkpoint_every is not never), and when one asks for it. All ranks
// decide alike: by the step's number and by what the step's world collective told. Saves and loads
// are collective; a save that fails ends the run with its sentence, older checkpoints stay whole.
//
// With train.async_checkpoint those of checkpoint_every that are neither the last one nor asked for
// are written in the background (background_save.h), one at a time: they are completed after the
// step that told that all ranks have written, or before the next save, or at the end of the run.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "framework/data/samples.h"
#include "recipes/cli/recipe.h"
#include "recipes/train/background_save.h"
#include "recipes/train/run_start.h"
#include "recipes/train/run_voice.h"
#include "recipes/train/save_session.h"

namespace trireme {

// Of the attempts done, over all starts of a run.
struct RunCounts {
  std::int64_t steps = 0, tokens = 0;
  std::int64_t skipped = 0, skipped_in_row = 0;  // steps
  double loss = 0;                               // of the last step
  std::optional<double> validation;              // of the last step, if evaluated
  // Of the saved steps with a validation loss, the one with the least.
  std::int64_t best_step = 0;  // 0: none
  double best_validation = 0;
};

// What is asked from outside, and where to; of a process. What it points to outlives the run.
struct CheckpointInputs {
  SaveSession* session = nullptr;              // null: nothing is ever saved
  const std::atomic<int>* requests = nullptr;  // SIGUSR1 received so far
  RunStart* start = nullptr;                   // of the process that holds rank 0
  std::string token_hash;
};

class Checkpointing {
 public:
  Checkpointing(const CheckpointInputs& inputs, const Recipe& recipe, const SaveRank& rank);

  // Loads the state that the start names, or an older one if that is damaged; all zero for one from
  // the beginning. Of a run that has all its steps already, only the number of steps. `voice` may
  // be null.
  RunCounts resume(RunVoice* voice);
  // What this rank wishes with the coming step; whether to stop is not its business.
  Wishes wishes() const;
  // After an attempted step: saves if it is time. `all`: what all ranks wished. `voice` may be
  // null.
  void after_step(RunCounts& counts, const Wishes& all, RunVoice* voice);
  // Before an error that all ranks throw alike: collective, throws nothing.
  void before_failure(RunVoice* voice);
  // Before a step that will not be made ends the run: saves what `counts` tell of, if the run makes
  // checkpoints and has none of that step yet. Collective. Returns the step of the newest one.
  std::int64_t keep_now(RunCounts& counts, RunVoice* voice);
  // Before the first step: what a checkpoint takes and what the disk has, if any will be made.
  // Collective; Error when not even one fits.
  void foresee(const RunCounts& counts, RunVoice* voice);
  // Was a step done while a save was in flight?
  bool saved_in_background() const { return saved_in_background_; }

 private:
  std::int64_t agreed_start() const;
  RunCounts load_counts(std::int64_t step);
  std::string gone_on_under() const;
  void save_now(RunCounts& counts, RunVoice* voice, bool in_background);
  void complete(bool over, RunVoice* voice);
  void committed(std::int64_t step, std::int64_t best_step, RunVoice* voice);
  Manifest head(const RunCounts& counts) const;

  const CheckpointInputs& inputs_;
  const Recipe& recipe_;
  SaveRank rank_;
  int heard_ = 0;  // requests that a save has followed
  std::unique_ptr<BackgroundSave> flying_;
  std::int64_t flying_best_ = 0;  // the best step as of that save
  bool saved_in_background_ = false;
  std::int64_t newest_ = 0;  // step of the newest checkpoint, as far as this start knows; 0: none
};

// What to tell of train.async_checkpoint where it has no effect; empty otherwise.
std::string background_note(const Recipe& recipe);

}  // namespace trireme
