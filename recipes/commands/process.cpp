#include "recipes/commands/process.h"

#include <sched.h>

#include <algorithm>
#include <string_view>

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_reader.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/values.h"
#include "recipes/huggingface/folder.h"
#include "recipes/train/model_start.h"

namespace trireme {

namespace {

constexpr std::string_view kSkipBad = "skip-bad";

}  // namespace

std::string Process::variable(const std::string& name) const {
  const auto it = environment.find(name);
  return it == environment.end() ? std::string() : it->second;
}

std::string Process::cache_folder() const {
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty())
    return path_join(xdg, "trireme");
  const std::string home = variable("HOME");
  check(!home.empty(), "the cache folder is unknown: neither XDG_CACHE_HOME nor HOME is set");
  return path_join(home, ".cache/trireme");
}

int Process::cores() const {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

CommandLine with_data_flags(CommandLine line) {
  if (line.command != "generate" && line.options.erase(std::string(kSkipBad)) > 0)
    line.flags.push_back({"data.skip_bad", "true"});
  return line;
}

namespace {

constexpr std::int64_t kBytes = 256;

ModelKeys model_keys_of_checkpoint(Files& files, const std::string& place) {
  const std::string origin = path_join(place, "recipe.cfg");
  const Recipe saved = parse_recipe({.file = origin, .text = read_manifest(files, place).recipe});
  ModelKeys found{.origin = origin};
  for (const Key& key : keys())
    if (key.section == "model" && key.name != "from")
      found.values.emplace_back(std::string(key.name), text_of(key, saved));
  if (saved.data.tokenizer != "bytes") found.tokenizer = saved.data.tokenizer;
  return found;
}

}  // namespace

std::function<ModelKeys(const std::string&)> model_keys_reader(Files& files) {
  return [&files](const std::string& folder) {
    const bool hugging_face = files.exists(path_join(folder, "config.json"));
    if (const std::string place = hugging_face ? "" : start_checkpoint(files, folder);
        !place.empty())
      return model_keys_of_checkpoint(files, place);
    // Without one bytes are its tokens only if it has no more ids than there are bytes.
    const HfModel model = hf_model_of(files, folder);
    const bool own = files.exists(path_join(folder, "tokenizer.json")) || model.vocab > kBytes;
    return ModelKeys{path_join(folder, "config.json"), model.keys, own ? folder : ""};
  };
}

Recipe recipe_of(Process& process, const CommandLine& line, bool needs_data) {
  if (line.names.size() > 1)
    throw UsageError(join(line.command, ": one recipe file, got ", line.names.size(),
                          " names: ", line.names[0], ", ", line.names[1], ", ..."));
  RecipeInput input{.flags = line.flags,
                    .environment = process.environment,
                    .under_launcher = process.under_launcher,
                    .needs_data = needs_data,
                    .model_keys_of = model_keys_reader(process.files)};
  if (!line.names.empty()) {
    input.file = line.names[0];
    if (process.files.status(input.file).kind != FileKind::kFile)
      throw UsageError(
          join(line.command, ": there is no recipe file ", input.file,
               process.files.exists(input.file) ? " (what has that name is no file)" : ""));
    input.text = read_whole(process.files, input.file);
  }
  return parse_recipe(input);
}

}  // namespace trireme
