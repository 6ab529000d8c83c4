// When a run saves, and what it knows beside tensors; of one rank.
//
// A checkpoint is made each train.checkpoint_every attempted steps, after the last one, when a
// signal ends the run (if checkpoint_every is not never), and when one asks for it. All ranks
// decide alike: by the step's number and by what the step's world collective told. Saves and loads
// are collective; a save that fails ends the run with its sentence, older checkpoints stay whole.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "framework/data/samples.h"
#include "recipes/cli/recipe.h"
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
  const RunStart* start = nullptr;             // of the process that holds rank 0
  std::string token_hash;
};

class Checkpointing {
 public:
  Checkpointing(const CheckpointInputs& inputs, const Recipe& recipe, const SaveRank& rank);

  // Loads the state that the start names; all zero for one from the beginning. Of a run that has
  // all its steps already, only the number of steps.
  RunCounts resume();
  // Does this rank want a checkpoint after the coming step?
  bool asked() const;
  // After an attempted step: saves if it is time. `voice` may be null.
  void after_step(RunCounts& counts, bool asked, bool stopped, RunVoice* voice);

 private:
  void save_now(RunCounts& counts, RunVoice* voice);
  Manifest head(const RunCounts& counts) const;

  const CheckpointInputs& inputs_;
  const Recipe& recipe_;
  SaveRank rank_;
  int heard_ = 0;  // requests that a save has followed
};

}  // namespace trireme
