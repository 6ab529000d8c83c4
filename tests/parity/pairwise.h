// A short list of combinations in which every legal pair of values of any two axes occurs.
#pragma once

#include <functional>
#include <vector>

namespace trireme::parity {

using Combination = std::vector<int>;  // one value index per axis

// `sizes[a]` values on axis a; `legal` judges whole combinations. Greedy and deterministic. Pairs
// that no legal combination has are left out.
std::vector<Combination> pairwise(const std::vector<int>& sizes,
                                  const std::function<bool(const Combination&)>& legal);

}  // namespace trireme::parity
