#include "pipeline/partition.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "framework/base/error.h"

namespace trireme {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

void check_parts(int parts, int entries) {
  check(parts >= 1, "a partition into ", parts, " parts: use 1 or more");
  check(entries >= parts, "a model with ", entries, " list entries cannot be cut into ", parts,
        " parts (stages x chunks), none of them empty: use at most ", entries);
}

// Of the cuts before entry n that reach the best maximum, the last one: the lightest last part.
class Cutter {
 public:
  Cutter(const std::vector<double>& costs, int parts)
      : entries_(static_cast<int>(costs.size())), sums_(costs.size() + 1) {
    std::partial_sum(costs.begin(), costs.end(), sums_.begin() + 1);
    // Equal sums may differ by rounding; that must not decide ties.
    tolerance_ = 1e-12 * sums_.back();
    const std::vector<double> never(costs.size() + 1, std::numeric_limits<double>::infinity());
    best_.assign(at(parts) + 1, never);
    cut_.assign(at(parts) + 1, std::vector<int>(costs.size() + 1, 0));
    best_[0][0] = 0;
    for (int k = 1; k <= parts; ++k)
      for (int n = k; n <= entries_; ++n) solve(k, n);
  }

  Bounds bounds(int parts) const {
    Bounds result(at(parts) + 1);
    result[at(parts)] = entries_;
    for (int k = parts; k > 0; --k) result[at(k - 1)] = cut_[at(k)][at(result[at(k)])];
    return result;
  }

 private:
  void solve(int k, int n) {
    for (int cut = k - 1; cut < n; ++cut) {
      const double most = std::max(best_[at(k - 1)][at(cut)], sums_[at(n)] - sums_[at(cut)]);
      if (most > best_[at(k)][at(n)] + tolerance_) continue;
      best_[at(k)][at(n)] = std::min(most, best_[at(k)][at(n)]);
      cut_[at(k)][at(n)] = cut;
    }
  }

  int entries_;
  std::vector<double> sums_;
  double tolerance_ = 0;
  std::vector<std::vector<double>> best_;  // [parts][entries]: the smallest maximum
  std::vector<std::vector<int>> cut_;      // where its last part begins
};

}  // namespace

Bounds partition_min_max(const std::vector<double>& costs, int parts) {
  check_parts(parts, static_cast<int>(costs.size()));
  for (std::size_t i = 0; i < costs.size(); ++i)
    check(std::isfinite(costs[i]) && costs[i] >= 0, "the cost of list entry ", i, " is ", costs[i],
          ": use a finite number, 0 or more");
  return Cutter(costs, parts).bounds(parts);
}

Bounds partition_by_counts(const std::vector<int>& counts, int parts, int entries) {
  check_parts(parts, entries);
  std::string listed;
  for (int count : counts) listed += join(listed.empty() ? "" : ", ", count);
  check(counts.size() == at(parts), "the partition ", listed, " has ", counts.size(),
        " counts, but there are ", parts, " parts (stages x chunks)");
  for (int count : counts)
    check(count >= 1, "the partition ", listed, " has a count of ", count, ": use 1 or more");
  const int sum = std::accumulate(counts.begin(), counts.end(), 0);
  check(sum == entries, "the partition ", listed, " has ", sum, " list entries, but the model has ",
        entries);
  Bounds bounds(at(parts) + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), bounds.begin() + 1);
  return bounds;
}

std::vector<double> part_costs(const std::vector<double>& costs, const Bounds& bounds) {
  check(bounds.size() >= 2 && at(bounds.back()) == costs.size(), "a partition of ",
        bounds.empty() ? 0 : bounds.back(), " entries does not fit ", costs.size(), " costs");
  std::vector<double> sums;
  for (std::size_t part = 0; part + 1 < bounds.size(); ++part)
    sums.push_back(
        std::accumulate(costs.begin() + bounds[part], costs.begin() + bounds[part + 1], 0.0));
  return sums;
}

double imbalance(const std::vector<double>& costs, const Bounds& bounds, int stages) {
  check(stages >= 1, "a pipeline of ", stages, " stages: use 1 or more");
  const std::vector<double> parts = part_costs(costs, bounds);
  std::vector<double> by_stage(at(stages), 0.0);
  for (std::size_t part = 0; part < parts.size(); ++part)
    by_stage[part % at(stages)] += parts[part];
  const double whole = std::accumulate(parts.begin(), parts.end(), 0.0);
  return whole > 0 ? *std::max_element(by_stage.begin(), by_stage.end()) * stages / whole : 1;
}

std::string partition_table(const std::vector<std::string>& names, const std::vector<double>& costs,
                            const Bounds& bounds, int stages) {
  check(names.size() == costs.size(), names.size(), " names for ", costs.size(), " costs");
  const std::vector<double> parts = part_costs(costs, bounds);
  const double whole = std::accumulate(parts.begin(), parts.end(), 0.0);
  const bool chunked = parts.size() > at(stages);
  std::string table;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::string& first = names[at(bounds[part])];
    const std::string& last = names[at(bounds[part + 1] - 1)];
    char share[16];
    std::snprintf(share, sizeof share, "%5.1f%%", whole > 0 ? 100 * parts[part] / whole : 0.0);
    table += join("stage ", part % at(stages));
    if (chunked) table += join(" chunk ", part / at(stages));
    table += join(" ", share, "  ", first == last ? first : first + " .. " + last, "\n");
  }
  return table;
}

}  // namespace trireme
