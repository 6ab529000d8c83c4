#include "recipes/commands/export_command.h"

#include <ostream>

#include "framework/base/error.h"
#include "framework/data/chat_prompt.h"
#include "recipes/cli/parse.h"
#include "recipes/cli/values.h"
#include "recipes/commands/checkpoint_place.h"
#include "recipes/huggingface/adapter.h"
#include "recipes/huggingface/export.h"
#include "recipes/report/numbers.h"
#include "recipes/report/run_folder.h"
#include "recipes/report/trainer_state.h"
#include "recipes/train/run_start.h"

namespace trireme {

namespace {

DType wanted_type(Process& process, const CommandLine& line, const std::string& base) {
  const auto given = line.options.find("dtype");
  if (given == line.options.end())
    return base.empty() ? DType::kF32 : stored_type(process.files, base);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    if (given->second == name_of(dtype)) return dtype;
  throw UsageError(
      join("checkpoint export: --dtype ", given->second, ": f32, bf16 or f16 is expected"));
}

std::vector<std::int32_t> ends_of(Files& files, const Recipe& recipe) {
  const std::string& tokenizer = recipe.data.tokenizer;
  if (tokenizer == "bytes" || !files.exists(tokenizer)) return {};
  return learned_ends(*make_tokenizer(tokenizer, files));
}

std::int64_t shard_size(const CommandLine& line) {
  const auto given = line.options.find("shard_size");
  if (given == line.options.end()) return HfExport{}.shard_bytes;
  const std::optional<std::int64_t> bytes = parse_size(given->second);
  if (!bytes || *bytes < 1)
    throw UsageError(join("checkpoint export: --shard_size ", given->second,
                          ": a size is expected, such as 5GB or 64MiB"));
  return *bytes;
}

HfExport options_of(Process& process, const Recipe& recipe) {
  HfExport options{.base = recipe.model.from, .ends = ends_of(process.files, recipe)};
  if (options.base.empty() || process.files.exists(path_join(options.base, "config.json")))
    return options;
  process.err << "note: " << options.base
              << " (model.from) has no config.json; it is written anew, "
              << "without tokenizer\n";
  options.base.clear();
  return options;
}

}  // namespace

int export_checkpoint(Process& process, const CommandLine& line, const std::string& folder,
                      const std::string& out) {
  const std::string place = checkpoints_in(process.files, folder).back();
  const CheckpointReader checkpoint(process.files, place);
  const Recipe recipe =
      parse_recipe({.file = path_join(place, "recipe.cfg"), .text = checkpoint.manifest().recipe});
  if (recipe.lora.rank > 0) {
    for (const char* option : {"dtype", "shard_size"})
      if (line.options.contains(option))
        throw UsageError(join("checkpoint export: --", option,
                              " is about whole models; adapters are written as PEFT does, in f32"));
    export_adapter(process.files, checkpoint, recipe, out, {.base = recipe.model.from});
    process.out << out << ": adapters of step " << checkpoint.manifest().step << " of " << place
                << "; trireme checkpoint merge makes a whole model\n";
    return 0;
  }
  HfExport options = options_of(process, recipe);
  options.dtype = wanted_type(process, line, options.base);
  options.shard_bytes = shard_size(line);
  export_model(process.files, checkpoint, recipe, out, options);
  process.out << out << ": step " << checkpoint.manifest().step << " of " << place << " in "
              << name_of(options.dtype) << "\n";
  return 0;
}

int merge_checkpoint(Process& process, const CommandLine& line, const std::string& folder,
                     const std::string& out) {
  const auto given = line.options.find("base");
  std::string base = given == line.options.end() ? "" : given->second;
  const bool peft = is_adapter_folder(process.files, folder);
  std::string adapter = folder;
  if (!peft) {
    const std::string place = checkpoints_in(process.files, folder).back();
    const CheckpointReader checkpoint(process.files, place);
    const Recipe recipe = parse_recipe(
        {.file = path_join(place, "recipe.cfg"), .text = checkpoint.manifest().recipe});
    check(recipe.lora.rank > 0, place, ": it has no adapters; checkpoint export writes the model");
    if (base.empty()) base = recipe.model.from;
    adapter = process.files.temporary_name(out + ".adapter");
    export_adapter(process.files, checkpoint, recipe, adapter, {.base = base});
  } else if (base.empty()) {
    base = base_of_adapter(process.files, folder);
  }
  try {
    check(!base.empty(), "checkpoint merge: ", folder,
          " does not say beside which model its adapters stand; use --base FOLDER");
    merge_adapter(process.files, adapter, base, out);
  } catch (...) {
    if (!peft) process.files.remove_all(adapter);
    throw;
  }
  if (!peft) process.files.remove_all(adapter);
  process.out << out << ": " << base << " with the adapters of " << folder << "\n";
  return 0;
}

void export_run(Process& process, const Recipe& recipe) {
  const std::string out = export_folder(recipe.train.folder);
  const CheckpointReader checkpoint(process.files,
                                    checkpoints_in(process.files, recipe.train.folder).back());
  if (recipe.lora.rank > 0) {
    export_adapter(process.files, checkpoint, recipe, out,
                   {.base = recipe.model.from, .replace = true});
    process.err << "train.export: " << out << " holds the adapters of step "
                << checkpoint.manifest().step << "\n";
    return;
  }
  HfExport options = options_of(process, recipe);
  options.dtype = wanted_type(process, {}, options.base);
  options.replace = true;
  options.history = trainer_state_json(read_run_folder(process.files, recipe.train.folder).steps,
                                       recipe.train.steps);
  export_model(process.files, checkpoint, recipe, out, options);
  process.err << "train.export: " << out << " holds step " << checkpoint.manifest().step << " in "
              << name_of(options.dtype) << "\n";
}

}  // namespace trireme
