#include "recipes/huggingface/adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/checkpoint/safetensors/safetensors_writer.h"
#include "recipes/huggingface/companions.h"
#include "recipes/huggingface/making.h"
#include "recipes/huggingface/tensors.h"

namespace trireme {

namespace {

constexpr std::string_view kEnds[] = {".lora_A.weight", ".lora_B.weight"};
constexpr std::string_view kQkv = ".qkv";

struct Stored {
  SafeTensor header;
  std::vector<LogicalArray> parts;
};

// "layers.0.attention.qkv": where the linear lies, which for one of all projections is that of q.
HfPlace place_of(HfNaming naming, std::string linear) {
  if (linear.ends_with(kQkv)) linear.replace(linear.size() - kQkv.size(), kQkv.size(), ".q");
  const std::optional<HfPlace> place = hf_place(naming, linear + ".weight");
  check(place.has_value(), "linear ", linear, " has no name in the files of this family");
  return *place;
}

std::map<std::string, Stored> stored_tensors(const CheckpointReader& checkpoint, HfNaming naming) {
  std::map<std::string, Stored> all;
  for (const LogicalArray& array : checkpoint.arrays()) {
    const std::string& name = array.name.tensor;
    for (const std::string_view end : kEnds) {
      if (array.name.array != "value" || !name.ends_with(end)) continue;
      const HfPlace place = place_of(naming, name.substr(0, name.size() - end.size()));
      const bool fused = end == kEnds[1];
      const std::string linear = place.name.substr(0, place.name.rfind('.'));
      const std::string stored =
          join("base_model.model.", naming == HfNaming::kGpt2 ? "transformer." : "", linear, end);
      Stored& tensor = all[stored];
      const std::int64_t parts = fused ? place.parts : 1;
      tensor.header = {
          .name = stored, .dtype = "F32", .shape = {array.rows() * parts, array.columns()}};
      tensor.parts.resize(static_cast<std::size_t>(parts));
      tensor.parts[static_cast<std::size_t>(fused ? place.part : 0)] = array;
    }
  }
  check(!all.empty(), "the checkpoint has no adapters (lora.rank was off)");
  return all;
}

void write_tensors(Files& files, const CheckpointReader& checkpoint,
                   const std::map<std::string, Stored>& tensors, const std::string& folder) {
  std::vector<SafeTensor> headers;
  for (const auto& [name, tensor] : tensors) headers.push_back(tensor.header);
  SafetensorsWriter writer(files, path_join(folder, "adapter_model.safetensors"), headers,
                           {{"format", "pt"}});
  std::vector<float> values;
  for (const auto& [name, tensor] : tensors)
    for (const LogicalArray& part : tensor.parts) {
      check(!part.name.tensor.empty(), "a part of ", name, " is missing in the checkpoint");
      values.resize(static_cast<std::size_t>(part.shape.elements()));
      checkpoint.read(part.name, {0, 0, part.rows(), part.columns()}, DType::kF32, values.data());
      writer.write(values.data(), static_cast<std::int64_t>(values.size() * sizeof(float)));
    }
  writer.commit();
}

// Ends of module names that mean these linears and no others: "c_proj", or "attn.c_proj" where the
// other one has no adapter.
Json::Array target_modules(const std::map<std::string, Stored>& tensors, HfNaming naming) {
  std::set<std::string> modules;
  for (const auto& [name, tensor] : tensors) {
    std::string module = name.substr(0, name.size() - kEnds[0].size());
    const std::size_t leaf = module.rfind('.');
    modules.insert(module.substr(module.rfind('.', leaf - 1) + 1));
  }
  std::set<std::string> names;
  const bool both = modules.contains("attn.c_proj") && modules.contains("mlp.c_proj");
  for (const std::string& module : modules) {
    const bool whole = naming == HfNaming::kGpt2 && module.ends_with(".c_proj") && !both;
    names.insert(whole ? module : module.substr(module.find('.') + 1));
  }
  Json::Array array;
  for (const std::string& name : names) array.emplace_back(name);
  return array;
}

// What peft writes, field by field; those that it has beside have their defaults.
Json config_of(const Recipe& recipe, const std::map<std::string, Stored>& tensors, HfNaming naming,
               const std::string& base) {
  const LoraSection& lora = recipe.lora;
  const bool whole = lora.alpha == std::floor(lora.alpha);
  return Json::Object{
      {"alpha_pattern", Json::Object{}},
      {"auto_mapping", Json()},
      {"base_model_name_or_path", base.empty() ? Json() : Json(base)},
      {"bias", "none"},
      {"fan_in_fan_out", naming == HfNaming::kGpt2},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"layers_pattern", Json()},
      {"layers_to_transform", Json()},
      {"lora_alpha", whole ? Json(static_cast<std::int64_t>(lora.alpha)) : Json(lora.alpha)},
      {"lora_dropout", 0.0},
      {"modules_to_save", Json()},
      {"peft_type", "LORA"},
      {"r", lora.rank},
      {"rank_pattern", Json::Object{}},
      {"revision", Json()},
      {"target_modules", target_modules(tensors, naming)},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", lora.rslora}};
}

std::string card(const Manifest& manifest, const std::string& base) {
  return join("---\nlibrary_name: peft\n", base.empty() ? "" : "base_model: " + base + "\n",
              "---\n\n# Model card\n\nAdapters of ", manifest.step,
              " steps.\n\nTo be written: what they are for, what they were trained on, what they ",
              "must not be used for.\n");
}

}  // namespace

bool is_adapter_folder(Files& files, const std::string& folder) {
  return files.exists(path_join(folder, "adapter_config.json"));
}

void expect_no_adapter(Files& files, const std::string& folder) {
  check(!is_adapter_folder(files, folder), folder,
        ": these are adapters beside another model; trireme checkpoint merge ", folder,
        " OUT makes a whole model of both");
}

std::string base_of_adapter(Files& files, const std::string& folder) {
  const std::string path = path_join(folder, "adapter_config.json");
  const Json config = parse_json(read_whole(files, path), path);
  const Json* base = config.find("base_model_name_or_path");
  return base && !base->is_null() ? base->text(path + ": base_model_name_or_path") : "";
}

void export_adapter(Files& files, const CheckpointReader& checkpoint, const Recipe& recipe,
                    const std::string& to, const AdapterExport& options) {
  const HfNaming naming = recipe.model.family == "gpt2" ? HfNaming::kGpt2 : HfNaming::kLlama;
  const std::map<std::string, Stored> tensors = stored_tensors(checkpoint, naming);
  make_folder(files, to, options.replace, [&](const std::string& making) {
    write_tensors(files, checkpoint, tensors, making);
    write_whole_atomically(files, path_join(making, "adapter_config.json"),
                           to_text(config_of(recipe, tensors, naming, options.base), 2) + "\n");
    write_whole_atomically(files, path_join(making, "README.md"),
                           card(checkpoint.manifest(), options.base));
    if (!options.tokenizer.empty()) copy_companions(files, options.tokenizer, making);
  });
}

}  // namespace trireme
