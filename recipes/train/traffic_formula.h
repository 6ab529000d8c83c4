// The bytes that a training run must send, computed from the action list, the list of layers and
// the layouts of units: the oracle beside the counts, exact for every operation of a step.
//
// A collective of n elements over N ranks, of which this rank's piece has k, sends (n - k) by
// reduce_scatter, k (N - 1) by all_gather, and both by all_reduce. So a Transformer layer without
// sequence parallelism sends 8 b s h (t - 1) / t a micro-batch (Megatron-LM, arXiv 1909.08053):
// four all_reduces of (b s, h).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "recipes/models/engine.h"

namespace trireme {

// Bytes this rank sends by "axis/operation" in `steps` attempted steps of which `applied` were not
// skipped. Left out: world/broadcast once a step was skipped, which tells the bad parameter's name
// from the rank that has it.
std::map<std::string, std::int64_t> traffic_formulas(const Mesh& mesh, Engine& engine,
                                                     std::int64_t steps, std::int64_t applied);

}  // namespace trireme
