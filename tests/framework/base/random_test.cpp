// Philox against the known answers of Random123, and what layout independence rests on.
#include "framework/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "framework/base/error.h"

namespace trireme {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, KnownAnswerForZeroKeyAndCounter) {
  EXPECT_EQ(philox({0}, 0), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
}

TEST(Philox, WordsOfABlockAreTheElementsInOrder) {
  const RngKey key = key_from_seed(7);
  for (std::uint64_t i = 0; i < 12; ++i) EXPECT_EQ(random_word(key, i), philox(key, i / 4)[i % 4]);
}

TEST(Philox, TheUpperHalfOfTheCounterCounts) {
  EXPECT_NE(philox({1}, 5), philox({1}, 5 + (std::uint64_t{1} << 32)));
}

TEST(RngKey, ChildrenAreStableAndDistinct) {
  const RngKey seed = key_from_seed(1234);
  std::set<std::uint64_t> seen;
  for (std::uint64_t tag = 0; tag < 1000; ++tag) seen.insert(seed.child(tag).value);
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(seed.child("dropout"), key_from_seed(1234).child("dropout"));
  EXPECT_NE(seed.child("dropout"), seed.child("dropouu"));
  EXPECT_NE(seed.child("a").child("b"), seed.child("b").child("a"));
}

TEST(RandomNormal, HasMeanZeroAndVarianceOne) {
  const RngKey key = key_from_seed(3);
  constexpr int kCount = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random_normal(key, static_cast<std::uint64_t>(i));
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.015);  // 4.7 standard errors
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);
}

TEST(RandomUniform, LiesInTheHalfOpenUnitInterval) {
  const RngKey key = key_from_seed(4);
  double sum = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const double x = random_uniform(key, i);
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);
  EXPECT_LT(uniform_from(0xffffffffu), 1.0f);
}

TEST(Dropout, ThresholdIsTheProbabilityOf32Bits) {
  EXPECT_EQ(dropout_threshold(0.0), 0u);
  EXPECT_EQ(dropout_threshold(0.5), 0x80000000u);
  EXPECT_EQ(dropout_threshold(0.1), 429496729u);
  EXPECT_THROW(dropout_threshold(1.0), Error);
  EXPECT_THROW(dropout_threshold(-0.1), Error);
}

}  // namespace
}  // namespace trireme
