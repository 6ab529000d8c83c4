// From a recipe to what the engine is told: words become options, "auto" becomes a choice that the
// machine allows.
#pragma once

#include <memory>
#include <string>

#include "framework/data/samples.h"
#include "recipes/cli/recipe.h"
#include "recipes/memory/forecast.h"
#include "recipes/models/engine.h"

namespace trireme {

struct Machine {
  int cores = 1;
  int local_ranks = 1;  // ranks of this run on this machine
  bool bf16 = false;    // does this CPU multiply bf16? Else it is storage
};

// Resolves precision.compute, parallel.threads and model.vocab (at least `vocabulary`, the data's)
// in place: compute auto is bf16 where the CPU multiplies it or weights are quantized (their fast
// products take 16-bit rows), else f32. Throws UsageError for a precision that device.kind cannot
// compute.
void resolve_for_machine(Recipe& recipe, const Machine& machine, std::int64_t vocabulary);

// Of a recipe that is resolved for the machine: is precision.compute only storage on this CPU, its
// products those of f32?
bool is_storage_only(const Recipe& recipe, const Machine& machine);

// Of a recipe that is resolved for the machine. Throws UsageError for patterns and targets that the
// model has nothing of (recipes/train/freezing.h).
EngineOptions engine_options(const Recipe& recipe);
SampleOptions sample_options(const Recipe& recipe);
MeshShape mesh_shape(const Recipe& recipe);
Transport transport_of(const Recipe& recipe);
// Is any of its checkpoints written while training goes on? Not the last one.
bool saves_in_background(const Recipe& recipe);

// The backend of one rank, with device.memory as its limit.
std::unique_ptr<Backend> make_backend(const Recipe& recipe);

}  // namespace trireme
