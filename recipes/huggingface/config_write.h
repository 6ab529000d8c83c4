// config.json of a model that began here, not in a folder.
#pragma once

#include "framework/base/dtype.h"
#include "framework/base/json/json.h"
#include "recipes/cli/recipe.h"

namespace trireme {

// Error naming the keys, if no family has such a model.
Json hf_config_of(const Recipe& recipe, DType dtype);
// "float32".
std::string torch_name(DType dtype);

}  // namespace trireme
