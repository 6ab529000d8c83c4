// Scaled frequencies of published models (Llama 3.1 and 3.2), from their formula in f64.
#include "framework/backend/rope.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace trireme::test {
namespace {

RopeScaling llama3(double factor) {
  return {
      .kind = RopeScaling::Kind::kLlama3, .factor = factor, .low = 1, .high = 4, .original = 8192};
}

void expect_frequencies(std::int64_t head_dim, const RopeScaling& scaling,
                        const std::vector<std::pair<std::int64_t, double>>& expected) {
  for (const auto& [i, frequency] : expected)
    EXPECT_NEAR(rope_frequency(5e5, head_dim, i, scaling), frequency, 1e-8 * frequency) << i;
}

TEST(Rope, FrequenciesOfLlama32With1B) {
  expect_frequencies(64, llama3(32),
                     {{14, 3.21144599e-3},
                      {15, 1.29054793e-3},
                      {16, 4.29556797e-4},
                      {17, 9.7082878e-5},
                      {18, 1.94616382e-5},
                      {31, 9.41830673e-8}});
}

TEST(Rope, FrequenciesOfLlama31With8B) {
  expect_frequencies(128, llama3(8),
                     {{28, 3.21144599e-3},
                      {29, 2.16657076e-3},
                      {32, 5.24846161e-4},
                      {34, 1.78507813e-4},
                      {35, 9.55621235e-5},
                      {63, 3.06892599e-7}});
}

TEST(Rope, LinearDividesEveryFrequency) {
  const RopeScaling scaling{.kind = RopeScaling::Kind::kLinear, .factor = 4};
  for (const std::int64_t i : {0, 5, 31})
    EXPECT_EQ(rope_frequency(1e4, 64, i, scaling), rope_frequency(1e4, 64, i, {}) / 4);
}

}  // namespace
}  // namespace trireme::test
