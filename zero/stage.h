// ZeRO's stages as one table of what stays whole (arXiv 1910.02054, section 5). Stage 0 is plain
// data parallelism.
//
// What is not whole is cut over the data ranks: rank r has its shard of each unit's flat buffer.
// Weights that are not whole are gathered for each use; gradients that are not whole are whole from
// the first to the last backward use of a micro-batch.
#pragma once

namespace trireme {

struct StagePolicy {
  bool whole_weights = true;    // stages 0-2
  bool whole_gradients = true;  // stages 0-1
  bool whole_states = true;     // stage 0
};

constexpr StagePolicy policy_of(int stage) { return {stage < 3, stage < 2, stage < 1}; }

}  // namespace trireme
