// What a layer takes and gives back, told by the layer itself: it runs once on a backend without
// bytes. For entries that the published lists (layer_memory.h) do not tell: with frozen parameters,
// adapters, or an input that wants no gradient. Internal to forecast.
#pragma once

#include "recipes/memory/forecast_rank.h"
#include "recipes/memory/layer_memory.h"

namespace trireme {

struct TracedUse {
  EntryKind kind = EntryKind::kBlock;
  LayerUse layer;
  bool input_wants_grad = true;
};

// Of entry `entry` of the rank. Steps have the names of the published lists where tensors cross the
// entry's ends; without a gradient that goes in or out those are missing. Tensors inside are
// numbered.
LayerMemory traced_memory(const ForecastRank& rank, int entry, const TracedUse& use);

}  // namespace trireme
