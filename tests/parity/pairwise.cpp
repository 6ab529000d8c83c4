#include "tests/parity/pairwise.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <tuple>

#include "framework/base/random.h"

namespace trireme::parity {

namespace {

using Pair = std::tuple<std::size_t, int, std::size_t, int>;  // axis, value, axis, value

std::set<Pair> pairs_of(const Combination& c) {
  std::set<Pair> pairs;
  for (std::size_t a = 0; a < c.size(); ++a)
    for (std::size_t b = a + 1; b < c.size(); ++b) pairs.insert({a, c[a], b, c[b]});
  return pairs;
}

std::set<Pair> all_pairs(const std::vector<int>& sizes) {
  std::set<Pair> pairs;
  for (std::size_t a = 0; a < sizes.size(); ++a)
    for (std::size_t b = a + 1; b < sizes.size(); ++b)
      for (int i = 0; i < sizes[a]; ++i)
        for (int j = 0; j < sizes[b]; ++j) pairs.insert({a, i, b, j});
  return pairs;
}

}  // namespace

std::vector<Combination> pairwise(const std::vector<int>& sizes,
                                  const std::function<bool(const Combination&)>& legal) {
  std::set<Pair> missing = all_pairs(sizes);
  std::vector<Combination> chosen;
  std::uint64_t draw = 0;
  const RngKey key = key_from_seed(1);
  while (!missing.empty()) {
    const Pair wanted = *missing.begin();
    Combination best;
    std::size_t best_gain = 0;
    for (int attempt = 0; attempt < 200; ++attempt) {
      Combination c;
      for (int size : sizes)
        c.push_back(static_cast<int>(random_word(key, draw++) % static_cast<std::uint32_t>(size)));
      c[std::get<0>(wanted)] = std::get<1>(wanted);
      c[std::get<2>(wanted)] = std::get<3>(wanted);
      if (!legal(c)) continue;
      std::size_t gain = 0;
      for (const Pair& pair : pairs_of(c)) gain += missing.count(pair);
      if (gain > best_gain) {
        best_gain = gain;
        best = c;
      }
    }
    missing.erase(wanted);  // covered now, or no legal combination has it
    if (best.empty()) continue;
    for (const Pair& pair : pairs_of(best)) missing.erase(pair);
    chosen.push_back(best);
  }
  return chosen;
}

}  // namespace trireme::parity
