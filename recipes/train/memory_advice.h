// What to change in a recipe whose run does not fit device.memory: the smallest change first tried.
#pragma once

#include <string>

#include "recipes/cli/recipe.h"

namespace trireme {

// Weights, gradients and optimizer states alone are too large.
std::string advice_for_states(const Recipe& recipe);
// They fit, but the activations of a step do not.
std::string advice_for_activations(const Recipe& recipe);

}  // namespace trireme
