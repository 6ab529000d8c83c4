// From a recipe file, flags and the environment to a Recipe.
//
// A flag wins over the environment, that over the file, that over the default. Every problem is
// found before work begins and all are told at once, one line each, with where the value came from
// (file:line, flag or environment variable) and the nearest key or the legal values.
// Nothing here reads a file or the process environment: main passes them in.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recipes/cli/recipe.h"

namespace trireme {

// "--section.key=value", "--section.key value" or "--section.key".
struct Flag {
  std::string name;  // without the dashes
  std::optional<std::string> value;
};

// What the folder of model.from says of the section model, and the name of the file that says it.
struct ModelKeys {
  std::string origin;
  std::vector<std::pair<std::string, std::string>> values;  // {"layers", "30"}
  std::string tokenizer = {};  // what data.tokenizer = auto means then; empty: no tokenizer there
};

struct RecipeInput {
  std::string file;  // name for messages; empty: no file
  std::string text;  // its content
  // In the order given; the last of several for one key holds.
  std::vector<Flag> flags;
  std::map<std::string, std::string> environment;  // the whole of it; others' variables are skipped
  // Whether a launcher (mpirun, srun) started this process. Unset: not looked at, and
  // parallel.launch stays as written (auto becomes threads).
  std::optional<bool> under_launcher;
  // Refuse a recipe that has neither data.text nor data.tokens: for subcommands that read data.
  bool needs_data = false;
  // Reads a model folder; throws Error. Its keys hold where the recipe says nothing, and a recipe
  // that says otherwise is refused. Unset: model.from is only kept.
  std::function<ModelKeys(const std::string& folder)> model_keys_of;
  // Entries of the model's list of layers. Unset: layers + 2.
  std::function<std::int64_t(const Recipe&)> list_entries;
};

// Throws UsageError with all problems, a line each.
Recipe parse_recipe(const RecipeInput& input);

}  // namespace trireme
