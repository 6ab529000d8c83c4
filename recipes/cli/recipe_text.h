// A Recipe as text again.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "recipes/cli/recipe.h"

namespace trireme {

// Every key by section, as written into recipe.cfg. Parsing it gives the same Recipe.
std::string resolved_text(const Recipe& recipe);

// (full name, value) of the keys that are not what the default, resolved with the recipe's other
// keys, would have been; in the table's order.
std::vector<std::pair<std::string, std::string>> differences_from_default(const Recipe& recipe);

}  // namespace trireme
