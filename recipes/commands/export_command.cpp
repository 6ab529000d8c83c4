#include "recipes/commands/export_command.h"

#include <ostream>

#include "framework/base/error.h"
#include "framework/data/chat_prompt.h"
#include "recipes/cli/parse.h"
#include "recipes/cli/values.h"
#include "recipes/commands/checkpoint_place.h"
#include "recipes/commands/transfer_bar.h"
#include "recipes/huggingface/adapter.h"
#include "recipes/huggingface/export.h"
#include "recipes/report/numbers.h"
#include "recipes/report/run_folder.h"
#include "recipes/report/trainer_state.h"
#include "recipes/train/model_start.h"
#include "recipes/train/run_start.h"

namespace trireme {

namespace {

std::optional<DType> wanted_type(const CommandLine& line) {
  const auto given = line.options.find("dtype");
  if (given == line.options.end()) return std::nullopt;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    if (given->second == name_of(dtype)) return dtype;
  throw UsageError(
      join("checkpoint export: --dtype ", given->second, ": f32, bf16 or f16 is expected"));
}

// "bf16", or "bf16 and f32" of a folder that has both.
std::string type_text(Process& process, const HfExport& options) {
  if (options.dtype) return std::string(name_of(*options.dtype));
  if (options.base.empty()) return "f32";
  std::string text;
  for (const DType dtype : stored_types(HfFolder(process.files, options.base)))
    text += (text.empty() ? "" : " and ") + std::string(name_of(dtype));
  return text;
}

std::vector<std::int32_t> ends_of(Files& files, const Recipe& recipe) {
  const std::string& tokenizer = recipe.data.tokenizer;
  const bool folder = files.status(tokenizer).kind == FileKind::kDirectory;
  if (!files.exists(folder ? path_join(tokenizer, "tokenizer.json") : tokenizer)) return {};
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

// The model folder that a run began with: model.from, or that of the run, or of the import, which
// it began with. Empty if there is none any more.
std::string folder_begun_with(Files& files, std::string from) {
  constexpr int kMostRuns = 16;  // one begun with another
  for (int i = 0; i < kMostRuns && !from.empty(); ++i) {
    if (files.exists(path_join(from, "config.json"))) return from;
    const std::string place = start_checkpoint(files, from);
    if (place.empty()) break;
    from = parse_recipe(
               {.file = path_join(place, "recipe.cfg"), .text = read_manifest(files, place).recipe})
               .model.from;
  }
  return {};
}

// The model folder whose weights a run began with, bit by bit: model.from, or what was imported
// there. Where it is another run, its folder, which nobody but us reads.
std::string base_of_adapters(Files& files, const std::string& from) {
  if (from.empty() || files.exists(path_join(from, "config.json"))) return from;
  const std::string place = start_checkpoint(files, from);
  if (place.empty()) return from;
  const Manifest saved = read_manifest(files, place);
  if (saved.step != 0 || !saved.layout.starts_with("import of ")) return from;
  return parse_recipe({.file = path_join(place, "recipe.cfg"), .text = saved.recipe}).model.from;
}

// The folder that a PEFT folder names, if it names one; peft itself may have written the name of a
// model in the hub.
std::string named_base(Files& files, const std::string& folder) {
  const std::string base = base_of_adapter(files, folder);
  check(base.empty() || files.exists(path_join(base, "config.json")), "checkpoint merge: ", folder,
        " stands beside \"", base, "\", which is no model folder here; name it with --base FOLDER");
  return base;
}

HfExport options_of(Process& process, const Recipe& recipe) {
  HfExport options{.base = folder_begun_with(process.files, recipe.model.from),
                   .ends = ends_of(process.files, recipe)};
  if (options.base.empty() && !recipe.model.from.empty())
    process.err << "note: " << recipe.model.from
                << " (model.from) has no config.json; it is written anew\n";
  return options;
}

// Adapters whose tokenizer is not that of their base have it beside them.
AdapterExport adapter_options(Process& process, const Recipe& recipe) {
  AdapterExport options{.base = base_of_adapters(process.files, recipe.model.from)};
  const std::string tokenizer = tokenizer_folder(process.files, recipe, options.base);
  if (tokenizer != options.base) options.tokenizer = tokenizer;
  return options;
}

struct Written {
  std::string folder, checkpoint;
  std::int64_t step = 0;
  std::string dtype;
  std::int64_t peak = 0;
};

void tell(Process& process, const CommandLine& line, const Written& written,
          const std::string& sentence) {
  if (!line.options.contains("json")) {
    process.out << sentence;
    return;
  }
  process.out << "{\"folder\": " << json_string(written.folder)
              << ", \"checkpoint\": " << json_string(written.checkpoint)
              << ", \"step\": " << written.step << ", \"dtype\": " << json_string(written.dtype)
              << ", \"peak_bytes\": " << written.peak << "}\n";
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

int export_checkpoint(Process& process, const CommandLine& line, const std::string& folder,
                      const std::string& out) {
  const std::string place = checkpoints_in(process.files, folder).back();
  const CheckpointReader checkpoint(process.files, place);
  const Recipe recipe =
      parse_recipe({.file = path_join(place, "recipe.cfg"), .text = checkpoint.manifest().recipe});
  const std::int64_t step = checkpoint.manifest().step;
  TransferBar bar(process, "checkpoint export");
  if (recipe.lora.rank > 0) {
    for (const char* option : {"dtype", "shard_size"})
      if (line.options.contains(option))
        throw UsageError(join("checkpoint export: --", option,
                              " is about whole models; adapters are written as PEFT does, in f32"));
    export_adapter(process.files, checkpoint, recipe, out, adapter_options(process, recipe));
    tell(process, line, {out, place, step, "f32", bar.peak_bytes()},
         join(out, ": adapters of step ", step, " of ", place,
              "; trireme checkpoint merge makes a whole model\n"));
    return 0;
  }
  HfExport options = options_of(process, recipe);
  options.dtype = wanted_type(line);
  options.shard_bytes = shard_size(line);
  options.progress = bar.progress();
  export_model(process.files, checkpoint, recipe, out, options);
  const std::string types = type_text(process, options);
  tell(process, line, {out, place, step, types, bar.peak_bytes()},
       join(out, ": step ", step, " of ", place, " in ", types, bar.peak_text(), "\n"));
  return 0;
}

int merge_checkpoint(Process& process, const CommandLine& line, const std::string& folder,
                     const std::string& out) {
  const auto given = line.options.find("base");
  std::string base = given == line.options.end() ? "" : given->second;
  TransferBar bar(process, "checkpoint merge");
  AdapterMerge options{.progress = bar.progress()};
  const bool peft = is_adapter_folder(process.files, folder);
  std::string adapter = folder;
  check(peft || !process.files.exists(path_join(folder, "config.json")),
        "checkpoint merge: ", folder,
        " is a whole model; a run that trained adapters (lora.rank) is expected, or a "
        "folder of them (adapter_config.json, adapter_model.safetensors)");
  if (!peft) {
    const std::string place = checkpoints_in(process.files, folder).back();
    const CheckpointReader checkpoint(process.files, place);
    const Recipe recipe = parse_recipe(
        {.file = path_join(place, "recipe.cfg"), .text = checkpoint.manifest().recipe});
    check(recipe.lora.rank > 0, place, ": it has no adapters; checkpoint export writes the model");
    if (base.empty()) base = base_of_adapters(process.files, recipe.model.from);
    check(base.empty() || process.files.exists(path_join(base, "config.json")),
          "checkpoint merge: ", folder, " stands beside ", base,
          ", which is no model folder; make one of it with trireme checkpoint export, and name it ",
          "with --base FOLDER");
    options.tokenizer = tokenizer_folder(process.files, recipe, base);
    options.ends = ends_of(process.files, recipe);
    adapter = without_slashes(out) + ".tmp-adapter";
    export_adapter(process.files, checkpoint, recipe, adapter, {.base = base, .replace = true});
  } else {
    if (base.empty()) base = named_base(process.files, folder);
    if (process.files.exists(path_join(folder, "tokenizer.json"))) {
      options.tokenizer = folder;
      options.ends = learned_ends(*make_tokenizer(folder, process.files));
    }
  }
  try {
    check(!base.empty(), "checkpoint merge: ", folder,
          " does not say beside which model its adapters stand; use --base FOLDER");
    merge_adapter(process.files, adapter, base, out, options);
  } catch (...) {
    if (!peft) process.files.remove_all(adapter);
    throw;
  }
  if (!peft) process.files.remove_all(adapter);
  if (line.options.contains("json"))
    process.out << "{\"folder\": " << json_string(out) << ", \"base\": " << json_string(base)
                << ", \"adapters\": " << json_string(folder)
                << ", \"peak_bytes\": " << bar.peak_bytes() << "}\n";
  else
    process.out << out << ": " << base << " with the adapters of " << folder << bar.peak_text()
                << "\n";
  return 0;
}

void export_run(Process& process, const Recipe& recipe) {
  const std::string out = export_folder(recipe.train.folder);
  const CheckpointReader checkpoint(process.files,
                                    checkpoints_in(process.files, recipe.train.folder).back());
  if (recipe.lora.rank > 0) {
    AdapterExport adapters = adapter_options(process, recipe);
    adapters.replace = true;
    export_adapter(process.files, checkpoint, recipe, out, adapters);
    process.err << "train.export: " << out << " holds the adapters of step "
                << checkpoint.manifest().step << "\n";
    return;
  }
  HfExport options = options_of(process, recipe);
  options.replace = true;
  options.history = trainer_state_json(read_run_folder(process.files, recipe.train.folder).steps,
                                       recipe.train.steps);
  export_model(process.files, checkpoint, recipe, out, options);
  process.err << "train.export: " << out << " holds step " << checkpoint.manifest().step << " in "
              << type_text(process, options) << "\n";
}

}  // namespace trireme
