// Cuts a model's list of layers into consecutive parts for the stages of a pipeline.
//
// A partition is a list of bounds: part j holds entries [bounds[j], bounds[j + 1]); bounds start at
// 0 and end at the number of entries, no part is empty. With v chunks per stage there are p * v
// parts; part j (virtual stage j) is chunk j / p of stage j % p.
//
// The slowest part sets the pace of a pipeline, so parts are cut to minimise the largest sum of
// costs, exactly (dynamic programming), and not the spread. Costs are any unit, e.g. FLOPs per
// token, and should count embedding and head.
#pragma once

#include <string>
#include <vector>

namespace trireme {

using Bounds = std::vector<int>;

// The partition with the smallest maximum. Among equals the last part is as light as possible (it
// also computes the loss), then the rest is cut by the same rule. O(n^2 * parts). Throws Error for
// fewer entries than parts, parts < 1, or a cost that is negative or not finite.
Bounds partition_min_max(const std::vector<double>& costs, int parts);

// The partition with explicit sizes. Throws Error unless there are `parts` sizes, each at least 1,
// that sum to `entries`.
Bounds partition_by_counts(const std::vector<int>& counts, int parts, int entries);

// Sum of costs of each part.
std::vector<double> part_costs(const std::vector<double>& costs, const Bounds& bounds);

// Cost of the busiest stage over the mean of all stages: 1 = perfect. A stage has the parts j with
// j % stages equal to its number.
double imbalance(const std::vector<double>& costs, const Bounds& bounds, int stages);

// One line per part: stage, chunk, entries with `names`, share of the whole cost.
std::string partition_table(const std::vector<std::string>& names, const std::vector<double>& costs,
                            const Bounds& bounds, int stages);

}  // namespace trireme
