// The history of a run as `transformers` writes it, so that scripts which plot trainer_state.json
// go on working.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipes/report/step_record.h"

namespace trireme {

// {"global_step", "max_steps", "log_history": [{"step", "loss", "learning_rate", "grad_norm"}, ...,
// {"step", "eval_loss"}]}: a validation loss is an entry of its own. Numbers that are not finite
// are null.
std::string trainer_state_json(const std::vector<StepRecord>& steps, std::int64_t max_steps);

}  // namespace trireme
