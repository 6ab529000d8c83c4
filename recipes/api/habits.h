// Fields that clients send by habit, where they ask for what this server does anyway: they are
// taken, and have no effect. Any other value of them would be a wish that is not met, and is
// refused by name. One table for who reads requests and for /openapi.json.
#pragma once

#include <string>
#include <vector>

#include "framework/base/json/json.h"

namespace trireme {

struct HabitField {
  std::string name;
  std::vector<Json> legal;  // null is legal for any field
  std::string help;
};

// Of /v1/chat/completions, else of /v1/completions.
const std::vector<HabitField>& habit_fields(bool chat);

// Names of strings that say who asks or for which cache, without effect: prefixes are found by what
// they say, and kept apart by key.
const std::vector<std::string>& label_fields();

constexpr std::size_t kMetadataPairs = 16, kMetadataBytes = 512;  // as OpenAI's

}  // namespace trireme
