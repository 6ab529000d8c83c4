// One use of a list entry, for real and on paper, as the bytes of activations that are in use.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/backend/backend.h"
#include "recipes/memory/layer_memory.h"

namespace trireme::test {

// An allocation of activations: its bytes, and those in use with it.
struct Taken {
  std::int64_t bytes = 0, in_use = 0;
  bool operator==(const Taken&) const = default;
};

struct Trail {
  std::vector<Taken> taken;  // in order
  std::int64_t peak = 0, held = 0;
};

struct Trails {
  Trail forward, backward, inference;
  Trail backward_input, backward_weight;  // of a second pass, split
};

struct LayerCase {
  ModelOptions model;
  int entry = 0;  // of the list
  LayerUse use;
};
std::string text_of(const LayerCase& layer);
EntryKind kind_of(const ModelOptions& model, int entry);

using BackendMaker = std::function<std::unique_ptr<Backend>(std::shared_ptr<MemoryLedger>)>;

// Runs the entry on thread ranks, with weights of zero; by rank. Only the reference backend (an
// empty maker) is asked for each allocation.
std::vector<Trails> real_trails(const LayerCase& layer, const BackendMaker& maker = {});
// Replays its list on a ledger.
Trails listed_trails(const LayerCase& layer);

// Puts the steps on a ledger.
void replay(MemoryLedger& ledger, const std::vector<MemoryStep>& steps);
std::int64_t bytes_of(const std::vector<MemoryStep>& steps, const std::string& taken);

}  // namespace trireme::test
