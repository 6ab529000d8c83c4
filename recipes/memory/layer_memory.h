// The published list: what one use of a list entry takes and gives back, tensor by tensor, in
// order.
//
// Written from the layers' definition, not read from a run: tests replay it beside a real step and
// ask for equal bytes. It is the activation formula of `trireme memory --explain` and of the
// report's formula_peak. Kinds listed: activations, communication that layers take, and workspace
// only where a layer itself names it (losses); scratch inside kernels is not listed.
//
// Legend: R rows of a micro-batch (samples x tokens), r its rows on this rank with sequence
// parallelism, C hidden, F feed-forward, H heads, G kv heads, D head size, V vocabulary, t tensor
// ranks; w bytes of the wide type, c of the compute type.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/base/memory_ledger.h"
#include "recipes/models/layer_list.h"

namespace trireme {

struct MemoryStep {
  bool take = true;     // or give back
  std::string tensor;   // unique while taken: "norm1 output"
  std::string formula;  // "R C c"; of takes
  std::int64_t bytes = 0;
  MemoryKind kind = MemoryKind::kActivations;
};

// What a use needs to know beside the model.
struct LayerUse {
  std::int64_t samples = 1;  // of the micro-batch
  int tensor = 1;            // ranks
  int tensor_rank = 0;
  bool sequence_parallel = false;
  DType compute = DType::kF32;
  bool selective = false;   // norm and activation outputs are made again
  bool first_stage = true;  // its input has no gradient (entry 0 has ids as input)
  bool dropout = false;     // p > 0
};

// All steps of a use, relative to what is held before it. The input is not listed (its owner counts
// it), the output is: `forward` takes it last or leaves it taken.
struct LayerMemory {
  std::vector<MemoryStep> forward;   // with a tape: what stays taken is kept until backward
  std::vector<MemoryStep> backward;  // unsplit; ends with nothing of the layer taken but dx
  std::vector<MemoryStep>
      inference;  // without a tape (also the first pass of a recomputed segment)
};

enum class EntryKind : std::uint8_t { kEmbedding, kBlock, kHead };

LayerMemory layer_memory(const ModelOptions& model, EntryKind kind, const LayerUse& use);

}  // namespace trireme
