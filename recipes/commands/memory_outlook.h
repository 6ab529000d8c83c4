// What a recipe would take, told without running it: per pipeline stage, for other stages of ZeRO,
// tiers and recomputation, and how far it could grow. All of it from recipes/memory's forecast.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipes/cli/recipe.h"
#include "recipes/memory/forecast.h"
#include "recipes/memory/machine_memory.h"

namespace trireme {

// The recipe as it is.
struct MemoryOutlook {
  std::vector<Forecast> stages;  // by pipeline stage: its rank of data 0, tensor 0
  MemoryLimit limit;             // of a rank; 0 bytes: unknown
  int fullest = 0;               // the stage that needs most
  std::int64_t needed = 0;       // bytes it needs of what is limited
  bool fits() const { return limit.bytes == 0 || needed <= limit.bytes; }
};

// One row of the table: everything legal of a stage's states on one tier, with recompute full the
// kept inputs, too. Bytes are peaks of the fullest rank.
struct MemoryVariant {
  std::int64_t zero_stage = 0;
  std::string offload, recompute;
  std::int64_t device = 0, host = 0, disk = 0, needed = 0;
  bool possible = true;  // false: cut off by a bound of the recipe (zero.max_live_parameters)
  bool is_recipe = false;
};

// The largest of one key with which the recipe fits, all else as it is.
struct MemoryReach {
  std::string key;
  std::int64_t now = 0;
  std::optional<std::int64_t> most;  // none: nothing fits
  bool more = false;                 // the search ended there, not the memory
  std::int64_t parameters = 0;       // of that model; of model.layers
};

// Recipes are resolved for the machine. Throw Error for what no run could do.
MemoryOutlook memory_outlook(const Recipe& recipe, const MemoryLimit& limit,
                             Detail detail = Detail::kTerms);
std::vector<MemoryVariant> memory_variants(const Recipe& recipe, const MemoryLimit& limit);
// The recipe changed to a row of the table; keys that lose their meaning are put back.
Recipe recipe_of(const Recipe& recipe, const MemoryVariant& row);
std::vector<MemoryReach> memory_reach(const Recipe& recipe, const MemoryLimit& limit);

// The recipe changed to what takes least: stage 3, all on disk, all recomputed, one sample a time.
Recipe smallest_of(Recipe recipe);

}  // namespace trireme
