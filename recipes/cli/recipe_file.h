// From the program's arguments and environment to what parse_recipe reads.
#pragma once

#include <map>
#include <string>

#include "framework/base/files.h"
#include "recipes/cli/command_line.h"
#include "recipes/cli/parse.h"

namespace trireme {

// The variables of `environ`: null-terminated NAME=VALUE texts.
std::map<std::string, std::string> environment_of(const char* const* variables);

// The flags of `line` and, if it names one, the recipe file. Throws UsageError for more than one
// file, or one that is missing or no file.
RecipeInput recipe_input(Files& files, const CommandLine& line,
                         std::map<std::string, std::string> environment);

}  // namespace trireme
