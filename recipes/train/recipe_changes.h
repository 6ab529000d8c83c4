// May a run that was saved with one recipe go on with another? Layout, place and watching may
// change; what a step computes may not, but for what people turn while a run lasts.
//
//   free    parallel, pipeline, recompute, zero, offload, device, batch.micro; of train all but
//   seed noted   optimizer.lr min_lr schedule warmup decay clip weight_decay, precision, data.skip,
//           train.steps where the schedule looks at it: taken, and told
//   refused model, data, batch.global, batch.sequence, train.seed, and what the optimizer's state
//           means: optimizer.name beta1 beta2 eps momentum label_smoothing
//
// data.text and data.tokens may move: what counts is the hash of the tokens.
#pragma once

#include <string>
#include <vector>

#include "recipes/cli/recipe.h"

namespace trireme {

struct RecipeChanges {
  std::vector<std::string> refused, noted;  // "batch.global = 16, the checkpoint has 8"
};

// Both resolved for the machine.
RecipeChanges recipe_changes(const Recipe& saved, const Recipe& now);

}  // namespace trireme
