// The published list: what one use of a list entry takes and gives back, tensor by tensor, in
// order.
//
// Written from the layers' definition, not read from a run: tests replay it beside a real step and
// ask for equal bytes. It is the activation formula of `trireme memory --explain` and of the
// report's formula_peak. Kinds listed: activations, communication that layers take, and workspace
// only where a layer itself names it (losses); scratch inside kernels is not listed.
//
// Legend: B samples of a micro-batch, T tokens of each, R = B T rows, r its rows on this rank with
// sequence parallelism, C hidden, F feed-forward, H heads, G kv heads, D head size, V vocabulary
// (padded), n rows of a chunk of the loss, t tensor ranks; w bytes of the wide type, c of the
// compute type.
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
  std::string formula;  // "R C c"
  std::int64_t bytes = 0;
  MemoryKind kind = MemoryKind::kActivations;
};

// What a use needs to know beside the model.
struct LayerUse {
  std::int64_t samples = 1;  // of the micro-batch
  int tensor = 1;            // ranks, of which all take the same
  bool sequence_parallel = false;
  DType compute = DType::kF32;
  bool selective = false;        // norm and activation outputs are made again
  bool dropout = false;          // p > 0 and a training pass: evaluation draws no masks
  bool first_block = false;      // mlp: block 0 takes the window and adds no residual
  bool narrow_gradient = false;  // "output gradient" is of the compute type: see below
};

// All steps of a use, relative to what is held before it; lists of neighbours can be put together.
// Four tensors cross a use's ends, each under one name:
//   "input"            the stream that comes in. Not taken here: it is the "output" of the entry
//                      before, or a received boundary. Given back where the entry itself lets go of
//                      it: in backward if the tape keeps it, else as the last step of `forward`;
//                      always as the last step of `inference`. The embedding gives back none: ids
//                      and labels are the engine's.
//   "output"           taken by `forward` and `inference` and left taken: the "input" of the entry
//                      after. The head has none.
//   "output gradient"  taken before backward, as the "input gradient" of the entry after, and
//                      given back in it. The head has none.
//   "input gradient"   taken by backward and left taken. The embedding has none. Compute type for
//                      block 0 of the mlp and a head without norm, else as narrow_gradient says.
// A recomputed segment of entries holds its input itself: the give of the first entry's "input"
// moves to the end of the segment's inference in an evaluation, to the end of its backward (or B)
// in training, and drops out of its `forward`. That second forward's last "output" is given back at
// once. The W half of a split backward drains entries in the order in which B passed them; what it
// gives back ("input" of an mlp in one type) is held by then, whatever B's list could give back.
// A tensor that goes on under another name (a gradient that is added to in place) is given back and
// taken at once, with the formula "as <its former name>": nothing is allocated.
struct LayerMemory {
  std::vector<MemoryStep> forward;   // with a tape: what stays taken is kept until backward
  std::vector<MemoryStep> backward;  // unsplit, queue drained; all parameters are trained
  std::vector<MemoryStep> backward_input, backward_weight;  // the halves of a split one, instead
  std::vector<MemoryStep> inference;  // without a tape: evaluation, and recomputation's first pass
};

enum class EntryKind : std::uint8_t { kEmbedding, kBlock, kHead };

// Exact for activations of every backend on thread ranks; MPI adds staging of its own, under
// communication. Throws Error for sizes that cannot be cut over the ranks.
LayerMemory layer_memory(const ModelOptions& model, EntryKind kind, const LayerUse& use);

// Is the "input gradient" of the compute type where that is narrower than the stream? It is the
// narrow_gradient of the entry before, except across a pipeline's cut, where gradients are wide.
bool narrow_input_gradient(const ModelOptions& model, EntryKind kind, const LayerUse& use);

// The unsplit lists as aligned tables: tensor, formula, bytes, how long it lives, and the sums of
// the entry's own tensors (its input is the entry before's).
std::string explain(const LayerMemory& memory);

}  // namespace trireme
