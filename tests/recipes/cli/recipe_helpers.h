// Short ways to parse in tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/base/error.h"
#include "recipes/cli/command_line.h"
#include "recipes/cli/parse.h"

namespace trireme::testing {

inline RecipeInput input_of(const std::string& text, const std::vector<std::string>& flags = {},
                            const std::map<std::string, std::string>& environment = {}) {
  std::vector<std::string> arguments{"train"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return {"a.cfg", text, split_command_line(arguments).flags, environment, {}, false, {}};
}

inline Recipe parse(const std::string& text, const std::vector<std::string>& flags = {},
                    const std::map<std::string, std::string>& environment = {}) {
  return parse_recipe(input_of(text, flags, environment));
}

// The message of the UsageError, or "" if there was none.
inline std::string refusal(const RecipeInput& input) {
  try {
    parse_recipe(input);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

inline std::string refusal(const std::string& text, const std::vector<std::string>& flags = {},
                           const std::map<std::string, std::string>& environment = {}) {
  return refusal(input_of(text, flags, environment));
}

}  // namespace trireme::testing
