// Fingerprints of what a rank holds of each logical tensor: which array of which tensor differs
// between two runs of a step, without keeping the bytes of either.
//
// One number for each run of elements (zero/state_runs.h), so padding, which lies in no tensor, is
// left out. Equal elements give equal numbers wherever they are at home. Reads through the backend
// of where the array is; one rank's thread, between steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/state_copy.h"

namespace trireme {

struct StatePrint {
  std::string tensor;  // logical name
  std::string array;   // of kept_homes; "gradient"
  std::uint64_t value = 0;
  bool operator==(const StatePrint&) const = default;
};

// In the order of kept_homes.
std::vector<StatePrint> state_prints(const ZeroOptimizer& optimizer, Backend& device,
                                     Backend& host);
// Of the gradients as the last step left them at home: summed over data ranks on the own shard,
// from there or from this rank alone elsewhere. Those on disk are left out.
std::vector<StatePrint> gradient_prints(const ZeroOptimizer& optimizer, Backend& device,
                                        Backend& host);

}  // namespace trireme
