// Small host values from all ranks, over any transport.
#pragma once

#include <string>
#include <vector>

#include "framework/comm/communicator.h"

namespace trireme {

// The texts of all ranks, by rank; the same on every rank. Collective.
std::vector<std::string> gather_texts(Communicator& group, Backend& backend,
                                      const std::string& mine);
// Elementwise sum or maximum over the ranks. Collective.
std::vector<double> reduce_values(Communicator& group, Backend& backend,
                                  const std::vector<double>& mine, ReduceOp op);

}  // namespace trireme
