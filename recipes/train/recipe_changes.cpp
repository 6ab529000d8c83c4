#include "recipes/train/recipe_changes.h"

#include <algorithm>
#include <array>

#include "framework/base/error.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/values.h"

namespace trireme {

namespace {

enum class Rule : std::uint8_t { kFree, kNoted, kRefused };

template <std::size_t kCount>
bool is_in(const std::array<std::string_view, kCount>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Rule rule_of(const std::string& key, const Recipe& now) {
  using Names = std::array<std::string_view, 5>;
  constexpr std::array<std::string_view, 7> kTurned{
      "optimizer.lr",   "optimizer.min_lr", "optimizer.schedule",    "optimizer.warmup",
      "optimizer.clip", "data.skip",        "optimizer.weight_decay"};
  const std::string section = key.substr(0, key.find('.'));
  if (is_in(Names{"data.text", "data.tokens", "batch.micro", "model.from"}, key))
    return Rule::kFree;
  if (is_in(kTurned, key) || section == "precision") return Rule::kNoted;
  if (key == "optimizer.decay") return now.optimizer.schedule == "wsd" ? Rule::kNoted : Rule::kFree;
  if (key == "train.steps")
    return now.optimizer.schedule == "constant" ? Rule::kFree : Rule::kNoted;
  if (is_in(Names{"train.seed", "train.freeze", "train.train_only"}, key) ||
      is_in(Names{"model", "data", "batch", "optimizer", "lora"}, section))
    return Rule::kRefused;
  return Rule::kFree;
}

}  // namespace

RecipeChanges recipe_changes(const Recipe& saved, const Recipe& now) {
  RecipeChanges changes;
  for (const Key& key : keys()) {
    const std::string before = text_of(key, saved), after = text_of(key, now);
    const Rule rule = before == after ? Rule::kFree : rule_of(key.full_name(), now);
    if (rule == Rule::kFree) continue;
    (rule == Rule::kNoted ? changes.noted : changes.refused)
        .push_back(join(key.full_name(), " = ", after, ", the checkpoint has ", before));
  }
  return changes;
}

}  // namespace trireme
