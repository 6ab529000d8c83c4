#include "pipeline/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "framework/base/error.h"
#include "framework/base/random.h"

namespace trireme {
namespace {

double largest(const std::vector<double>& costs, const Bounds& bounds) {
  const std::vector<double> sums = part_costs(costs, bounds);
  return *std::max_element(sums.begin(), sums.end());
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Partition, KnownCuts) {
  const std::vector<double> rising = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(partition_min_max(rising, 2), (Bounds{0, 4, 6}));
  EXPECT_EQ(largest(rising, partition_min_max(rising, 2)), 11);
  EXPECT_EQ(partition_min_max(rising, 3), (Bounds{0, 3, 5, 6}));
  EXPECT_EQ(largest(rising, partition_min_max(rising, 3)), 9);
  const std::vector<double> model = {.2, 1, 1, 1, 1, 1, 1, 2.5};
  EXPECT_EQ(partition_min_max(model, 4), (Bounds{0, 3, 5, 7, 8}));
  EXPECT_EQ(largest(model, partition_min_max(model, 4)), 2.5);
  EXPECT_EQ(partition_min_max({1, 5, 2, 2}, 3), (Bounds{0, 1, 2, 4}));
  EXPECT_EQ(largest({1, 5, 2, 2}, {0, 1, 2, 4}), 5);
}

TEST(Partition, LastPartIsTheLighterOne) {
  EXPECT_EQ(partition_min_max({1, 1, 1, 1, 1}, 2), (Bounds{0, 3, 5}));
  // Sums that differ only by rounding are ties too.
  EXPECT_EQ(partition_min_max({.1, .1, .1, .3, .3}, 2).size(), 3u);
  EXPECT_EQ(partition_min_max({.1, .2, .3, .3, .3}, 3), (Bounds{0, 3, 4, 5}));
}

// Against all ways to cut.
TEST(Partition, IsTheOptimum) {
  const RngKey key = key_from_seed(5);
  for (std::uint64_t trial = 0; trial < 40; ++trial) {
    std::vector<double> costs;
    for (std::uint64_t i = 0; i < 8; ++i)
      costs.push_back(std::floor(9 * random_uniform(key, trial * 8 + i)));
    for (int parts = 1; parts <= 8; ++parts) {
      double best = 1e300;
      std::function<void(Bounds)> cut = [&](Bounds bounds) {
        if (static_cast<int>(bounds.size()) == parts) {
          bounds.push_back(8);
          best = std::min(best, largest(costs, bounds));
          return;
        }
        const int used = static_cast<int>(bounds.size());
        for (int next = bounds.back() + 1; next <= 8 - (parts - used); ++next) {
          Bounds longer = bounds;
          longer.push_back(next);
          cut(longer);
        }
      };
      cut({0});
      const Bounds bounds = partition_min_max(costs, parts);
      ASSERT_EQ(largest(costs, bounds), best);
      for (int part = 0; part < parts; ++part)
        ASSERT_LT(bounds[static_cast<std::size_t>(part)],
                  bounds[static_cast<std::size_t>(part) + 1]);
    }
  }
}

TEST(Partition, Counts) {
  EXPECT_EQ(partition_by_counts({2, 3, 1}, 3, 6), (Bounds{0, 2, 5, 6}));
  EXPECT_EQ(error_of([] {
              partition_by_counts({2, 3, 2}, 3, 8);
            }),
            "the partition 2, 3, 2 has 7 list entries, but the model has 8");
  EXPECT_EQ(error_of([] {
              partition_by_counts({4, 4}, 4, 8);
            }),
            "the partition 4, 4 has 2 counts, but there are 4 parts (stages x chunks)");
  EXPECT_EQ(error_of([] {
              partition_by_counts({8, 0}, 2, 8);
            }),
            "the partition 8, 0 has a count of 0: use 1 or more");
}

TEST(Partition, Refusals) {
  EXPECT_EQ(
      error_of([] {
        partition_min_max({1, 1}, 3);
      }),
      "a model with 2 list entries cannot be cut into 3 parts (stages x chunks), none of them "
      "empty: use at most 2");
  EXPECT_EQ(error_of([] {
              partition_min_max({1, -1}, 2);
            }),
            "the cost of list entry 1 is -1: use a finite number, 0 or more");
  EXPECT_EQ(error_of([] {
              partition_min_max({1, 1}, 0);
            }),
            "a partition into 0 parts: use 1 or more");
}

TEST(Partition, ChunksAreDealtInTurn) {
  // Four parts on two stages: stage 0 has parts 0 and 2.
  const std::vector<double> costs = {3, 1, 3, 1};
  EXPECT_EQ(imbalance(costs, {0, 1, 2, 3, 4}, 2), 1.5);
  EXPECT_EQ(imbalance(costs, {0, 2, 4}, 2), 1);
  EXPECT_EQ(partition_table({"embedding", "layer 0", "layer 1", "head"}, costs, {0, 1, 2, 3, 4}, 2),
            "stage 0 chunk 0  37.5%  embedding\n"
            "stage 1 chunk 0  12.5%  layer 0\n"
            "stage 0 chunk 1  37.5%  layer 1\n"
            "stage 1 chunk 1  12.5%  head\n");
  EXPECT_EQ(partition_table({"embedding", "layer 0", "layer 1", "head"}, costs, {0, 2, 4}, 2),
            "stage 0  50.0%  embedding .. layer 0\n"
            "stage 1  50.0%  layer 1 .. head\n");
}

}  // namespace
}  // namespace trireme
