// Adapters as PEFT keeps them: a folder of adapter_config.json and adapter_model.safetensors. Out
// of a checkpoint of ours, and into a whole model with the base that they stand beside.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/checkpoint/checkpoint_reader.h"
#include "recipes/cli/recipe.h"

namespace trireme {

// Is there an adapter_config.json?
bool is_adapter_folder(Files& files, const std::string& folder);
// Throws Error, with the command that helps, for such a folder: for who wants a whole model.
void expect_no_adapter(Files& files, const std::string& folder);
// base_model_name_or_path of its config; empty if it has none.
std::string base_of_adapter(Files& files, const std::string& folder);

struct AdapterExport {
  std::string base;       // folder the model came from, for the config; may be empty
  std::string tokenizer;  // folder of another one than the base's, which goes along; or empty
  bool replace = false;   // what is at the place, once the new folder is whole
};

// Matrices in f32, under PEFT's names: `peft` loads the folder beside the base as it is. `recipe`:
// resolved, of the run that made the checkpoint. Throws Error when `to` exists, is not empty and is
// not to be replaced. The folder appears whole under its name, or not at all.
void export_adapter(Files& files, const CheckpointReader& checkpoint, const Recipe& recipe,
                    const std::string& to, const AdapterExport& options);

struct AdapterMerge {
  std::string tokenizer;           // folder of another one than the base's; empty: the base's
  std::vector<std::int32_t> ends;  // of texts and answers: generation_config.json has them, too
  std::function<void(std::int64_t done, std::int64_t all)> progress;  // bytes; may be empty
};

// A model folder `to` of W + scale * B A: added in f32, rounded once to the type in which the base
// stores W. All else of the base's weights is as it was, byte by byte. Memory: a few blocks and the
// matrices of one adapter. Throws Error for what PEFT may keep and this does not understand (DoRA,
// biases, whole modules, ranks by pattern), by name; for adapters of tensors that the base has not,
// or of other shapes.
void merge_adapter(Files& files, const std::string& adapter, const std::string& base,
                   const std::string& to, const AdapterMerge& options = {});

}  // namespace trireme
