#include "recipes/commands/score_windows.h"

#include <algorithm>

namespace trireme {

std::int64_t ScoreWindows::count() const {
  const std::int64_t beyond = std::max<std::int64_t>(0, tokens - 1 - window);
  return 1 + (beyond + stride - 1) / stride;
}

std::int64_t ScoreWindows::end(std::int64_t k) const {
  return std::min(begin(k) + window, tokens - 1);
}

std::int64_t ScoreWindows::first_scored(std::int64_t k) const {
  return k == 0 ? 1 : last_scored(k - 1);
}

}  // namespace trireme
