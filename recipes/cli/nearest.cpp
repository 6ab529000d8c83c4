#include "recipes/cli/nearest.h"

#include <algorithm>

#include "recipes/cli/keys.h"

namespace trireme {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      int replaced = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  int least = static_cast<int>(word.size()) / 2 + 1;
  for (const auto& candidate : candidates) {
    int distance = edit_distance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

std::string nearest_key(std::string_view word) {
  std::string_view name = word.substr(word.rfind('.') + 1);  // npos + 1 = 0
  std::string best;
  int least = static_cast<int>(word.size()) / 2 + 1;
  for (const Key& key : keys()) {
    int distance = edit_distance(word, key.full_name());
    // The right name without a section, or under a wrong one, is a small mistake.
    int by_name = edit_distance(name, key.name);
    if (by_name <= static_cast<int>(name.size()) / 3) distance = std::min(distance, by_name + 1);
    if (distance >= least) continue;
    least = distance;
    best = key.full_name();
  }
  return best;
}

}  // namespace trireme
