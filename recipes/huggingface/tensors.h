// Where a logical tensor of ours lies in a Hugging Face file, by family: its name there, whether it
// is transposed (GPT-2's Conv1D weights are stored (inputs, outputs)), and which rows of a fused
// tensor it is (GPT-2 keeps queries, keys and values in one).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/base/shape.h"

namespace trireme {

struct HfPlace {
  std::string name;         // without a prefix of the whole model
  bool transposed = false;  // stored (columns, rows)
  // The stored tensor, in our orientation, has parts x rows rows; ours are the part-th.
  std::int64_t parts = 1, part = 0;
};

enum class HfNaming : std::uint8_t { kGpt2, kLlama };

// Nothing if tensors of that name are not part of the family.
std::optional<HfPlace> hf_place(HfNaming naming, const std::string& logical);

// Tensors that files may hold beside: buffers that the model makes anew.
bool is_hf_buffer(const std::string& name);

}  // namespace trireme
