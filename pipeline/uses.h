// A schedule flattened to single uses of list entries: what is touched when, known before the step.
//
// ZeRO maps entries to its units and reads this order: how many backward passes a unit will see,
// what to fetch next, where a last use is. It is data; pipeline never names a unit.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/schedule.h"

namespace trireme {

struct Use {
  enum class Kind : std::uint8_t { kForward, kBackward, kBackwardWeight };
  Kind kind = Kind::kForward;
  std::int64_t action = 0;  // index in the action list
  int micro = 0;
  int entry = 0;  // index among this rank's list entries, chunk after chunk
};

// `entries[c]` = number of list entries of chunk c. Forward uses come in list order, backward ones
// in reverse.
std::vector<Use> flatten(const ActionList& actions, const std::vector<int>& entries);

// For each entry, the number of backward uses in one step.
std::vector<std::int64_t> backward_uses(const std::vector<Use>& order, int entries);

}  // namespace trireme
