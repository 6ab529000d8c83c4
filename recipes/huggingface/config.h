// config.json of a Hugging Face model folder: which of our models it describes.
//
// Families: GPT-2, Llama 2 and 3, Mistral, Qwen 2 and 3, Gemma 1. Everything in the file is either
// understood, known to change nothing, or refused by name: silently ignoring one key (a scaling of
// positions, a window, a tied head) is how converted models go wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/base/json/json.h"

namespace trireme {

struct HfModel {
  std::string type;  // model_type: "llama"
  // Recipe keys of the section model that it decides, as texts: {"layers", "30"}.
  std::vector<std::pair<std::string, std::string>> keys;
  std::int64_t vocab = 0;
  std::int64_t context = 0;    // positions the model was made for
  std::optional<DType> dtype;  // of the stored weights, if it says
};

// Error naming `name` (the file) and every value that is not supported.
HfModel read_hf_config(const Json& config, const std::string& name);

// "gpt2, llama, mistral, ...": what read_hf_config takes.
std::string hf_model_types();

}  // namespace trireme
