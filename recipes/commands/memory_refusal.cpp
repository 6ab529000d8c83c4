#include "recipes/commands/memory_refusal.h"

#include <utility>

#include "framework/base/error.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/recipe_text.h"
#include "recipes/cli/values.h"
#include "recipes/report/numbers.h"
#include "recipes/train/memory_advice.h"

namespace trireme {

namespace {

std::vector<std::string> flags_between(const Recipe& from, const Recipe& to) {
  std::vector<std::string> flags;
  for (const Key& key : keys())
    if (const std::string value = text_of(key, to); value != text_of(key, from))
      flags.push_back(join("--", key.full_name(), "=", value));
  return flags;
}

std::optional<MemoryChange> change_to(const Recipe& recipe, const Recipe& changed,
                                      const MemoryLimit& limit) try {
  const MemoryOutlook told = memory_outlook(changed, limit, Detail::kBytes);
  if (!told.fits()) return std::nullopt;
  return MemoryChange{.flags = flags_between(recipe, changed), .needed = told.needed};
} catch (const Error&) {
  return std::nullopt;
}

// As a recipe has it: "200KiB".
std::string written_limit(const Recipe& recipe) {
  return text_of(*find_key("device.memory"), recipe);
}

std::string text_of(const MemoryChange& change) {
  std::string text;
  for (const std::string& flag : change.flags) text += (text.empty() ? "" : " ") + flag;
  return join(text, " (then ", bytes_text(change.needed), ")");
}

}  // namespace

std::optional<MemoryChange> smallest_change(const Recipe& recipe, const MemoryLimit& limit) {
  std::optional<MemoryChange> best;
  for (const MemoryVariant& row : memory_variants(recipe, limit)) {
    if (!row.possible || row.is_recipe || row.needed > limit.bytes) continue;
    MemoryChange change{.flags = flags_between(recipe, recipe_of(recipe, row)),
                        .needed = row.needed};
    if (!best || change.flags.size() < best->flags.size()) best = std::move(change);
  }
  if (best) return best;
  const Recipe least = smallest_of(recipe);
  Recipe same_step = least;
  same_step.batch.global = recipe.batch.global;
  best = change_to(recipe, same_step, limit);
  return best ? best : change_to(recipe, least, limit);
}

std::optional<MemoryChange> smaller_micro_batch(const Recipe& recipe, const MemoryLimit& limit) {
  for (std::int64_t micro = recipe.batch.micro - 1; micro > 0; --micro) {
    if (recipe.batch.global / recipe.parallel.data % micro != 0) continue;
    Recipe changed = recipe;
    changed.batch.micro = micro;
    if (const auto change = change_to(recipe, changed, limit)) return change;
  }
  return std::nullopt;
}

std::string memory_refusal(const MemoryOutlook& outlook, const Recipe& recipe) {
  if (outlook.fits() || recipe.device.memory == 0) return "";
  const std::int64_t least =
      memory_outlook(smallest_of(recipe), outlook.limit, Detail::kBytes).needed;
  if (least <= recipe.device.memory) return "";
  return join("device.memory = ", written_limit(recipe), ": this recipe takes ",
              bytes_text(outlook.needed), " a rank, and not less than ", bytes_text(least), " (",
              least, " bytes) with zero.stage = 3, offload on disk, recompute.mode = full and ",
              "batch.micro = 1. ", advice_for_states(recipe));
}

std::string memory_misfit(const MemoryOutlook& outlook, const Recipe& recipe) {
  if (outlook.fits() || recipe.device.memory == 0) return "";
  const Forecast& told = outlook.stages[static_cast<std::size_t>(outlook.fullest)];
  if (!told.cell(Tier::kDevice, MemoryKind::kActivations).exact) return "";
  std::string text = join("device.memory = ", written_limit(recipe), ": a step takes ",
                          bytes_text(outlook.needed), " of a rank's device (", outlook.needed,
                          " bytes), ", bytes_text(outlook.needed - outlook.limit.bytes), " more.");
  const auto change = smallest_change(recipe, outlook.limit);
  const auto micro = smaller_micro_batch(recipe, outlook.limit);
  if (change) text += " The smallest change that fits: " + text_of(*change);
  if (micro) text += (change ? "; or " : " It fits with ") + text_of(*micro);
  if (change || micro) text += ".";
  return text + " `trireme memory` shows what else would, and a larger device.memory does.";
}

}  // namespace trireme
