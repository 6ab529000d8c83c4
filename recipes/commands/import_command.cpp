#include "recipes/commands/import_command.h"

#include <ostream>

#include "framework/backend/backend.h"
#include "framework/base/error.h"
#include "recipes/commands/transfer_bar.h"
#include "recipes/huggingface/folder.h"
#include "recipes/report/numbers.h"
#include "recipes/train/model_import.h"
#include "recipes/train/plan.h"

namespace trireme {

namespace {

constexpr std::int64_t kMostTokens = 1024;  // of a sample, unless a flag says otherwise

Recipe recipe_of_import(Process& process, const CommandLine& line, const std::string& folder,
                        const std::string& run) {
  CommandLine flags{.command = line.command};
  const std::int64_t context = hf_model_of(process.files, folder).context;
  flags.flags.push_back({"batch.sequence", join(std::min(context, kMostTokens))});
  flags.flags.insert(flags.flags.end(), line.flags.begin(), line.flags.end());
  flags.flags.push_back({"model.from", folder});
  flags.flags.push_back({"train.folder", run});
  Recipe recipe = recipe_of(process, flags, false);
  resolve_for_machine(recipe, {.cores = process.cores(), .bf16 = cpu_multiplies_bf16()},
                      recipe.model.vocab);
  return recipe;
}

}  // namespace

int import_folder(Process& process, const CommandLine& line, const std::string& folder,
                  const std::string& run) {
  if (!process.files.exists(path_join(folder, "config.json")))
    throw UsageError(join("checkpoint import: ", folder,
                          " has no config.json; a Hugging Face folder is expected"));
  const Recipe recipe = recipe_of_import(process, line, folder, run);
  TransferBar bar(process, "checkpoint import");
  const ImportedModel imported = import_model(process.files, recipe, bar.progress());
  if (line.options.contains("json"))
    process.out << "{\"checkpoint\": " << json_string(imported.place)
                << ", \"parameters\": " << imported.parameters
                << ", \"peak_bytes\": " << bar.peak_bytes() << "}\n";
  else
    process.out << imported.place << ": " << grouped(imported.parameters) << " parameters of "
                << folder << bar.peak_text() << "\n";
  return 0;
}

}  // namespace trireme
