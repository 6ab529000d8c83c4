// What a model that is only run takes on a rank, and where its weights find room: who stays on the
// device, who is streamed, and what to change if it does not fit. Estimates of bytes, from above
// but for weights, which are exact up to padding; before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "recipes/cli/recipe.h"
#include "recipes/memory/machine_memory.h"
#include "recipes/models/engine.h"

namespace trireme {

// For keys and values.
struct CacheWish {
  // Most on each rank, --kv-cache; 0: the command has no such option.
  std::int64_t bytes = 0;
  std::int64_t tokens = 0;  // of a text; 0: batch.sequence
  bool whole = false;       // texts have the model's whole context, or `tokens` of it
  std::int64_t texts = 1;   // at a time
};

// Of the fullest rank.
struct InferenceNeeds {
  std::int64_t weights = 0;  // of its units
  std::int64_t largest_unit = 0;
  std::int64_t cache = 0;        // of keys and values, wherever they are
  std::int64_t cache_here = 0;   // in the memory of the limit
  std::int64_t least_cache = 0;  // with which a short text can be made
  std::int64_t pass = 0;         // rows of a pass, logits
  std::int64_t process = 0;      // beside, where device and host are one memory
  bool copied = false;           // the weights, if they are streamed from disk
  std::int64_t beside_weights() const { return cache_here + pass + process; }
};
InferenceNeeds inference_needs(const Recipe& recipe, const EngineOptions& options,
                               const CacheWish& cache, const MemoryLimit& limit);

// Says in `options` how much of the device streamed weights may take, if offload.resident = auto.
void leave_room(const Recipe& recipe, const InferenceNeeds& needs, const MemoryLimit& limit,
                EngineOptions& options);

// Empty if it fits, or the limit is unknown; else a table, and the flags with which it would: of
// --kv-cache, where the command has that option (`sized_cache`), and of the weights.
std::string inference_misfit(const Recipe& recipe, const InferenceNeeds& needs,
                             const MemoryLimit& limit, bool sized_cache = false);

}  // namespace trireme
