// What one row of the table over runs says, in numbers. Internal to recipes/report.
#pragma once

#include "recipes/report/run_folder.h"

namespace trireme {

struct TierBytes {
  std::int64_t resident = 0, peak = 0;
  std::size_t rank = 0;  // the fullest at the peak
};

struct RunRow {
  std::int64_t steps = 0;
  std::optional<double> loss, validation_loss;  // the last ones
  std::map<std::string, TierBytes> memory;      // by tier; without tiers that hold nothing
  std::optional<double> sent_per_step;          // bytes, over all ranks
  // Means over the steps after the first, which sets things up (unless it is the only one).
  std::optional<double> tokens_per_s, seconds_per_step;
};

RunRow row_of(const RunFolder& run);

// Of recipe.cfg; "?" if it is not there.
std::string recipe_value(const RunFolder& run, const std::string& key);
// "d2 p2 t2": data, pipeline and tensor ranks.
std::string mesh_text(const RunFolder& run);
// The tiers that are not "none": ("optimizer", "disk").
std::vector<std::pair<std::string, std::string>> offloads_of(const RunFolder& run);

}  // namespace trireme
