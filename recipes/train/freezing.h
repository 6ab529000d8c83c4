// What a recipe trains of a model: patterns of names, and adapters. Patterns are about logical
// tensors ("layers.3.attention.k.weight"), which are the same under every layout.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recipes/cli/recipe.h"
#include "recipes/models/layer_list.h"

namespace trireme {

// Names of linears, as PEFT's and as ours; without a layer.
struct LoraTarget {
  std::string peft;               // "c_attn"
  std::vector<std::string> ours;  // "attention.qkv"
};
// All that models of a family have.
std::vector<LoraTarget> lora_targets(const ModelSection& model);
// Those that the recipe names, in its order, "all-linear" written out. UsageError, naming the legal
// ones, for others.
std::vector<LoraTarget> chosen_targets(const Recipe& recipe);

// alpha / rank, or alpha / sqrt(rank).
double lora_scale(const LoraSection& lora);
// UsageError for a rank that no target can have.
LoraOptions lora_options(const Recipe& recipe);

// Is a parameter of that name frozen? Empty if none is. UsageError for a pattern that matches
// nothing, one that freezes a part of a fused matrix, and when nothing is left to train.
std::function<bool(const std::string& parameter)> frozen_parameters(const Recipe& recipe,
                                                                    const ModelOptions& model);

}  // namespace trireme
