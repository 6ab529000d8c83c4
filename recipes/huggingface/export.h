// From a checkpoint of any layout to a model folder that `transformers` loads: config.json, weights
// in safetensors, tokenizer and templates of the folder the model came from, and a model card.
//
// Tensors are read, converted and written in blocks: memory is bounded by a few blocks, whatever
// the model's size. The folder appears whole under its name, or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/checkpoint/checkpoint_reader.h"
#include "recipes/cli/recipe.h"
#include "recipes/huggingface/folder.h"

namespace trireme {

struct HfExport {
  // Of the weights in the files; empty: each tensor's is that of the base's, f32 without a base.
  std::optional<DType> dtype;
  std::int64_t shard_bytes = std::int64_t{5} << 30;  // of one file, at most one tensor more
  std::string base;                                  // folder the model came from; may be empty
  std::vector<std::int32_t> ends;  // of texts and answers: generation_config.json has them
  std::string history;             // text of trainer_state.json; empty: none
  bool replace = false;            // what is at the place, once the new folder is whole
  std::function<void(std::int64_t done, std::int64_t all)> progress;  // bytes; may be empty
};

// `recipe`: resolved, of the run that made the checkpoint. Tokenizer and templates
// are copied from its data.tokenizer, if that is a folder, else from options.base. Throws Error
// when no family of Hugging Face's has such a model, when `to` exists, is not empty and is not to
// be replaced, or when the disk has no room.
void export_model(Files& files, const CheckpointReader& checkpoint, const Recipe& recipe,
                  const std::string& to, const HfExport& options);

// What the model was trained with, so that its template goes with it; `base` where that is no
// folder. May be empty.
std::string tokenizer_folder(Files& files, const Recipe& recipe, const std::string& base);

// The types that the floating-point weights of a folder are stored in, most frequent first.
std::vector<DType> stored_types(const HfFolder& folder);

}  // namespace trireme
