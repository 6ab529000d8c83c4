// How a model folder says where a text ends: eos_token_id of generation_config.json, which wins,
// or of config.json; and how its tokens want to be drawn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/files.h"

namespace trireme {

// eos_token_id of generation_config.json, else of config.json: a number or a list. Empty if neither
// says one. Error for what is no id of 31 bits; the model may have fewer.
std::vector<std::int32_t> end_ids_of(Files& files, const std::string& folder);

// What generation_config.json says of drawing, for whoever says nothing else. do_sample = false is
// a temperature of 0: the likeliest token. Error naming file, key, value and the legal ones.
struct DrawingDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int64_t> top_k;
};
DrawingDefaults drawing_defaults_of(Files& files, const std::string& folder);

// generation_config.json of `to`: that of `base` (may be empty, or without one) byte for byte if it
// has all of `ends`; else with eos_token_id = what base says, then the ends that it lacks. Nothing
// is written if there are no ends at all.
void write_generation_config(Files& files, const std::string& base, const std::string& to,
                             const std::vector<std::int32_t>& ends);

}  // namespace trireme
