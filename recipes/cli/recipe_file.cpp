#include "recipes/cli/recipe_file.h"

#include <cstring>

#include "framework/base/error.h"

namespace trireme {

std::map<std::string, std::string> environment_of(const char* const* variables) {
  std::map<std::string, std::string> environment;
  for (; variables && *variables; ++variables) {
    const char* equals = std::strchr(*variables, '=');
    if (equals) environment.emplace(std::string(*variables, equals), equals + 1);
  }
  return environment;
}

RecipeInput recipe_input(Files& files, const CommandLine& line,
                         std::map<std::string, std::string> environment) {
  RecipeInput input;
  input.flags = line.flags;
  input.environment = std::move(environment);
  if (line.names.empty()) return input;
  if (line.names.size() > 1)
    throw UsageError(join("one recipe file is read, got ", line.names.size(), ": ", line.names[0],
                          " and ", line.names[1]));
  input.file = line.names[0];
  switch (files.status(input.file).kind) {
    case FileKind::kMissing:
      throw UsageError(join("recipe ", input.file, ": there is no such file"));
    case FileKind::kDirectory:
      throw UsageError(join("recipe ", input.file, " is a folder; name the file in it"));
    case FileKind::kFile:
    case FileKind::kOther:
      break;
  }
  constexpr std::int64_t kLongest = 1 << 20;
  input.text = read_whole(files, input.file, kLongest);
  return input;
}

}  // namespace trireme
