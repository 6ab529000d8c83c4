// Why training does not begin: device.memory is less than a step takes, which is known before one.
// A limit that is only the machine's refuses nothing, for it may lend more than it has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipes/commands/memory_outlook.h"

namespace trireme {

// A recipe that fits, and what of the given one was changed for it: flags as a shell takes them.
struct MemoryChange {
  std::vector<std::string> flags;
  std::int64_t needed = 0;
};

// Of the table's rows that fit, the one with the fewest changes, the first of them; if none does,
// the row that takes least with one sample at a time, and then with a smaller step, too.
std::optional<MemoryChange> smallest_change(const Recipe& recipe, const MemoryLimit& limit);
// The largest smaller batch.micro that fits with all else as it is.
std::optional<MemoryChange> smaller_micro_batch(const Recipe& recipe, const MemoryLimit& limit);

// device.memory is below what the recipe takes at the least, however its states are cut and moved:
// no value for it. Empty if it is not.
std::string memory_refusal(const MemoryOutlook& outlook, const Recipe& recipe);
// It is above that, but below what this recipe takes: need, limit and what to change. Empty if it
// fits, if device.memory is not given, or if the forecast is only an estimate.
std::string memory_misfit(const MemoryOutlook& outlook, const Recipe& recipe);

}  // namespace trireme
