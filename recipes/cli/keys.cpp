#include "recipes/cli/keys.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "framework/base/error.h"
#include "recipes/cli/values.h"

namespace trireme {

std::string Key::full_name() const { return std::string(section) + "." + std::string(name); }

std::string Key::environment() const {
  std::string text = "TRIREME_" + std::string(section) + "_" + std::string(name);
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::span<const KeySection> sections() {
  static constexpr std::array<KeySection, 14> kSections{{
      {"model", "the network's shape"},
      {"data", "what it learns from"},
      {"batch", "how much it sees in a step"},
      {"parallel", "ranks: data, tensor and pipeline parallelism, and how they are launched"},
      {"pipeline", "how stages take turns"},
      {"recompute", "activations computed again in backward instead of kept"},
      {"zero", "what data ranks share out instead of repeating"},
      {"offload", "where state lives when the device is too small"},
      {"precision", "number formats"},
      {"optimizer", "how weights change"},
      {"train", "the run: length, seed, what it writes and when"},
      {"device", "what computes"},
      {"lora", "low-rank adapters that are trained instead of the model's own weights"},
      {"inference", "a model that is only run: generate, chat, serve, bench, evaluate"},
  }};
  return kSections;
}

const std::vector<Key>& keys() {
  static const std::vector<Key> kKeys = [] {
    std::vector<Key> all = model_keys();
    for (auto rows : {layout_keys(), training_keys(), lora_keys(), inference_keys()})
      all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }();
  return kKeys;
}

const Key* find_key(std::string_view full_name) {
  const auto& all = keys();
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const Key& key) { return key.full_name() == full_name; });
  return found == all.end() ? nullptr : &*found;
}

Recipe default_recipe() {
  Recipe recipe;
  for (const Key& key : keys()) {
    std::string problem = assign(key, std::string(key.initial), recipe);
    if (!problem.empty()) fail("key table: default of ", key.full_name(), ": ", problem);
  }
  return recipe;
}

}  // namespace trireme
