// The bytes that a training run must send, computed from the action list and the list of layers:
// the oracle beside the counts.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "recipes/models/engine.h"

namespace trireme {

// Bytes this rank sends by "axis/operation" in `steps` attempted steps of which `applied` were not
// skipped. Operations without an entry have no formula.
std::map<std::string, std::int64_t> traffic_formulas(const Mesh& mesh, Engine& engine,
                                                     std::int64_t steps, std::int64_t applied);

}  // namespace trireme
