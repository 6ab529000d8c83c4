// trireme memory RECIPE|RUN_FOLDER [--section.key=value ...] [--explain] [--json]: what a recipe
// takes, without running it. 1 if it does not fit.
#include <ostream>

#include "framework/base/error.h"
#include "framework/data/token_file.h"
#include "framework/data/tokenizer.h"
#include "recipes/cli/parse.h"
#include "recipes/commands/memory_text.h"
#include "recipes/commands/process.h"
#include "recipes/report/run_folder.h"
#include "recipes/train/measured_peak.h"
#include "recipes/train/plan.h"

namespace trireme {

namespace {

// A recipe is planned wherever this runs: no launcher is asked for, no data needed.
Recipe planned_recipe(Process& process, const CommandLine& line, const std::string& file) {
  RecipeInput input{.flags = line.flags,
                    .environment = process.environment,
                    .model_keys_of = model_keys_reader(process.files)};
  if (!file.empty()) {
    if (process.files.status(file).kind != FileKind::kFile)
      throw UsageError(join("memory: there is no recipe file ", file));
    input.file = file;
    input.text = read_whole(process.files, file);
  }
  return parse_recipe(input);
}

// Ids of the data, where the recipe leaves it to them.
std::int64_t vocabulary(Process& process, const Recipe& recipe) {
  if (recipe.model.vocab > 0) return recipe.model.vocab;
  if (!recipe.data.tokens.empty())
    return TokenFile::open(process.files, recipe.data.tokens)->header().vocabulary;
  return make_tokenizer(recipe.data.tokenizer, process.files)->vocabulary();
}

}  // namespace

int memory_command(Process& process, const CommandLine& line) {
  if (line.names.size() > 1)
    throw UsageError(join("memory: one recipe file or run folder, got ", line.names.size(),
                          " names: ", line.names[0], ", ", line.names[1], ", ..."));
  std::string file = line.names.empty() ? "" : line.names[0];
  std::optional<RunReport> measured;
  if (!file.empty() && process.files.status(file).kind == FileKind::kDirectory) {
    measured = read_run_folder(process.files, file).report;
    file = path_join(file, "recipe.cfg");
  }
  Recipe recipe = planned_recipe(process, line, file);
  if (recipe.inference.weights != "full")
    throw UsageError(join("memory: inference.weights = ", recipe.inference.weights,
                          " is of models that are only run, and this tells the memory of training; "
                          "use full"));
  const std::int64_t ranks = recipe.parallel.ranks();
  resolve_for_machine(recipe,
                      {.cores = process.cores(),
                       .local_ranks = static_cast<int>(ranks),
                       .bf16 = cpu_multiplies_bf16()},
                      vocabulary(process, recipe));

  const MemoryLimit limit = memory_limit(process.files, recipe.device.memory, ranks);
  const MemoryOutlook outlook = memory_outlook(recipe, limit);
  const RunReport* report = measured ? &*measured : nullptr;
  const int code = outlook.fits() ? 0 : 1;
  if (line.options.contains("explain") && !line.options.contains("json")) {
    process.out << verdict(outlook) << "\n\n" << memory_explanation(outlook, recipe);
    return code;
  }
  const std::vector<MemoryVariant> variants = memory_variants(recipe, limit);
  const std::vector<MemoryReach> reach = memory_reach(recipe, limit);
  if (line.options.contains("json")) {
    process.out << memory_json(outlook, recipe, variants, reach, report);
    return code;
  }
  process.out << verdict(outlook) << "\n\n"
              << memory_kinds_text(outlook, recipe, report) << "\n"
              << memory_variants_text(variants, limit) << "\n"
              << memory_reach_text(reach);
  return code;
}

}  // namespace trireme
